#!/bin/sh
# collect-root.sh DIRECTORY NODE: fills DIRECTORY with a root file system that can run the bundled program: the given
# Node as /usr/bin/node, the shared libraries it is linked with (at the paths where the loader looks), and dist/app.
set -eu
root=$1
node=$(readlink -f -- "$2")
cd -- "$(dirname -- "$0")/.."

rm -rf -- "$root"
mkdir -p "$root/app" "$root/etc" "$root/usr/bin" "$root/tmp"
cp -- "$node" "$root/usr/bin/node"
if command -v strip >/dev/null; then strip "$root/usr/bin/node"; fi
ldd "$node" | sed -n 's/.*\(=> *\|^[[:space:]]*\)\(\/[^ ]*\) (.*/\2/p' | while read -r library; do
  mkdir -p "$root$(dirname -- "$library")"
  cp -L -- "$library" "$root$library"
done
cp -R dist/app/. "$root/app/"
# Without it the name localhost cannot be resolved outside of a container runtime that brings its own.
printf '127.0.0.1 localhost\n::1 localhost\n' > "$root/etc/hosts"
