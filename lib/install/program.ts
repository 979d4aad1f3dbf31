// The program that root's units start, looked at before they are written: whoever may write it, or a directory on its
// path, is root from then on, once a minute; and one that does not run is not noticed, because the drop-in of the kubelet
// may fail.
import { execFile } from 'node:child_process';
import { access, constants, readdir, realpath, stat, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { systemCode } from '../errors.ts';

export interface Examined {
  /** Each a sentence about `path` that begins with what it must be. Nothing is installed then. */
  readonly problems: readonly string[];
  /** What a person should know, each a whole sentence. */
  readonly warnings: readonly string[];
}

const runMs = 30_000;
const groupWrites = 0o020;
const othersWrite = 0o002;
const sticky = 0o1000;
/** Of statfs(2): what is there after no boot. */
const volatileTypes: ReadonlySet<number> = new Set([0x01021994, 0x858458f6]);

/** `path`: absolute. Never rejects. */
export async function examineProgram(path: string, signal: AbortSignal): Promise<Examined> {
  const file = await realpath(path).catch(() => path);
  const writable = await openTo([...ancestors(path), ...ancestors(file)]);
  if (writable.length > 0) {
    const message = `must be a program that root alone may write; ${writable.join(', ')}: give it to root and close it (chown root, chmod go-w), or install the program elsewhere, for example below /opt`;
    return { problems: [message], warnings: [] };
  }
  const failure = await firstRun(path, signal);
  const problems = failure === undefined ? [] : [`must be a program that runs; "${path} --version" ${failure}`];
  return { problems, warnings: [...(await partsWarning(file)), ...(await volatileWarning(file))] };
}

/** What the drop-in of the kubelet starts the program with. */
export async function timeoutProblem(timeout = '/usr/bin/timeout'): Promise<string | undefined> {
  const isThere = await access(timeout, constants.X_OK).then(
    () => true,
    () => false,
  );
  return isThere ? undefined : `needs "${timeout}" (coreutils), which keeps a hanging run from the kubelet; install it`;
}

const ancestors = (path: string): string[] => {
  const parent = dirname(path);
  return parent === path ? [path] : [path, ...ancestors(parent)];
};

/** Those that somebody else than root may write, each with why. What is not there is nobody's. */
async function openTo(paths: readonly string[]): Promise<string[]> {
  const found: string[] = [];
  for (const path of new Set(paths)) {
    const status = await stat(path).catch(() => undefined);
    if (status === undefined) continue;
    const { uid, gid, mode } = status;
    // In a directory such as /tmp nobody can move or remove what belongs to root.
    const isSafe = status.isDirectory() && (mode & sticky) !== 0;
    if (uid !== 0 && uid !== process.getuid?.()) found.push(`"${path}" belongs to user ${uid}`);
    else if (!isSafe && (mode & othersWrite) !== 0) found.push(`everybody may write "${path}"`);
    else if (!isSafe && (mode & groupWrites) !== 0 && gid !== 0) found.push(`group ${gid} may write "${path}"`);
  }
  return found;
}

/** What went wrong, as the end of a sentence. */
function firstRun(path: string, signal: AbortSignal): Promise<string | undefined> {
  return new Promise((resolve) => {
    execFile(path, ['--version'], { timeout: runMs, signal }, (err, _told, said) => {
      const how =
        err === null ? '' : (systemCode(err) ?? (err.signal ? `by ${err.signal}` : `with ${String(err.code)}`));
      const [line = ''] = said.trim().split('\n');
      resolve(err === null ? undefined : `ended ${how}${line === '' ? '' : `: ${line.slice(0, 200)}`}`);
    });
  });
}

/** The launcher starts Node and the modules beside it (scripts/build.ts). */
async function partsWarning(file: string): Promise<string[]> {
  const app = join(dirname(file), 'app');
  const modules = (await readdir(app).catch(() => [])).map((name) => join(app, name));
  const nodes = [join(dirname(file), 'node'), join(dirname(file), '../node_modules/.bin/node')];
  const real = await Promise.all(nodes.map((node) => realpath(node).catch(() => node)));
  const writable = await openTo([app, ...modules, ...real.flatMap(ancestors)]);
  if (writable.length === 0) return [];
  const all = writable.length === 1 ? '' : ` (and ${writable.length - 1} more)`;
  return [
    `Root runs what others may write: ${writable[0] ?? ''}${all}; give it to root and close it (chown root, chmod go-w).`,
  ];
}

async function volatileWarning(file: string): Promise<string[]> {
  const type = await statfs(file).then(
    (found) => found.type,
    () => undefined,
  );
  if (type === undefined || !volatileTypes.has(type)) return [];
  return [`"${file}" lies in memory (tmpfs) and is gone after a boot: install the program on a disk of this machine.`];
}
