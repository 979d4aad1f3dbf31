#!/bin/sh
# setup.sh [demo|test]: makes a fresh clone able to run. Installs what that npm script needs from the system, and the
# pinned dependencies, Node among them, when they are absent or older than the lock file. Says what it does, and is
# silent when all is there.
set -eu
cd -- "$(dirname -- "$0")/.."

[ $# = 0 ] || scripts/system-packages.sh "$1"

# npm writes this file last, so it is there only after a complete installation.
installed=node_modules/.package-lock.json
if [ -x node_modules/.bin/node ] && [ -f "$installed" ] && [ -z "$(find package-lock.json -newer "$installed")" ]; then
  exit 0
fi
command -v npm >/dev/null || {
  echo 'Cannot install the dependencies: npm is not on the PATH. Install Node.js with npm 10 or newer.' >&2
  exit 1
}
echo 'installing dependencies and Node 24 with npm ci (about half a minute, once) ...' >&2
started=$(date +%s)
# No package's own scripts are run: they would run as the user who installs, in the image build as root.
npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >&2
touch "$installed" # npm keeps the time of a file that it did not have to change
[ -x node_modules/.bin/node ] || {
  echo "Cannot run: npm brought no Node for $(uname -s) $(uname -m); it has one for Linux on x86_64 and aarch64." >&2
  exit 1
}
echo "installing dependencies and Node 24 with npm ci ... $(($(date +%s) - started)) s, done" >&2
