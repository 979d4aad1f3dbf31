// The order of the system calls of one publish, seen by strace: what is not durable is never led to, and what may be
// led to is never removed. Without strace it is skipped, except where CI=true.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { newObjectPath } from '../publish/object-directory.ts';

const child = fileURLToPath(new URL('../support/faults/publish-child.ts', import.meta.url));
const hasStrace = spawnSync('strace', ['-V']).status === 0;

/** A finished call: its text, and when it began and ended (line numbers of the trace). */
interface Call {
  readonly text: string;
  readonly began: number;
  readonly ended: number;
}

/** Joins the two halves of calls that another thread interrupted in the trace. */
function callsOf(trace: string): Call[] {
  const open = new Map<string, { text: string; began: number }>();
  const calls: Call[] = [];
  for (const [line, whole] of trace.split('\n').entries()) {
    const [, pid = '', text = ''] = /^(\d+)\s+(.*)$/.exec(whole) ?? [];
    const resumed = /^<\.\.\. \w+ resumed>(.*)$/.exec(text);
    if (text.endsWith('<unfinished ...>'))
      open.set(pid, { text: text.slice(0, -'<unfinished ...>'.length), began: line });
    else if (resumed !== null) {
      const half = open.get(pid);
      calls.push({ text: `${half?.text ?? ''}${resumed[1] ?? ''}`, began: half?.began ?? line, ended: line });
    } else calls.push({ text, began: line, ended: line });
  }
  return calls;
}

/** Every call of `first` ended before one of `then` began, and there is at least one of each. */
function after(what: string, first: readonly Call[], then: readonly Call[]): void {
  expect(first.length, `${what}: first`).toBeGreaterThan(0);
  expect(then.length, `${what}: then`).toBeGreaterThan(0);
  const done = Math.max(...first.map(({ ended }) => ended));
  expect(Math.min(...then.map(({ began }) => began)), what).toBeGreaterThan(done);
}

test.skipIf(!hasStrace && process.env['CI'] !== 'true')('publish() keeps the durable order of system calls', () => {
  const directory = newObjectPath();
  const trace = join(mkdtempSync(join(tmpdir(), 'trace-')), 'trace');
  const traced = spawnSync(
    'strace',
    [
      '-f',
      '-y',
      '-qq',
      '-o',
      trace,
      '-e',
      'trace=openat,write,fsync,rename,symlink,unlink,rmdir,fchmod,mkdir',
      process.execPath,
      child,
      directory,
      '1',
      '2',
    ],
    { encoding: 'utf8', maxBuffer: 2 ** 26 },
  );
  expect(traced.status, traced.stderr).toBe(0);
  const calls = callsOf(readFileSync(trace, 'utf8')).filter(
    ({ text }) => text.includes(directory) && !/= -1 E/.test(text),
  );
  const generations = calls.flatMap(({ text }) => /^mkdir\(".*\/(\.\.\d[^"/]*)", 0700\)/.exec(text)?.[1] ?? []);
  expect(generations).toHaveLength(2);
  const [old = '', next = ''] = generations.map((name) => `${directory}/${name}`);
  const steps = (start: string, end = ''): Call[] =>
    calls.filter(({ text }) => text.startsWith(start) && text.includes(end));
  const handle = (call: string, path: string): Call[] =>
    calls.filter(({ text }) => new RegExp(`^${call}\\(\\d+<([^>]*)>`).exec(text)?.[1] === path);

  const written = ['tls.crt', 'tls.key'].map((key) => `${next}/${key}`);
  for (const path of written) {
    expect(steps(`openat(`, `"${path}", O_WRONLY`)[0]?.text).toMatch(/O_CREAT\|O_EXCL.*, 0600 ?\)/);
    after('content while it is private', handle('write', path), handle('fchmod', path));
    after('content and mode before fsync', handle('fchmod', path), handle('fsync', path));
    after('fsync of the file before that of its directory', handle('fsync', path), handle('fsync', next));
  }
  const flips = steps('rename(', `"${directory}/..data"`).slice(-1);
  after('generation durable before the flip', handle('fsync', next), flips);
  const flipped = flips[0]?.ended ?? Infinity;
  const parentSyncs = handle('fsync', directory).filter(({ began }) => began > flipped);
  const unlinks = steps(`unlink("${old}/`);
  expect(unlinks).toHaveLength(2);
  after('flip durable before the old files go', parentSyncs.slice(0, 1), unlinks);
  after('the old files go before the last fsync', [...unlinks, ...steps(`rmdir("${old}"`)], parentSyncs.slice(-1));
});
