// Identity that a build gives to the program: the version of package.json, the commit of the sources, the time of the
// build.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Stamp {
  readonly version: string;
  /** Twelve digits, with "-dirty" where files differ from it; "unknown" without git, as in an archive of the sources. */
  readonly commit: string;
  /** RFC 3339. */
  readonly builtAt: string;
}

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * `SOURCE_DATE_EPOCH` (seconds since 1970) stands for the time of the build where builds must be repeatable,
 * `SOURCE_COMMIT` for the commit where there is no repository, as in the build of the image. Throws when one of them is
 * no such thing.
 */
export function stampOf(root: string, env: Environment, now: Date): Stamp {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { readonly version: string };
  return { version, commit: givenCommit(env) ?? commitOf(root), builtAt: timeOf(env, now).toISOString() };
}

function timeOf({ SOURCE_DATE_EPOCH: epoch }: Environment, now: Date): Date {
  if (epoch === undefined || epoch === '') return now;
  if (!/^\d+$/.test(epoch)) {
    throw new Error(`Cannot build: SOURCE_DATE_EPOCH is "${epoch}", wanted whole seconds since 1970`);
  }
  return new Date(Number(epoch) * 1000);
}

function givenCommit({ SOURCE_COMMIT: commit }: Environment): string | undefined {
  if (commit === undefined || commit === '') return undefined;
  if (!/^([0-9a-f]{7,64}(-dirty)?|unknown)$/.test(commit)) {
    throw new Error(`Cannot build: SOURCE_COMMIT is "${commit}", wanted hexadecimal digits of a commit`);
  }
  return commit.replace(/^([0-9a-f]{12})[0-9a-f]*/, '$1');
}

/** The commit of a repository whose top is `root`: one around it has other sources. */
function commitOf(root: string): string {
  try {
    if (git(root, 'rev-parse', '--show-prefix') !== '') return 'unknown';
    return git(root, 'describe', '--always', '--dirty', '--abbrev=12', '--exclude=*');
  } catch {
    return 'unknown'; // no git, or no repository, or one without a commit
  }
}

/** A clone may belong to another user than the build, as with sudo; the build runs its code anyway. */
function git(root: string, ...args: readonly string[]): string {
  const words = ['-c', 'safe.directory=*', '-C', root, ...args];
  return execFileSync('git', words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
}
