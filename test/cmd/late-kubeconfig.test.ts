// Modes that run on while their kubeconfig cannot be used: the files of this host are healed meanwhile, nothing ends,
// and the kubeconfig is used as soon as it can be.
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { runModes } from '../../cmd/modes.ts';
import { systemClock } from '../../lib/clock.ts';
import { parseConfig } from '../../lib/config/load.ts';
import { installedPresets } from '../../lib/inventory/preset.ts';
import { createLog } from '../../lib/log.ts';
import { createAuthority, createEtcdAuthority } from '../support/certificates/certificates.ts';
import { writeKubeconfig } from '../support/certificates/kubeconfig.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'late-kubeconfig-'));
  await createEtcdAuthority(join(directory, 'pki'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

it('runModes() heals files and waits while a kubeconfig of a lasting process cannot be used', async () => {
  const at = (name: string): string => join(directory, name);
  const text = `apiVersion: kube-cert-recovery/v1alpha1
kind: Configuration
preset: kubernetes
parameters: { apiServerHostnames: [127.0.0.1] }
directories: { pkiDir: ${at('pki')} }
regen: { backupDir: ${at('backups')}, lockDir: ${at('lock')}, clockSynchronised: true }
`;
  const flags = { mode: 'regen,syncer', kubeconfig: at('kubeconfig'), destinationDir: at('certs') };
  const file = { path: at('config.yaml'), text };
  const config = parseConfig({ flags, file, env: {}, cwd: directory, presets: installedPresets });
  const lines: Record<string, unknown>[] = [];
  const log = createLog({ write: (line) => lines.push(JSON.parse(line) as Record<string, unknown>) });
  const stop = new AbortController();
  const builtAt = new Date('2025-01-01T00:00:00Z');
  let failure: unknown;
  const ended = runModes(config, { clock: systemClock, log, signal: stop.signal, builtAt }).catch(
    (err: unknown) => (failure = err),
  );

  await expect.poll(() => readdir(at('pki/etcd')), { timeout: 30_000 }).toContain('server.crt');
  // Both modes have missed it: one that finds it at its start has nothing to wait for.
  const waiting = () => lines.filter(({ event, path }) => event === 'api.waiting' && path === at('kubeconfig'));
  const missed = { code: 'ConfigInvalid', err: expect.stringContaining('ENOENT') };
  await expect.poll(waiting, { timeout: 30_000 }).toMatchObject([missed, missed]);

  // Nobody listens on port 1.
  const { cert } = await createAuthority(at('authority'), { commonName: 'nobody' });
  const server = 'https://127.0.0.1:1';
  await writeKubeconfig(at('kubeconfig'), { server, certificateAuthority: cert, token: 'none' });
  const opened = () => lines.filter(({ event }) => event === 'connection.changed');
  await expect.poll(opened, { timeout: 30_000 }).toMatchObject([{ server }, { server }]);
  expect(failure).toBeUndefined();
  stop.abort();
  await ended;
}, 90_000);
