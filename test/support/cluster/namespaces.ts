// Options of unshare, for what is run apart from the rest of this machine.

/** A user who is not root becomes it in a user namespace: chroot, mounts and networks need it. */
export const asRoot: readonly string[] = process.getuid?.() === 0 ? [] : ['--map-root-user'];

/**
 * In a PID namespace of its own, which ends with unshare. Every kubeadm runs so: whatever else is tested on this machine at
 * the same time refuses to write beside one that it sees.
 */
export const unseen: readonly string[] = ['--pid', '--fork', '--mount-proc', '--kill-child'];
