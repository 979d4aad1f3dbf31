// One pass of regen as the program runs it: it does not end before the stale leader-election Leases are decided.
import { readdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { runModes } from '../../cmd/modes.ts';
import { systemClock } from '../../lib/clock.ts';
import type { UnmetCondition } from '../../lib/regen/unmet.ts';
import { parseConfig } from '../../lib/config/load.ts';
import type { ConfigFlags } from '../../lib/config/flags.ts';
import { installedPresets } from '../../lib/inventory/preset.ts';
import { createLog } from '../../lib/log.ts';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';
import { type FaultProxy, startFaultProxy } from '../support/faults/fault-proxy.ts';
import { writeKubeconfig } from '../support/certificates/kubeconfig.ts';

const namespace = 'kube-system';
const names = ['kube-controller-manager', 'kube-scheduler'];
const leasesPath = `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
const serverName = 'localhost-recovery';

let directory: string;
let controlPlane: ControlPlane;
let proxy: FaultProxy;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'modes-'));
  controlPlane = await startControlPlane();
  proxy = await startFaultProxy({ target: { port: controlPlane.port, caFile: controlPlane.recoveryCa, serverName } });
});
afterAll(async () => {
  await proxy?.close();
  await controlPlane?.[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

interface Line {
  readonly event: string;
  readonly lease?: string;
  readonly secret?: string;
  readonly reason?: string;
}

async function runOnce(flags: ConfigFlags): Promise<{ unmet: readonly UnmetCondition[]; lines: readonly Line[] }> {
  const kubeconfig = await writeKubeconfig(join(directory, 'kubeconfig'), {
    server: proxy.url,
    certificateAuthority: proxy.ca,
    tlsServerName: serverName,
    token: controlPlane.adminToken,
  });
  const parameter = ['apiServerHostnames=127.0.0.1'];
  const given = { locations: 'api', once: true, preset: 'kubernetes', kubeconfig, parameter, ...flags } as const;
  const config = parseConfig({ flags: given, env: {}, cwd: directory, presets: installedPresets });
  const lines: Line[] = [];
  const unmet = await runModes(config, {
    clock: systemClock,
    log: createLog({ level: 'debug', write: (line) => lines.push(JSON.parse(line) as Line) }),
    signal: AbortSignal.timeout(240_000),
    builtAt: new Date('2025-01-01T00:00:00Z'),
  });
  return { unmet, lines };
}

it('runModes() with --once has on disk what it has just made in the API', async () => {
  const body = { metadata: { name: 'once' } };
  expect(await controlPlane.admin('/api/v1/namespaces', { method: 'POST', body })).toMatchObject({ status: 201 });
  const destinationDir = join(directory, 'certs');
  const { unmet, lines } = await runOnce({ mode: 'syncer,regen', namespace: 'once', destinationDir });
  // The one Secret that is never regenerated.
  const refused = lines.filter(({ event }) => event === 'sync.refused' || event === 'sync.failed');
  expect(refused.map(({ secret }) => secret)).toEqual(['once/service-account-key']);
  expect(unmet).toHaveLength(2);
  expect(readdirSync(join(destinationDir, 'secrets')).length).toBeGreaterThan(3);
});

it('runModes() with --once stays until the stale leader-election Leases are decided, however slow that is', async () => {
  for (const name of names) {
    const spec = { holderIdentity: `${hostname()}_dead`, renewTime: '2020-01-01T00:00:00.000000Z' };
    const body = { metadata: { name }, spec: { ...spec, leaseDurationSeconds: 15 } };
    expect(await controlPlane.admin(leasesPath, { method: 'POST', body })).toMatchObject({ status: 201 });
  }
  await proxy.inject({ kind: 'slow', delayMs: 1500, match: ({ path }) => path.startsWith(leasesPath) });
  const { lines } = await runOnce({ mode: 'regen', namespace: 'default' });
  const decided = lines.filter(({ event }) => event.startsWith('lease.'));
  expect(decided.map(({ lease }) => String(lease)).toSorted()).toEqual(names);
  expect(decided.filter(({ reason }) => reason === 'Failed')).toEqual([]);
  for (const { event, lease } of decided) {
    const { body } = await controlPlane.admin(`${leasesPath}/${lease}`);
    // Where the time of the boot is not known, a lease is kept, and that is said.
    const holder = (body as { spec: { holderIdentity?: string } }).spec.holderIdentity ?? '';
    expect(holder).toBe(event === 'lease.released' ? '' : `${hostname()}_dead`);
  }
});
