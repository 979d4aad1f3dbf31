// One process at a time writes the files of this host. Node has no flock, and a pid in a file is wrong across PID
// namespaces; a listening Unix socket in a directory that only its owner may enter works: it answers exactly as long as
// its process lives, also through a mount in another container.
// Every process listens under a name of its own, then queries the other sockets. A socket that refuses was left by a
// killed process, and is removed. A name is never taken over, so two processes that start together cannot both trust a
// stale one:
// 1. listen under a hidden name, then rename it: a visible socket that refuses is dead, not about to listen
// 2. query all other sockets: a process that holds the lock wins; of two that still try, the lower name wins
// 3. from then on answer that the lock is held
// A socket can be removed, with its whole directory: then its process shuts out no other process any more. So the
// holder of the lock checks for its socket before each write, and competes again where it is gone.
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
   * Called before each write: takes the lock again where its socket was removed. Throws AlreadyRunning when another
   * process holds it by now, WriteFailed when the directory cannot be used; the next call tries again.
   */
  confirm(): Promise<void>;
  release(): Promise<void>;
}

interface LockOptions {
  /** Created with mode 0700; in a container the host's directory is mounted. */
  readonly directory: string;
  readonly clock: Clock;
  /** Files that no other process may write until then, for messages. Default: `files of this host`. */
  readonly guards?: string;
}

type State = 'trying' | 'held';
/** `unclear`: the socket closed during the query, or is about to. `closed`: the system denies the query. */
type Answer = State | 'dead' | 'unclear' | 'closed';

const suffix = '.sock';
const answerTimeoutMs = 1000;
const askAgainMs = 20;
const longestUnclear = 250;
/** A process takes microseconds from the socket to its visible name. */
const longestHiddenMs = 60_000;
/** sockaddr_un holds 108 bytes, including the NUL. */
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
  /** Whether the socket is still where other processes find it. */
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
    // A socket that stays answers no more, and the next process removes it: no reason to report finished work as a
    // failure.
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

/** An error other than absence does not mean that the socket is gone: no other process can use it either. */
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
      socket.on('error', () => undefined); // the querying process has closed the connection
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
      else undecided = true; // it may have listed the sockets before ours was there: then its next answer shows it
    }
    if (!undecided) return;
    if (round === longestUnclear) throw alreadyRunning(directory, guards);
    await clock.sleep(askAgainMs);
  }
}

/** Removes sockets of processes killed before they had their visible name (1). */
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
    // A process that listens and is too busy to answer lives.
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
