// The script that starts the program, run with a Node that only tells what it was given.
import { spawnSync } from 'node:child_process';
import { chmodSync, copyFileSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, it } from 'vitest';

const script = fileURLToPath(new URL('../scripts/launcher.sh', import.meta.url));
let directory: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'launcher-'));
  copyFileSync(script, join(directory, 'kube-cert-recovery'));
  writeFileSync(join(directory, 'node'), '#!/bin/sh\nenv\necho "arguments: $*"\n');
  chmodSync(join(directory, 'node'), 0o755);
});
afterEach(() => rmSync(directory, { recursive: true }));

function start(env: Readonly<Record<string, string>>): string {
  return run(env).stdout;
}

function run(env: Readonly<Record<string, string>>) {
  const link = join(directory, 'link');
  symlinkSync('kube-cert-recovery', link);
  return spawnSync('sh', [link, 'status'], { encoding: 'utf8', env: { PATH: process.env['PATH'], ...env } });
}

it('keeps from Node what a shell says of trust, of debugging and of options', () => {
  const trust = {
    NODE_TLS_REJECT_UNAUTHORIZED: '0',
    NODE_EXTRA_CA_CERTS: '/x',
    SSL_CERT_FILE: '/x',
    SSL_CERT_DIR: '/x',
  };
  const told = start({ ...trust, NODE_USE_SYSTEM_CA: '1', NODE_DEBUG: 'http2', NODE_OPTIONS: '--inspect-brk' });
  expect(told.split('\n').filter((line) => /^(NODE_|SSL_)/.test(line))).toEqual([]);
});

it('finds the program beside itself through a link, and hands on arguments and the rest of the environment', () => {
  const told = start({ NODE_NAME: 'master-0' });
  expect(told).toContain(`${join(directory, 'app/main.mjs')} status\n`);
  expect(told).toContain('NODE_NAME=master-0\n');
});

it('says of a Node of another architecture what it takes', () => {
  writeFileSync(join(directory, 'node'), '#!/nowhere/sh\n');
  const { status, stderr } = run({});
  expect([126, 127]).toContain(status);
  expect(stderr).toMatch(
    /does not start on this machine \(\w+\)\. Build it on one of the same architecture|bad interpreter/,
  );
});
