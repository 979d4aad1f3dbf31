// A command of the administrator, run as root for a limited time.
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import type { Readable } from 'node:stream';
import { bounds } from '../bounds.ts';
import type { Clock } from '../clock.ts';
import { RecoveryError, systemCode } from '../errors.ts';
import { requireClosed } from './closed-path.ts';
import { environOf, processIds } from './proc.ts';
import { waitAtMost } from '../retry.ts';

interface CommandRun {
  readonly clock: Clock;
  /** Aborts when its time is over. */
  readonly signal: AbortSignal;
  /** Its whole environment. Default: none. */
  readonly env?: Readonly<Record<string, string>>;
  /** Nobody reads what it prints: that has no limit, and none of it is returned. */
  readonly dropsOutput?: true;
}

const mostBytes = bounds.command.most.bytes;

/**
 * Output of a command. None of it reaches an error: it may hold a key. When its time is over, it is killed with all
 * processes that it has started; processes left in the background when it exits are not waited for. Throws ReadFailed.
 */
export async function outputOf(
  [program = '', ...args]: readonly string[],
  { clock, signal, env = {}, dropsOutput }: CommandRun,
  text: string,
): Promise<Buffer> {
  const cannot = (state: string): RecoveryError => new RecoveryError('ReadFailed', `Cannot use ${text}: ${state}`);
  requireClosed(program, { code: 'ReadFailed', cannot: `Cannot use ${text}` });
  const mark = randomUUID();
  const child = started([program, ...args], { ...env, [markName]: mark }, cannot);
  const parts: Buffer[] = [];
  let size = 0;
  const failure = new Promise<never>((_, reject) => {
    child.once('error', (err) => reject(cannot(systemCode(err) ?? 'it cannot be started')));
    signal.addEventListener('abort', () => reject(cannot('no answer in time')), { once: true });
    if (signal.aborted) reject(cannot('no answer in time'));
    child.stdout.on('data', (part: Buffer) => {
      if (dropsOutput) return;
      parts.push(part);
      size += part.length;
      if (size > mostBytes) reject(cannot(`it prints more than ${mostBytes} bytes`));
    });
  });
  const closed = new Promise<void>((resolve) => child.stdout.once('close', resolve));
  const exited = new Promise<void>((resolve, reject) => {
    child.once('exit', (code, by) => (code === 0 ? resolve() : reject(cannot(by ?? `exit ${code}`))));
  });
  try {
    await Promise.race([failure, exited]);
    await Promise.race([failure, waitAtMost(afterExitMs, closed, { clock, signal })]);
    return Buffer.concat(parts);
  } finally {
    if (child.pid !== undefined) kill(-child.pid); // it leads a process group of its own (setsid(2))
    endMarked(mark);
    child.stdout.destroy();
    child.unref();
  }
}

const afterExitMs = 500;

/** Starts a command. Some failures are thrown, some leave a child without output, and most come as an event. */
function started(
  [program = '', ...args]: readonly string[],
  env: Readonly<Record<string, string>>,
  cannot: (state: string) => RecoveryError,
): ChildProcessByStdio<null, Readable, null> {
  try {
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'ignore'], env, detached: true });
    if ((child.stdout as Readable | undefined) !== undefined) return child;
    child.once('error', () => undefined);
  } catch (err) {
    throw cannot(systemCode(err) ?? 'it cannot be started');
  }
  throw cannot('it cannot be started');
}

const markName = 'KUBE_CERT_RECOVERY_COMMAND';
/** A command that starts processes faster than they are found is left to systemd. */
const mostRounds = 100;

/**
 * Kills processes with this mark in their environment, which children inherit, in sessions of their own as well. A
 * process that has emptied its environment, or hides it, is terminated by systemd, with the unit.
 */
function endMarked(mark: string): void {
  const ended = new Set<number>();
  for (let round = 0; round < mostRounds; round += 1) {
    const found = processIds().filter((pid) => !ended.has(pid) && environOf(pid).get(markName) === mark);
    if (found.length === 0) return;
    for (const pid of found) {
      ended.add(pid);
      kill(pid);
    }
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // The process has exited.
  }
}
