// Copies owner, mode, access-control list, extended attributes and security label from one file to another. Node can
// read and set the first two only, so `cp` of coreutils does it: it is on every host that this program repairs, and not
// in its container image.
import { execFile, type ExecFileException } from 'node:child_process';
import { RecoveryError } from '../errors.ts';

/**
 * Dates are the new file's own. With "all", an attribute that the file system cannot hold is no failure (coreutils, cp
 * invocation).
 */
const copying = 'cp --attributes-only --preserve=all --no-preserve=timestamps,links -- "$1" "$2" 2>&1';
/** Prints the exit code of each copy, between lines that cp itself may have written. */
const script = `LC_ALL=C; export LC_ALL; while [ $# -gt 1 ]; do ${copying}; echo "=$?"; shift 2; done`;
/** A disk that hangs is not waited for: a healed file is worth more than its attributes. */
const longestMs = 10_000;

interface Request {
  readonly from: string;
  readonly to: string;
  readonly settle: (problem: string | undefined) => void;
}

let waiting: Request[] = [];
let isBusy = false;

/**
 * Copies the attributes of `from` to the file `to`. Throws WriteFailed with the reason when not all could be copied.
 * Requests during a copy share the next process: to start one costs this process milliseconds.
 */
export async function copyAttributes(from: string, to: string): Promise<void> {
  const problem = await new Promise<string | undefined>((settle) => {
    waiting.push({ from, to, settle });
    if (!isBusy) void work();
  });
  if (problem === undefined) return;
  const kept = 'access-control list, extended attributes and security label';
  throw new RecoveryError('WriteFailed', `Cannot keep ${kept} of "${from}": ${problem}; owner and mode are kept`);
}

async function work(): Promise<void> {
  isBusy = true;
  try {
    await Promise.resolve(); // requests of the same turn are included
    while (waiting.length > 0) {
      const batch = waiting;
      waiting = [];
      const problems = await run(batch);
      for (const [at, { settle }] of batch.entries()) settle(problems[at]);
    }
  } finally {
    isBusy = false;
  }
}

/** The problem of each request. Never rejects. */
function run(batch: readonly Request[]): Promise<readonly (string | undefined)[]> {
  const names = batch.flatMap(({ from, to }) => [from, to]);
  return new Promise((resolve) => {
    execFile('/bin/sh', ['-c', script, 'sh', ...names], { timeout: longestMs }, (err, told) => {
      const missing = err === null ? 'nothing was said of it' : `"/bin/sh" cannot run "cp" (${reasonOf(err)})`;
      const said = told.split(/^=(\d+)\n/m);
      resolve(
        batch.map((_, at) => (said[2 * at + 1] === undefined ? missing : problemOf(said[2 * at], said[2 * at + 1]))),
      );
    });
  });
}

const reasonOf = ({ code, signal }: ExecFileException): string => `${code ?? signal ?? 'unknown'}`;

/** cp exits with 0 also where an attribute could not be set, and prints so. */
function problemOf(said: string | undefined, code: string | undefined): string | undefined {
  const text = (said ?? '').trim().replaceAll(/\s*\n\s*/g, '; ');
  return code === '0' && text === '' ? undefined : text || `cp ended with ${code}`;
}
