#!/bin/sh
# Before the package is removed (dpkg: "remove", rpm: the number of versions that stay): names what `init host` has installed.
# That is the administrator's and stays, as do certificates, copies and everything else of the cluster.
set -e
case ${1:-} in
  remove | 0) ;;
  *) exit 0 ;;
esac
units=${DPKG_ROOT:-}/etc/systemd/system
set --
for unit in "$units"/kube-cert-recovery*.service "$units"/kube-cert-recovery.timer "$units"/*.d/20-kube-cert-recovery.conf; do
  [ ! -e "$unit" ] || set -- "$@" "$unit"
done
[ $# -gt 0 ] || exit 0
copy=/opt/kube-cert-recovery/bin/kube-cert-recovery
{
  echo 'The units of "kube-cert-recovery init host" stay:'
  printf '  %s\n' "$@"
  if [ -e "${DPKG_ROOT:-}$copy" ]; then
    echo "They repair this machine as before, with a copy of the program. To remove both: $copy uninstall host"
  else
    echo 'They can repair nothing without the program. The kubelet starts as before. To remove them:'
    echo "  systemctl disable --now kube-cert-recovery.timer; rm $*; systemctl daemon-reload"
  fi
} >&2
