// `init adopt --repair` as a timer runs it.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { repairCredentials } from '../../lib/run/repair-connection.ts';
import { run } from '../../cmd/cli.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'repair-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

async function repair(...more: readonly string[]) {
  const [out, err]: [string[], string[]] = [[], []];
  const stdout = { write: (text: string) => out.push(text) };
  const stderr = { write: (text: string) => err.push(text) };
  const argv = ['init', 'adopt', '--repair', `--out=${directory}`, ...more];
  const exit = await run({ argv, env: {}, cwd: directory, stdout, stderr, signal: AbortSignal.timeout(10_000) });
  return { exit, out: out.join(''), err: err.join('') };
}

it('is silent on a machine that was never adopted', async () => {
  expect(await repair('--preset=kubeadm')).toEqual({ exit: 0, out: '', err: '' });
});

it('wants no image', async () => {
  const { exit, err } = await repair('--image=example.com/recovery:2');
  expect(exit).toBe(2);
  expect(err).toContain('--image: must be left out');
});

it('asks by the kubeconfig first that no container of ours has mounted', () => {
  const record = { kubernetesDir: '/k', pkiDir: '/k/pki', nodeName: 'node1', additions: [] };
  expect(repairCredentials(record, '/k/ours')).toEqual([
    '/k/admin.conf',
    '/k/ours/kube-apiserver/kubeconfigs/admin.kubeconfig',
  ]);
});

it('says by a log line what it cannot use', async () => {
  await writeFile(join(directory, 'adoption.json'), '{"apiVersion":"kube-cert-recovery/v9"}');
  const { exit, out, err } = await repair();
  expect({ exit, out }).toEqual({ exit: 1, out: '' });
  expect(JSON.parse(err)).toMatchObject({ event: 'process.failed', code: 'MaterialInvalid', level: 'error' });
});
