#!/bin/sh
# own-processes.sh COMMAND [ARGUMENT...]: runs the command where it sees no process but its own. The program that is tested
# writes nothing beside a kubeadm that it sees, and on this machine others may run one. It needs root, or sudo without a
# password; without the right it says so in one line, and the command runs among all others.
# KCR_SCRATCH names a directory in memory that goes with the command, where there is memory for that: tests write files that
# are synced, and lose no power.
# SIGTERM and SIGHUP are passed on, Ctrl-C reaches the command by itself, its exit code is ours. Nothing of it runs on.
set -u
exec 3<&0 # a shell gives its background processes another standard input

# Waits for a child, whatever signal interrupts that, and ends as it has ended. Shells forget those they have waited for.
end_like() {
  trap 'kill -TERM "$1"' TERM
  trap 'kill -HUP "$1"' HUP
  trap : INT QUIT
  while wait "$1"; code=$?; kill -0 "$1" 2>/dev/null; do :; done
}

case ${1:-} in
  # In a mount namespace of its own. The first process that it starts is the first one of a PID namespace, which ends with it.
  --before)
    shift
    setpriv --pdeathsig KILL "$0" --first "$@" <&3 3<&- &
    end_like $!
    exit "$code"
    ;;
  # When it ends, the kernel kills all others: a Docker daemon that ends with the run gets half a minute for that.
  --first)
    shift
    mount -t proc proc /proc
    # One that it is in already stays.
    if [ -z "${KCR_SCRATCH-}" ] && [ "$(sed -n 's/^MemAvailable: *\([0-9]*\) kB$/\1/p' /proc/meminfo)" -gt 12000000 ] &&
      mount -t tmpfs -o mode=1777 tmpfs /dev/shm 2>/dev/null; then
      export KCR_SCRATCH=/dev/shm
    fi
    env --default-signal=INT,QUIT "$@" <&3 3<&- & # and has them ignore these
    end_like $!
    tries=300
    while set -- /proc/[0-9]* && [ $# -gt 1 ] && [ $tries -gt 0 ]; do
      sleep 0.1
      tries=$((tries - 1))
    done
    exit "$code"
    ;;
esac

as_root='' as_user=''
if [ "$(id -u)" != 0 ]; then
  as_root='sudo -n -E'
  as_user="setpriv --reuid=$(id -u) --regid=$(id -g) --init-groups"
fi
# shellcheck disable=SC2086 # words
if ! $as_root unshare --pid --fork --mount-proc setpriv true 2>/dev/null; then
  echo 'Running among all processes of this machine (to be apart needs root, or sudo without a password): tests fail beside a kubeadm.' >&2
  exec "$@" 3<&-
fi
# shellcheck disable=SC2086 # words
exec $as_root unshare --pid --mount "$0" --before $as_user env ${HOME+"HOME=$HOME"} "PATH=$PATH" "$@"
