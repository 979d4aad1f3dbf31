#!/bin/sh
# What a control-plane machine does when it is switched on: the container runtime, the images once, then the kubelet
# with the command of the systemd drop-in before each of its starts, as systemd would run it (failure ignored, bounded).
# Files in /var/lib/machine switch parts off or on: no-recovery, no-kubelet, no-cni, timer. With the argument "systemd", systemd
# itself does all that, from the units of a machine where kubeadm's packages are installed.
machine=/var/lib/machine
mkdir -p /etc/cni/net.d /var/lib/kubelet "$machine" /run/machine
since_boot() { echo "$1 $(date +%s%3N)" >> /run/machine/times; }

runtime_ready() {
  until ctr version > /dev/null 2>&1; do sleep 0.05; done
  since_boot runtime
  if [ ! -e "$machine/images-imported" ]; then
    for archive in /images/*.tar; do ctr -n k8s.io images import "$archive" >> /var/log/import.log 2>&1 || exit 1; done
    touch "$machine/images-imported"
  fi
  touch /run/machine/runtime-ready
}
[ "${1-}" = images ] && { runtime_ready; exit; }

# A container is given these read-only or private; a kubelet needs them as a machine has them.
mount --make-rshared /
mount -o remount,rw /sys
for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/*; do mount -o remount,bind,rw "$hierarchy" 2>/dev/null; done

since_boot start
# Else a Pod of the cluster brings it, and the node is not Ready until that has run.
if [ -e "$machine/no-cni" ]; then rm -f /etc/cni/net.d/*; else cp /usr/local/share/machine-cni/* /etc/cni/net.d/; fi
# What a test wants to have happened while the machine was off.
[ -e "$machine/at-boot" ] && sh "$machine/at-boot" && rm "$machine/at-boot"
if [ "${1-}" = systemd ]; then
  # systemd looks for this to know that it is in a container.
  export container=docker
  # What an installer has put there stays.
  cp -Rn /usr/local/share/machine-units/. /etc/systemd/system
  for unit in machine-images.service kubelet.service; do
    ln -sf "/etc/systemd/system/$unit" "/etc/systemd/system/multi-user.target.wants/$unit"
  done
  # Whatever cloud this machine may see, its own test starts it.
  touch /etc/cloud/cloud-init.disabled
  # What belongs to real hardware, and what would set values of the kernel that all machines here share.
  for unit in systemd-udevd.service systemd-udevd-control.socket systemd-udevd-kernel.socket systemd-udev-trigger.service \
    systemd-sysctl.service systemd-modules-load.service systemd-timesyncd.service systemd-networkd.service getty.target; do
    ln -sf /dev/null "/etc/systemd/system/$unit"
  done
  exec /sbin/init --unit=multi-user.target
fi

# cgroup v2: a cgroup that has children with controllers may hold no processes itself.
if [ -f /sys/fs/cgroup/cgroup.controllers ]; then
  mkdir -p /sys/fs/cgroup/machine
  while read -r pid; do echo "$pid" > /sys/fs/cgroup/machine/cgroup.procs; done < /sys/fs/cgroup/cgroup.procs
  sed 's/^/+/; s/ / +/g' /sys/fs/cgroup/cgroup.controllers > /sys/fs/cgroup/cgroup.subtree_control
fi

# The kernel has been up for longer than this machine. A time namespace gives its pods and its services the uptime that they
# would see.
own_uptime=
unshare --time true 2>/dev/null && own_uptime="unshare --time --boottime=-$(cut -d. -f1 /proc/uptime) --fork --kill-child"
# Unquoted: several words, or none.
$own_uptime containerd --config /etc/containerd/machine.toml > /var/log/containerd.log 2>&1 &
runtime_ready &

# What the timer starts, if there is one.
recovery_service() {
  # One at a time, as systemd does it.
  [ ! -e "$machine/timer" ] || flock -n /run/machine/service $own_uptime timeout 300 sh -c "$RECOVERY_SERVICE" \
    >> /var/log/recovery-service.log 2>&1
}
# Where there is no systemd a loop runs the service once a minute, by the clock: so also after a suspend.
(
  last=$(date +%M)
  while sleep 1; do
    now=$(date +%M)
    [ "$now" = "$last" ] && continue
    last=$now
    recovery_service
  done
) &

while :; do
  if [ -f /var/lib/kubelet/config.yaml ] && [ ! -e "$machine/no-kubelet" ]; then
    if [ ! -e "$machine/no-recovery" ]; then
      since_boot command
      $own_uptime timeout 60 sh -c "$RECOVERY_BEFORE_KUBELET" >> /var/log/recovery.log 2>&1
      echo "exit code $?" >> /var/log/recovery.log
    fi
    since_boot recovered
    until [ -e /run/machine/runtime-ready ]; do sleep 0.05; done
    since_boot kubelet
    # As the drop-in wants it.
    recovery_service &
    . /var/lib/kubelet/kubeadm-flags.env
    # Unquoted: the variable holds several words, as in kubeadm's own unit file.
    kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf \
      --config=/var/lib/kubelet/config.yaml $KUBELET_KUBEADM_ARGS >> /var/log/kubelet.log 2>&1
    echo "kubelet exited with code $?" >> /var/log/kubelet.log
    sleep 1
  fi
  sleep 0.1
done
