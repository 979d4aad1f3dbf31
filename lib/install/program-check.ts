// Checks of the program before units of root start it: a user who may write it, or a directory on its path, would be
// root from then on, once a minute; and a program that does not run goes unnoticed, because the drop-in of the kubelet
// may fail.
import { execFile } from 'node:child_process';
import { accessSync, constants, existsSync } from 'node:fs';
import { readdir, realpath, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { systemCode } from '../errors.ts';
import { openPlaces } from '../host/closed-path.ts';
import { memoryTypes } from '../host/memory-directory.ts';
import { type Problem, problemsError } from '../problems.ts';
import { nodesOf } from './program-copy.ts';

/** Whether the file exists and this process may execute it. */
export function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

export interface Examined {
  /** Sentences about `path`, each beginning with a requirement. With any of them nothing is installed. */
  readonly problems: readonly string[];
  /** Warnings for the administrator, each a whole sentence. */
  readonly warnings: readonly string[];
}

const runMs = 30_000;

/** `path`: absolute. Never rejects. */
export async function examineProgram(path: string, signal: AbortSignal): Promise<Examined> {
  const file = await realpath(path).catch(() => path);
  const writable = openPlaces(path);
  if (writable.length > 0) {
    const message = `must be a program that root alone may write; ${writable.join(', ')}: give it to root and close it (chown root, chmod go-w), or install the program elsewhere, for example below /opt`;
    return { problems: [message], warnings: await volatileWarning(file) };
  }
  const failure = await firstRun(path, signal);
  const problems = failure === undefined ? [] : [`must be a program that runs; "${path} --version" ${failure}`];
  return { problems, warnings: [...(await partsWarning(file)), ...(await volatileWarning(file))] };
}

interface Named {
  readonly metricsFile?: string | undefined;
  readonly onRenewed?: string | undefined;
}

/** Warnings of paths that the units use on another day: a misspelt one is else noticed only then. */
export function absenceWarnings({ metricsFile, onRenewed }: Named): readonly string[] {
  const directory = metricsFile === undefined ? undefined : dirname(metricsFile);
  return [
    ...(directory === undefined || existsSync(directory)
      ? []
      : [
          `--metrics-file: "${directory}" is not there, and nothing is written until it is (--collector.textfile.directory).`,
        ]),
    ...(onRenewed === undefined || isExecutable(onRenewed)
      ? []
      : [`--on-renewed: "${onRenewed}" is no file that can be executed, and nobody is told until it is.`]),
  ];
}

/** Problem of the `timeout` program with which the drop-in of the kubelet starts ours. */
export function timeoutProblem(timeout = '/usr/bin/timeout'): string | undefined {
  return isExecutable(timeout)
    ? undefined
    : `needs "${timeout}" (coreutils), which keeps a hanging run from the kubelet; install it`;
}

/** Throws ConfigInvalid for problems of the program, or of what starts it. */
export function requireProgram(problems: readonly string[]): void {
  const timeout = timeoutProblem();
  const all = [
    ...problems.map((message): Problem => ({ path: '--executable', kind: 'invalid', message })),
    ...(timeout === undefined ? [] : [{ path: 'kubelet.service', kind: 'notFound', message: timeout } as const]),
  ];
  if (all.length > 0) throw problemsError('ConfigInvalid', 'Cannot install the units of this host', all);
}

/** Failure of the first run, as the rest of a sentence. */
export function firstRun(path: string, signal: AbortSignal): Promise<string | undefined> {
  return new Promise((resolve) => {
    execFile(path, ['--version'], { timeout: runMs, signal }, (err, _told, said) => {
      if (err === null) return resolve(undefined);
      const how = systemCode(err) ?? (err.signal ? `by ${err.signal}` : `with ${String(err.code)}`);
      const [line = ''] = said.trim().split('\n');
      resolve(`ended ${how}${line === '' ? '' : `: ${line.slice(0, 200)}`}`);
    });
  });
}

/** The launcher starts Node and the modules next to it (scripts/build.ts). */
async function partsWarning(file: string): Promise<string[]> {
  const app = join(dirname(file), 'app');
  const modules = (await readdir(app).catch(() => [])).map((name) => join(app, name));
  const writable = openPlaces(...modules, ...nodesOf(file));
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
  if (type === undefined || !memoryTypes.has(type)) return [];
  return [`"${file}" lies in memory (tmpfs) and is gone after a boot: install the program on a disk of this machine.`];
}
