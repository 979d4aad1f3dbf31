import { fstatSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { runCommand } from '../../cmd/run.ts';
import { toYaml } from '../../lib/yaml.ts';
import { FakeClock } from '../support/fake-clock.ts';

let root: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'idle-'));
  const artefacts = [
    {
      kind: 'signer',
      name: 'ca',
      location: { pemPair: { certFile: `${root}/ca.crt`, keyFile: `${root}/ca.key` } },
      commonName: 'ca',
      owned: true,
      validity: '3650d',
      refresh: '2920d',
    },
    { kind: 'caBundle', name: 'trust', location: { pemFile: `${root}/trust.crt` }, signers: ['ca'] },
    {
      kind: 'target',
      name: 'leaf',
      location: { pemPair: { certFile: `${root}/leaf.crt`, keyFile: `${root}/leaf.key` } },
      issuer: 'ca',
      usage: 'client',
      commonName: 'leaf',
      validity: '365d',
      refresh: '292d',
    },
  ];
  const regen = { backupDir: `${root}/backups`, lockDir: `${root}/lock` };
  const config = { apiVersion: 'kube-cert-recovery/v1alpha1', kind: 'Configuration', regen };
  await writeFile(join(root, 'config.yaml'), toYaml({ ...config, inventory: { name: 'idle', artefacts } }));
});
afterEach(() => rm(root, { recursive: true, force: true }));

it('an idle node writes one line a day, although its timer starts a run each minute', async () => {
  // As a unit has it (systemd.exec(5)); the certificates are made by the first run.
  const { dev, ino } = fstatSync(2);
  const lines: string[] = [];
  const stderr = { write: (text: string) => lines.push(text) };
  const { signal } = new AbortController();
  const io = { argv: [], env: { JOURNAL_STREAM: `${dev}:${ino}` }, cwd: root, stdout: stderr, stderr, signal };
  const clock = new FakeClock('2026-12-01T00:00:30Z');
  const line = { mode: 'regen', logFormat: 'json', once: true, restart: true, config: join(root, 'config.yaml') };
  expect(await runCommand(line, io, clock), lines.join('')).toBe(0);
  lines.length = 0;
  // Of the 1440 runs every tenth: those between see what it sees.
  for (let minute = 10; minute <= 24 * 60; minute += 10) {
    clock.advance(600_000);
    expect(await runCommand(line, io, clock), lines.join('')).toBe(0);
  }
  expect(lines.map((text) => (JSON.parse(text) as { readonly event: string }).event)).toEqual(['regen.summary']);
}, 600_000);
