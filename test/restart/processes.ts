// Processes that look like components: their names and flags, in namespaces of their own where that is asked for. They
// wait for an input that never comes, and end on SIGTERM or when the test ends.
import { type ChildProcess, spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { guard } from '../support/cluster/process.ts';

const asRoot = process.getuid?.() === 0 ? [] : ['--map-root-user'];

export interface Pretended {
  /** argv[0]. */
  readonly name: string;
  readonly file: string;
  /** The flag that names the file. */
  readonly flag?: string;
  /** Options of unshare; nothing: in our namespaces. */
  readonly unshare?: readonly string[];
  /** A shell command before, in these namespaces. */
  readonly before?: string;
  /** Another user; takes root. */
  readonly as?: number;
  readonly ignoresTerm?: boolean;
  /** The first SIGTERM is not enough. */
  readonly endsAtSecond?: boolean;
}

export class Processes implements AsyncDisposable {
  readonly #children: ChildProcess[] = [];

  /** Resolves when the process has its name. */
  async start(pretended: Pretended): Promise<ChildProcess> {
    const { name, file, flag = 'kubeconfig', unshare, before = ':', as } = pretended;
    const { ignoresTerm = false, endsAtSecond = false } = pretended;
    // The first process of a PID namespace hears only signals that it has asked for, as Go programs do.
    const trap = ignoresTerm ? 'trap "" TERM' : 'trap "trap - TERM; kill -TERM $$; exit 0" TERM';
    const wait = endsAtSecond
      ? 'trap "trap - TERM" TERM; echo ready; until read -r _; do :; done'
      : `${trap}; echo ready; read -r _`;
    const script = `${before}; exec -a ${name} sh -c '${wait}' wait --${flag}=${file}`;
    const own = [...(as === undefined ? [] : ['setpriv', `--reuid=${as}`, '--clear-groups']), 'bash', '-c', script];
    const [command = '', ...args] = unshare === undefined ? own : ['unshare', ...asRoot, ...unshare, ...own];
    const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#children.push(child);
    const watchdog = guard(child);
    child.once('exit', () => watchdog?.kill('SIGKILL'));
    await new Promise<void>((resolve, reject) => {
      child.stdout.once('data', () => resolve());
      child.once('exit', (code) => reject(new Error(`${name} has not started: exit ${code}`)));
    });
    return child;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#children) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const ended = new Promise((resolve) => void child.once('exit', resolve));
      child.stdin?.end();
      child.kill('SIGKILL');
      await ended;
    }
  }
}

export const isGone = async (pid: number): Promise<boolean> =>
  readFile(`/proc/${pid}/stat`, 'utf8').then(
    (text) => /\) [ZX] /.test(text),
    () => true,
  );
