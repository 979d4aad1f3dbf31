// Identity of a build, from real repositories.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { stampOf } from '../../scripts/build-stamp.ts';

const now = new Date('2026-11-26T08:00:00.123Z');
let sources: string;
beforeEach(() => {
  sources = mkdtempSync(join(tmpdir(), 'build-stamp-'));
  write('1.2.3');
});
afterEach(() => rmSync(sources, { recursive: true }));

const write = (version: string, at = sources): void =>
  writeFileSync(join(at, 'package.json'), JSON.stringify({ version }));

const git = (...args: readonly string[]): string => {
  const identity = ['-c', 'user.name=a', '-c', 'user.email=a@example.com'];
  return execFileSync('git', [...identity, '-C', sources, ...args], { encoding: 'utf8', stdio: 'pipe' }).trim();
};
function commit(): string {
  git('init', '--quiet');
  git('add', '.');
  git('commit', '--quiet', '--message=first');
  git('tag', 'v9'); // no name of a commit: what was built is the commit
  return git('rev-parse', 'HEAD').slice(0, 12);
}

it('names version, commit and time', () => {
  const first = commit();
  expect(stampOf(sources, {}, now)).toEqual({ version: '1.2.3', commit: first, builtAt: now.toISOString() });
});

it('says that files differ from the commit', () => {
  const first = commit();
  write('1.2.4');
  expect(stampOf(sources, {}, now)).toMatchObject({ version: '1.2.4', commit: `${first}-dirty` });
});

it('knows no commit in an archive, also inside of another repository, and before the first commit', () => {
  expect(stampOf(sources, {}, now).commit).toBe('unknown');
  git('init', '--quiet');
  expect(stampOf(sources, {}, now).commit).toBe('unknown');
  commit();
  const inside = join(sources, 'archive');
  mkdirSync(inside);
  write('1.2.3', inside);
  expect(stampOf(inside, {}, now).commit).toBe('unknown');
});

it('takes commit and time that are given', () => {
  const env = { SOURCE_COMMIT: '3a46bba0'.repeat(5), SOURCE_DATE_EPOCH: '1700000000' };
  expect(stampOf(sources, env, now)).toMatchObject({ commit: '3a46bba03a46', builtAt: '2023-11-14T22:13:20.000Z' });
  for (const given of ['3a46bba', 'unknown', '3a46bba03a46-dirty'])
    expect(stampOf(sources, { SOURCE_COMMIT: given }, now).commit).toBe(given);
  expect(stampOf(sources, { SOURCE_COMMIT: '', SOURCE_DATE_EPOCH: '' }, now).builtAt).toBe(now.toISOString());
});

it.each([
  [{ SOURCE_DATE_EPOCH: 'today' }, 'Cannot build: SOURCE_DATE_EPOCH is "today", wanted whole seconds since 1970'],
  [{ SOURCE_COMMIT: 'main' }, 'Cannot build: SOURCE_COMMIT is "main", wanted hexadecimal digits of a commit'],
])('refuses %j', (env, message) => {
  expect(() => stampOf(sources, env, now)).toThrow(message);
});
