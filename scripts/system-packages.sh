#!/bin/sh
# system-packages.sh demo|test [--list]: brings what `npm run demo` or `npm test` needs from the system. On Debian and
# Ubuntu it installs what is missing, as root or with sudo; elsewhere it names all that is missing and fails, before
# anything long has begun. Silent when all is there. --list prints what is missing and installs nothing.
set -eu
wanted=${1:?demo or test}
# What only root uses is not on everybody's PATH.
export PATH="$PATH:/usr/sbin:/sbin"

is_there() {
  case $1 in
    go) has_go ;;
    # The daemon may be elsewhere.
    dockerd) command -v dockerd >/dev/null || [ -n "${DOCKER_HOST:-}" ] || [ -S /var/run/docker.sock ] ;;
    *) command -v "$1" >/dev/null ;;
  esac
}

# From 1.21 on it fetches the version that test/controlplane asks for. The demo's binaries may also be brought.
has_go() {
  go=$(command -v go || echo /usr/local/go/bin/go)
  case $([ ! -x "$go" ] || "$go" version) in
    '' | *' go1.'[0-9].* | *' go1.1'[0-9]* | *' go1.20'*)
      [ "$wanted" = demo ] && { [ -n "${KUBEBUILDER_ASSETS:-}" ] || command -v docker >/dev/null; }
      ;;
  esac
}

# Those that are not there: command, package of Debian and Ubuntu, what for. `npm test` needs what the demo needs, too.
missing() {
  while read -r set command package purpose; do
    [ "$set" = demo ] || [ "$wanted" = test ] || continue
    is_there "$command" || echo "$command $package $purpose"
  done <<'END'
demo npm npm brings Node and the packages (10 or newer)
demo go golang-go builds the control plane, once (1.21 or newer)
demo openssl openssl makes certificates, and reads ours as a second opinion
test strace strace shows the order of writes
test ip iproute2 takes routes away
test dockerd docker.io runs nodes as containers
test debootstrap debootstrap makes the disk of these nodes
test systemd-analyze systemd judges units
test unshare util-linux gives tests networks and mounts of their own
test strip binutils makes the image as small as it is shipped
test setfattr attr gives files what a renewal must keep: extended attributes
test setfacl acl gives files what a renewal must keep: access control lists
END
}

lines=$(missing)
[ -n "$lines" ] || exit 0
if [ "${2:-}" = --list ]; then
  echo "$lines"
  exit 0
fi

refuse() {
  echo 'Cannot go on without these commands:' >&2
  while read -r command _ purpose; do echo "  $command: $purpose" >&2; done <<END
$lines
END
  echo "$1, and run the same command again." >&2
  exit 1
}

packages=
while read -r _ package _; do packages="$packages $package"; done <<END
$lines
END

command -v apt-get >/dev/null || refuse 'Install them'
if [ "$(id -u)" = 0 ]; then
  as_root=
elif command -v sudo >/dev/null; then
  as_root=sudo
else
  refuse "Become root for: apt-get install$packages"
fi
echo "installing$packages" >&2
$as_root apt-get update -qq
# shellcheck disable=SC2086 # words
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >&2
lines=$(missing)
[ -z "$lines" ] || refuse "apt-get has installed$packages, which did not bring these, or too old ones. Install them"
