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

# The one that test/controlplane asks for, as a module of the Go module proxy, which has it for every Linux.
go_version=1.25.0
# As in test/support/cluster/binaries.ts.
own_go=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/kube-cert-recovery/go

# From 1.21 on Go fetches the version that it needs. The demo's binaries may also be brought.
has_go() {
  for go in "$(command -v go)" "${GOROOT:-/usr/local/go}/bin/go" "$own_go/bin/go"; do
    [ -x "$go" ] || continue
    case $("$go" version) in
      *' go1.'[0-9].* | *' go1.1'[0-9]* | *' go1.20'*) ;;
      *) return 0 ;;
    esac
  done
  [ "$wanted" = demo ] && { [ -n "${KUBEBUILDER_ASSETS:-}" ] || command -v docker >/dev/null; }
}

# The sums are those of the files that sum.golang.org vouches for (h1:wVC9wx2X..., h1:hHtJUQup...).
fetch_go() {
  case $(uname -m) in
    x86_64) arch=amd64 sum=891083c63e4d7a5020bdaa1911a9c5a1a966b993d9d3c1137d1727be04435e02 ;;
    aarch64) arch=arm64 sum=5b6d398c5062f2094ea8efd8487bd93f4b5a2876cbab4d635e747da9567b7705 ;;
    *) return 1 ;;
  esac
  proxy=${GOPROXY:-https://proxy.golang.org}
  module=v0.0.1-go$go_version.linux-$arch
  echo "fetching Go $go_version (64 MB, once)" >&2
  rm -rf "$own_go.new"
  mkdir -p "$own_go.new"
  curl -fsSL -o "$own_go.new/zip" "${proxy%%[,|]*}/golang.org/toolchain/@v/$module.zip"
  echo "$sum  $own_go.new/zip" | sha256sum -c --status || return 1
  unzip -q -d "$own_go.new" "$own_go.new/zip"
  chmod -R +x "$own_go.new/golang.org/toolchain@$module/bin" "$own_go.new/golang.org/toolchain@$module/pkg/tool"
  mv "$own_go.new/golang.org/toolchain@$module" "$own_go"
  rm -rf "$own_go.new"
}

# Those that are not there: command, packages of Debian and Ubuntu (of Go the one that fetches it), what for. `npm test` needs what the demo needs, too.
missing() {
  while read -r set command package purpose; do
    [ "$set" = demo ] || [ "$wanted" = test ] || continue
    is_there "$command" || echo "$command $package $purpose"
  done <<'END'
demo npm npm brings Node and the packages (7 or newer)
demo go curl builds the control plane, once (1.21 or newer)
demo openssl openssl makes certificates, and reads ours as a second opinion
test git git names the commit of a build
test strace strace shows the order of writes
test ip iproute2 takes routes away
test dockerd docker.io runs nodes as containers
test debootstrap debootstrap makes the disk of these nodes
test systemd-analyze systemd judges units
test unshare util-linux gives tests networks and mounts of their own
test strip binutils makes the image as small as it is shipped
test dpkg dpkg installs a package below a directory
test promtool prometheus checks alerts, and its server scrapes and evaluates them
test rpmbuild rpm does so with that of other distributions, and makes one for a test
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
while read -r command package _; do
  case $command in
    go) packages="$packages curl unzip ca-certificates" ;;
    *) packages="$packages $package" ;;
  esac
done <<END
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
has_go || fetch_go || refuse 'Go could not be fetched. Install it'
lines=$(missing)
[ -z "$lines" ] || refuse "apt-get has installed$packages, which did not bring these, or too old ones. Install them"
