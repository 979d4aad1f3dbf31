// One child process under supervision: its output goes to a file, an unexpected end may be answered by a bounded
// restart (as a kubelet would), and it never outlives the process that started it.
//
// Three things end it: stop() and kill(); the 'exit' handler when this process ends by itself; and, when this process
// is killed without a chance to act, a shell that waits on a pipe which only this process holds open.
import { spawn, type ChildProcess } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';

export interface ProcessOptions {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  /** Output of all its lives is appended here. */
  readonly logFile: string;
  readonly env?: NodeJS.ProcessEnv;
  readonly cwd?: string;
  /** How often an unexpected end is answered by a new start. Default: never. */
  readonly restarts?: number;
  /** Milliseconds before a restart. */
  readonly restartDelay?: number;
  /** Milliseconds between SIGTERM and SIGKILL. */
  readonly grace?: number;
}

const alive = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of alive) child.kill('SIGKILL');
});

const exitOf = (child: ChildProcess): string =>
  `code ${child.exitCode ?? 'none'}, signal ${child.signalCode ?? 'none'}`;

export class SupervisedProcess {
  readonly name: string;
  readonly logFile: string;
  /** How often it was started again after an unexpected end. */
  restarted = 0;
  readonly #options: ProcessOptions;
  #child: ChildProcess | undefined;
  #ended: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  #stopping = false;
  #failure: string | undefined;

  constructor(options: ProcessOptions) {
    this.#options = options;
    this.name = options.name;
    this.logFile = options.logFile;
    this.#spawn();
  }

  /** The running process, or undefined between two lives and after the last. */
  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Why it ended for good without being asked to; undefined while it runs, is about to be restarted, or was stopped. */
  get failure(): string | undefined {
    return this.#failure;
  }

  log(): string {
    return readFileSync(this.logFile, 'utf8');
  }

  /** The last lines of its output. */
  logTail(lines = 20): string {
    return this.log().trimEnd().split('\n').slice(-lines).join('\n');
  }

  signal(signal: NodeJS.Signals): void {
    this.#child?.kill(signal);
  }

  /** SIGTERM, then SIGKILL when it does not end in time. Resolves when the process is gone. */
  async stop(): Promise<void> {
    this.#quit();
    const child = this.#child;
    if (child === undefined) return;
    child.kill('SIGTERM');
    const forced = setTimeout(() => child.kill('SIGKILL'), this.#options.grace ?? 10_000);
    await this.#ended;
    clearTimeout(forced);
  }

  /** SIGKILL: the process gets no chance to write or to say goodbye. Resolves when it is gone. */
  async kill(): Promise<void> {
    this.#quit();
    this.#child?.kill('SIGKILL');
    await this.#ended;
  }

  #quit(): void {
    this.#stopping = true;
    clearTimeout(this.#timer);
  }

  #spawn(): void {
    const { command, args, env, cwd, logFile } = this.#options;
    const log = openSync(logFile, 'a', 0o600);
    let child: ChildProcess;
    try {
      child = spawn(command, args, { stdio: ['ignore', log, log], ...(env && { env }), ...(cwd && { cwd }) });
    } finally {
      closeSync(log);
    }
    this.#child = child;
    alive.add(child);
    const watchdog = guard(child);
    this.#ended = new Promise((resolve) => {
      const end = (why: string): void => {
        watchdog?.kill('SIGKILL');
        alive.delete(child);
        this.#child = undefined;
        this.#afterEnd(why);
        resolve();
      };
      child.once('error', (err) => end(err.message));
      child.once('exit', () => end(exitOf(child)));
    });
  }

  #afterEnd(why: string): void {
    if (this.#stopping) return;
    if (this.restarted >= (this.#options.restarts ?? 0)) {
      this.#failure = why;
      return;
    }
    this.restarted += 1;
    this.#timer = setTimeout(() => this.#spawn(), this.#options.restartDelay ?? 500);
  }
}

/** A shell that kills `child` when the pipe from this process breaks, which is when this process is gone. End it when `child` has ended. */
export function guard(child: ChildProcess): ChildProcess | undefined {
  if (child.pid === undefined) return undefined;
  const watchdog = spawn('sh', ['-c', 'read -r _; kill -9 "$1"', 'sh', String(child.pid)], {
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  watchdog.stdin?.on('error', () => undefined);
  watchdog.unref();
  return watchdog;
}
