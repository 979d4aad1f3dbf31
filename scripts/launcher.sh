#!/bin/sh
# Starts kube-cert-recovery from any directory and through symbolic links, with the Node that the project brings before
# one on the PATH. scripts/build.ts writes it to dist, with its flags of Node.
flags='NODE_FLAGS'
export MALLOC_ARENA_MAX=1 # one heap of glibc for all threads takes less than one for each
# What a shell says must not keep a recovery waiting (--inspect-brk), change whom it trusts, or print what it sends.
unset NODE_OPTIONS NODE_TLS_REJECT_UNAUTHORIZED NODE_EXTRA_CA_CERTS NODE_USE_SYSTEM_CA SSL_CERT_FILE SSL_CERT_DIR NODE_DEBUG
# Links are followed once: Node and all modules are of one version, also while a link to another one is put in place.
self=$(PATH="${PATH-}:/usr/bin:/bin" readlink -f -- "$0") || exit 1
here=${self%/*}
for node in "$here/node" "$here/../node_modules/.bin/node"; do
  [ -x "$node" ] || continue
  # Runs where exec fails, and the shell is dash: Debian's and Ubuntu's.
  trap 'echo "Cannot run kube-cert-recovery: its Node does not start on this machine ($(uname -m)). Build it on one of the same architecture; it needs glibc 2.28 or newer." >&2' EXIT
  exec "$node" $flags "$here/app/main.mjs" "$@"
done
command -v node >/dev/null || {
  echo 'Cannot run kube-cert-recovery: no Node. Put Node 24 beside it as "node", or on the PATH; in the project run "npm run build".' >&2
  exit 1
}
exec node $flags "$here/app/main.mjs" "$@"
