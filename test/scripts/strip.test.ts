// A stripped Node is still one: what runs these tests, without what is never mapped.
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { stripped } from '../../scripts/release/strip.ts';

it('leaves a program that runs as before, smaller, and as it is a second time', async () => {
  const whole = await readFile(process.execPath);
  const kept = stripped(whole);
  expect(kept.length).toBeLessThan(whole.length * 0.9);
  expect(stripped(kept).equals(kept)).toBe(true);
  const directory = await mkdtemp(join(tmpdir(), 'strip-'));
  try {
    const path = join(directory, 'node');
    await writeFile(path, kept, { mode: 0o755 });
    const script = `const { createHash } = require('node:crypto');
      new (require('node:worker_threads').Worker)('1', { eval: true }).once('exit', (code) =>
        console.log(process.version, code, createHash('sha256').update('x').digest('hex').slice(0, 8)));`;
    const { stdout } = await promisify(execFile)(path, ['-e', script]);
    expect(stdout).toBe(`${process.version} 0 2d711642\n`);
  } finally {
    await rm(directory, { recursive: true });
  }
});

it('refuses what is no program of that kind', () => {
  expect(() => stripped(Buffer.from('#!/bin/sh\n'))).toThrow('no 64-bit ELF');
});
