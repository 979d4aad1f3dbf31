#!/bin/sh
# After the package is installed (dpkg and rpm). The units of `init host` are the administrator's. They start a copy of
# the program, or a file of a former package, which is gone now: only `init host` brings them to this version.
set -e
[ ! -e "${DPKG_ROOT:-}/etc/systemd/system/kube-cert-recovery.service" ] ||
  echo 'The units start the former version, or nothing if it is gone, until you run: kube-cert-recovery init host' >&2
