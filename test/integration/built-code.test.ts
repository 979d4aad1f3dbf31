// The code that V8 has made of the built program: taken when it fits, and never needed.
import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, it } from 'vitest';

const run = promisify(execFile);
const dist = fileURLToPath(new URL('../../dist', import.meta.url));
const node = join(dist, 'node');
const [, flags = ''] = /^flags='(.*)'$/m.exec(readFileSync(join(dist, 'kube-cert-recovery'), 'utf8')) ?? [];
const nodeFlags = flags.split(' ');
const built = readdirSync(join(dist, 'app')).filter((name) => name.startsWith('program-'));
const text = built.find((name) => name.endsWith('.cjs')) ?? '';
const codes = built.filter((name) => name.endsWith('.code'));

let app: string;

beforeEach(() => {
  app = join(mkdtempSync(join(tmpdir(), 'built-code-')), 'app');
  cpSync(join(dist, 'app'), app, { recursive: true });
});
afterEach(() => rmSync(join(app, '..'), { recursive: true }));

const version = async (...more: readonly string[]): Promise<string> => {
  const { stdout, stderr } = await run(node, [...nodeFlags, ...more, join(app, 'main.mjs'), '--version']);
  expect(stderr).toBe('');
  return stdout;
};

it('is what V8 takes with the flags of the launcher, for runs that end and for modes that wait', async () => {
  const script = `const { readFileSync } = require('node:fs');
    const [text, code] = process.argv.slice(1).map((path) => readFileSync(path));
    const { Script } = require('node:vm');
    const { cachedDataRejected } = new Script(text.latin1Slice(), { cachedData: code.subarray(32) });
    console.log(cachedDataRejected);`;
  expect(codes.map((name) => name.split('.').at(-2))).toEqual(['once', 'waiting']);
  for (const code of codes)
    expect((await run(node, [...nodeFlags, '-e', script, join(app, text), join(app, code)])).stdout).toBe('false\n');
});

it('is read as it was made: the text has no character beyond ASCII', () => {
  expect(readFileSync(join(app, text)).every((byte) => byte < 128)).toBe(true);
});

it.each<[string, (code: Buffer) => Buffer]>([
  ['zeros in it, as a loss of power leaves them', (code) => code.fill(0, 1 << 20, (1 << 20) + 4096)],
  ['an end that is cut off', (code) => code.subarray(0, code.length - 4096)],
  ['nothing in it', () => Buffer.alloc(0)],
])('is left out with %s', async (_, damage) => {
  for (const code of codes) writeFileSync(join(app, code), damage(readFileSync(join(app, code))));
  expect(await version()).toMatch(/^\d/);
});

it('is left out where it is absent, and where Node has other flags', async () => {
  expect(await version('--optimize-for-size')).toMatch(/^\d/);
  for (const code of codes) rmSync(join(app, code));
  expect(await version()).toMatch(/^\d/);
});
