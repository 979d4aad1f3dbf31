// A real systemd without a machine of its own: the instance of a user, which takes units and calls as that of a machine.
import { mkdir, mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SupervisedProcess } from './cluster/process.ts';
import { eventually } from './eventually.ts';

export interface UserSystemd extends AsyncDisposable {
  /** A directory that goes with it. */
  readonly root: string;
  /** Directory of its units. */
  readonly units: string;
  readonly socketPath: string;
}

export async function startUserSystemd(): Promise<UserSystemd> {
  const root = await mkdtemp(join(tmpdir(), 'bus-'));
  const [units, socketPath] = [join(root, 'systemd/user'), join(root, 'systemd/private')];
  await mkdir(units, { recursive: true });
  // It refuses where systemd has not booted. It knows no user of another PID namespace than its own and those below it.
  const script = 'mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system && exec /usr/bin/systemd --user';
  const systemd = new SupervisedProcess({
    name: 'systemd',
    command: 'unshare',
    args: ['--mount', 'sh', '-c', script],
    env: { ...process.env, XDG_RUNTIME_DIR: root, XDG_CONFIG_HOME: join(root, 'config'), HOME: root },
    logFile: join(root, 'log'),
  });
  await eventually(() => stat(socketPath));
  const end = async (): Promise<void> => {
    await systemd.stop();
    await rm(root, { recursive: true, force: true });
  };
  return { root, units, socketPath, [Symbol.asyncDispose]: end };
}

/**
 * Script of one process, which notes in files that it runs, and half a second after SIGTERM that it ends. A shell would
 * start others meanwhile, which may outlive the signal.
 */
export const slowToEnd = (began: string, ended: string): string =>
  `exec ${process.execPath} -e "const { writeFileSync: note } = require('node:fs');
process.on('SIGTERM', () => setTimeout(() => process.exit(note('${ended}', '') ?? 1), 500));
setTimeout(() => undefined, 30_000);
note('${began}', '')"`;
