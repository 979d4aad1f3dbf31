// One process at a time writes the files of this host. Node has no flock, and a pid in a file lies across PID
// namespaces; a listening Unix socket in a directory that only its owner may enter does not: it answers exactly as long
// as its process lives, also through a mount in another container.
//
// Every process listens under a name of its own, then asks the others. A socket that refuses is what a killed process
// left, and is removed. A name is never taken over, so two that start together cannot both believe in a stale one:
//   1. listen under a hidden name, then rename it: a visible socket that refuses is dead, not about to listen
//   2. ask all others: one that holds the lock wins; of two that still try, the lower name wins
//   3. from then on answer that the lock is held
// A socket can be removed, with all that lies in its directory: then its process shuts nobody out any more. So whoever
// holds the lock looks for it before each write, and competes again where it has gone.
import { randomBytes } from 'node:crypto';
import { lstatSync, type Stats } from 'node:fs';
import { chmod, lstat, open, readdir, rename, rm } from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { createConnection, createServer } from 'node:net';
import type { Server } from 'node:net';
import { join } from 'node:path';
import { RecoveryError, systemCode } from '../errors.ts';
import type { Clock } from '../clock.ts';
import { attempt, realDisk } from '../disk/disk.ts';
import { makeMissing } from '../disk/files.ts';

export interface Lock {
  /**
   * To be called before each write: takes the lock again where it was taken away. Throws AlreadyRunning when another process
   * holds it by now, WriteFailed when the directory cannot be used; the next call tries again.
   */
  confirm(): Promise<void>;
  release(): Promise<void>;
}

interface LockOptions {
  /** Made with mode 0700; in a container the host's directory is mounted. */
  readonly directory: string;
  readonly clock: Clock;
  /** What no other process may write meanwhile, for messages. Default: `files of this host`. */
  readonly guards?: string;
}

type State = 'trying' | 'held';
/** `unclear`: it went away while it was asked, or is about to. `closed`: the system does not let us ask it. */
type Answer = State | 'dead' | 'unclear' | 'closed';

const suffix = '.sock';
const answerTimeoutMs = 1000;
const askAgainMs = 20;
const longestUnclear = 250;
/** From the socket to its visible name a process takes microseconds. */
const longestHiddenMs = 60_000;
/** sockaddr_un holds 108 bytes, one of them the NUL at the end. */
const longestSocketPath = 107;

/** Throws AlreadyRunning when another process holds the lock, WriteFailed when the directory cannot be used. */
export async function acquireLock(options: LockOptions): Promise<Lock> {
  let taken: Promise<Taken> | undefined = take(options);
  await taken;
  let confirming: Promise<void> | undefined;
  const confirm = async (): Promise<void> => {
    const former = await taken;
    if (former?.isThere() === true) return;
    taken = undefined;
    await former?.release();
    const next = await take(options);
    taken = Promise.resolve(next);
  };
  return {
    confirm: () => (confirming ??= confirm().finally(() => (confirming = undefined))),
    release: async () => {
      await confirming?.catch(() => undefined);
      await (await taken)?.release();
    },
  };
}

interface Taken {
  /** Whether the socket is still where others find it. */
  isThere(): boolean;
  release(): Promise<void>;
}

/** Resolves once this process holds the lock. Throws as acquireLock. */
async function take(options: LockOptions): Promise<Taken> {
  const { directory } = options;
  const name = `${randomBytes(8).toString('hex')}${suffix}`;
  const path = join(directory, name);
  let state: State = 'trying';
  let handle: FileHandle | undefined;
  const locking = { code: 'WriteFailed', action: 'lock', what: 'directory', directory, remains: '' } as const;
  const { server, own } = await attempt(locking, async () => {
    await prepare(directory);
    const hidden = `.${name}`;
    try {
      // A path too deep for a socket is reached through an open descriptor of its directory.
      if (Buffer.byteLength(join(directory, hidden)) > longestSocketPath) handle = await open(directory, 'r');
      const listening = await listen(socketPath(directory, hidden, handle), () => state);
      await rename(join(directory, hidden), path); // 1
      return { server: listening, own: await lstat(path) };
    } catch (err) {
      await handle?.close();
      throw err;
    }
  });
  const release = async (): Promise<void> => {
    // What stays answers no more, and the next process removes it: no reason to call work that was done a failure.
    await rm(path, { force: true }).catch(() => undefined);
    await new Promise<void>((resolve) => void server.close(() => resolve()));
    await handle?.close();
  };
  try {
    await outlast({ ...options, name, handle }); // 2
  } catch (err) {
    await release();
    throw err;
  }
  state = 'held'; // 3
  return { isThere: () => isSame(path, own), release };
}

/** What cannot be looked at is no reason to believe that it has gone: nobody else can use it either. */
function isSame(path: string, { dev, ino }: Stats): boolean {
  try {
    const present = lstatSync(path);
    return present.dev === dev && present.ino === ino;
  } catch (err) {
    return !['ENOENT', 'ENOTDIR'].includes(systemCode(err) ?? '');
  }
}

function socketPath(directory: string, name: string, handle: FileHandle | undefined): string {
  return handle === undefined ? join(directory, name) : `/proc/self/fd/${handle.fd}/${name}`;
}

async function prepare(directory: string): Promise<void> {
  await makeMissing(realDisk, directory, 0o700);
  const status = await lstat(directory);
  if (!status.isDirectory() || status.uid !== process.getuid?.()) {
    throw new RecoveryError(
      'WriteFailed',
      `Cannot lock directory "${directory}": it belongs to somebody else; remove it`,
    );
  }
  if ((status.mode & 0o777) !== 0o700) await chmod(directory, 0o700);
}

function listen(path: string, state: () => State): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => {
      socket.on('error', () => undefined); // the process that asked has gone away
      socket.end(state());
    });
    server.unref();
    server.once('error', reject);
    server.listen(path, () => resolve(server));
  });
}

interface Contest extends LockOptions {
  readonly name: string;
  readonly handle: FileHandle | undefined;
}

/** Returns when every other process is gone or has given way. */
async function outlast({ directory, name, clock, handle, guards }: Contest): Promise<void> {
  for (let round = 0; ; round += 1) {
    let undecided = false;
    const all = (await readdir(directory)).filter((entry) => entry.endsWith(suffix));
    if (round === 0) await removeHidden(all, { directory, clock, handle });
    for (const other of all.filter((entry) => entry !== name && !entry.startsWith('.'))) {
      const answer = await ask(socketPath(directory, other, handle));
      if (answer === 'dead') await rm(join(directory, other), { force: true });
      else if (answer === 'closed') throw cannotAsk(join(directory, other), guards);
      else if (answer === 'held' || (answer === 'trying' && other < name)) throw alreadyRunning(directory, guards);
      else undecided = true; // it may have looked before we came: then it will say so in a moment
    }
    if (!undecided) return;
    if (round === longestUnclear) throw alreadyRunning(directory, guards);
    await clock.sleep(askAgainMs);
  }
}

/** What was killed before it had its visible name (1). */
async function removeHidden(
  names: readonly string[],
  { directory, clock, handle }: Pick<Contest, 'directory' | 'clock' | 'handle'>,
): Promise<void> {
  for (const name of names.filter((entry) => entry.startsWith('.'))) {
    const path = join(directory, name);
    const since = await lstat(path).then(
      ({ mtimeMs }) => mtimeMs,
      () => Number.POSITIVE_INFINITY, // it has its name by now
    );
    if (clock.now().getTime() - since < longestHiddenMs) continue;
    if ((await ask(socketPath(directory, name, handle))) === 'dead') await rm(path, { force: true });
  }
}

function ask(path: string): Promise<Answer> {
  return new Promise((resolve) => {
    let answer = '';
    const socket = createConnection(path);
    // It listens and is too busy to answer: it lives.
    socket.setTimeout(answerTimeoutMs, () => {
      socket.destroy();
      resolve('held');
    });
    socket.on('data', (data) => {
      answer += data.toString('latin1');
    });
    socket.once('end', () => resolve(answer === 'trying' || answer === 'held' ? answer : 'unclear'));
    socket.once('error', (err) => {
      const code = systemCode(err);
      if (code === 'EACCES' || code === 'EPERM') resolve('closed');
      else resolve(code === 'ECONNREFUSED' || code === 'ENOENT' ? 'dead' : 'unclear');
    });
  });
}

/** SELinux keeps containers of other categories apart: whether a process listens there cannot be known. */
function cannotAsk(path: string, guards = 'files of this host'): RecoveryError {
  return new RecoveryError(
    'AlreadyRunning',
    `Cannot write ${guards}: the system does not let this process ask who holds the lock "${path}" (EACCES; SELinux?); ` +
      'give both processes one label, or remove the file when no other process of this program runs',
  );
}

function alreadyRunning(directory: string, guards = 'files of this host'): RecoveryError {
  return new RecoveryError(
    'AlreadyRunning',
    `Cannot write ${guards}: another process holds the lock in "${directory}"; stop it, or let it do the work`,
  );
}
