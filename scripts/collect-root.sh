#!/bin/sh
# collect-root.sh DIRECTORY NODE: fills DIRECTORY with a root file system that can run Node and nothing else: the given
# Node as /usr/bin/node, without its symbols where strip is there, and the shared libraries that it is linked with, at
# the paths where the loader looks.
set -eu
root=$1
node=$(readlink -f -- "$2")

rm -rf -- "$root"
mkdir -p "$root/etc" "$root/licenses" "$root/usr/bin"
cp -- "$node" "$root/usr/bin/node"
if command -v strip >/dev/null; then strip "$root/usr/bin/node"; fi
ldd "$node" | sed -n 's/.*\(=> *\|^[[:space:]]*\)\(\/[^ ]*\) (.*/\2/p' | while read -r library; do
  mkdir -p "$root$(dirname -- "$library")"
  cp -L -- "$library" "$root$library"
  # Debian's file of the package that the library comes from.
  if command -v dpkg-query >/dev/null; then
    package=$(dpkg-query -S "$library" 2>/dev/null || dpkg-query -S "/usr$library" 2>/dev/null || true)
    package=${package%%:*}
    notice=/usr/share/doc/$package/copyright
    if [ -n "$package" ] && [ -e "$notice" ]; then cp -L -- "$notice" "$root/licenses/$package"; fi
  fi
done
# Node is distributed with its licence.
licence=${node%/bin/*}/LICENSE
[ -e "$licence" ] || {
  echo "Cannot build: the licence of Node is not at $licence" >&2
  exit 1
}
cp -- "$licence" "$root/licenses/node"
# Without it the name localhost cannot be resolved outside of a container runtime that brings its own.
printf '127.0.0.1 localhost\n::1 localhost\n' > "$root/etc/hosts"
chroot "$root" /usr/bin/node --version
