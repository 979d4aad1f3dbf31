// A shell on a machine that is files below a directory: it finds them where a machine has them, in a mount namespace with an
// /etc, a /var/lib, a /run and an /opt of its own, and kube-cert-recovery, as it was built, on the PATH.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { root as project } from '../../docs/markdown.ts';
import type { Outcome } from './kubeadm-machine.ts';
import { asRoot, unseen } from './namespaces.ts';

export interface MachineShell {
  /** Lines that prepare the machine further, before each command. */
  readonly place?: string;
  /** Whether it has the network of this machine. Default: none. */
  readonly network?: boolean;
  readonly env?: Readonly<Record<string, string>>;
}

const places = `set -e
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /etc
mkdir /etc/kubernetes && mount --bind "$1/etc/kubernetes" /etc/kubernetes
mount --bind "$1/var/lib" /var/lib
mkdir -p "$1/opt" "$1/commands"
mount --bind "$1/opt" /opt # where init host copies the program, and links it into
mount --bind "$1/commands" /usr/local/bin
`;

/** The command as it is written, on the machine below `root`. */
export function onMachine(
  root: string,
  command: string,
  { place = '', network = false, env: more = {} }: MachineShell = {},
): Promise<Outcome> {
  const namespaces = [...asRoot, '--mount', ...(network ? [] : ['--net']), ...unseen];
  const { NODE_EXTRA_CA_CERTS: _own, ...env } = process.env;
  const path = `${join(project, 'dist')}:${process.env['PATH'] ?? ''}`;
  const options = { cwd: root, maxBuffer: 1 << 26, env: { ...env, PATH: path, ...more } };
  return new Promise((resolve) => {
    execFile(
      'unshare',
      [...namespaces, 'sh', '-c', `${places}${place}${command}`, 'sh', root],
      options,
      (err, stdout, stderr) => {
        resolve({ stdout, stderr, code: err === null ? 0 : typeof err.code === 'number' ? err.code : -1 });
      },
    );
  });
}
