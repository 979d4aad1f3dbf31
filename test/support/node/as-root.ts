// What changes this machine (networks, mounts, other users' files) is done as root.
/** `command` as root: it is ours already, or sudo gives it without a password. */
export function asRoot(command: string, args: readonly string[]): [command: string, args: string[]] {
  return process.getuid?.() === 0 ? [command, [...args]] : ['sudo', ['-n', command, ...args]];
}
