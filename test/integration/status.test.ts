// `status` of a real control plane: healthy, in some years, and with things missing.
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { runInit } from '../../lib/install/init.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import { createProver } from '../../lib/proof/prove.ts';
import { renderStatus } from '../../lib/status/print.ts';
import type { StatusReport, StatusRow } from '../../lib/status/report.ts';
import { runStatus, type StatusOptions } from '../../lib/status/status.ts';
import { createApiStore } from '../../lib/store/api-store.ts';
import { createDiskStore } from '../../lib/store/disk-store.ts';
import { createStore } from '../../lib/store/store.ts';
import { type RenderedControlPlane, startRenderedControlPlane } from '../support/cluster/rendered-control-plane.ts';

const signal = new AbortController().signal;
const clock = systemClock;
const day = 86_400_000;
let plane: RenderedControlPlane;
let certs: string;

beforeAll(async () => {
  plane = await startRenderedControlPlane();
  const { admin: connection, resolved, out: directory, server } = plane;
  certs = join(directory, 'certs');
  const settings = { preset: resolved.name };
  const recoveryServerName = 'localhost-recovery';
  await runInit({ connection, resolved, directory, server, recoveryServerName, settings, clock, signal });
});
afterAll(() => plane?.[Symbol.asyncDispose]());

function look(more: Partial<StatusOptions> = {}): Promise<StatusReport> {
  const { admin: connection, resolved, controlPlane } = plane;
  const apiServer = { host: '127.0.0.1', port: controlPlane.port };
  return runStatus({
    resolved,
    store: createStore({ api: createApiStore({ connection, fieldManager: 'test' }), disk: createDiskStore() }),
    policy: { kind: 'OnlyWhenExpired', graceMs: 60_000, settleMs: 1000 },
    clockFacts: { builtAt: new Date('2026-01-01T00:00:00Z'), synchronised: true },
    clock,
    directoriesOf: () => [certs],
    prove: createProver({ connection, apiServer, destinationDir: certs, clock, signal }),
    signal,
    ...more,
  });
}

const rowOf = ({ rows }: StatusReport, name: string): StatusRow | undefined =>
  rows.find(({ artefact }) => artefact === name);
const inDays = (days: number): Date => new Date(clock.now().getTime() + days * day);

describe('runStatus()', () => {
  it('finds a fresh control plane healthy: on disk and, where it can be seen, in use', async () => {
    await expect
      .poll(async () => rowOf(await look(), 'kube-controller-manager-client')?.inUse?.state, { timeout: 60_000 })
      .toBe('proven');
    const status = await look();
    expect(status.problems).toEqual([]);
    expect(status.class).toBe('healthy');
    expect(status.rows.filter(({ state }) => state !== 'OK')).toEqual([]);
    expect(status.rows.filter(({ onDisk }) => (onDisk ?? 'same') !== 'same')).toEqual([]);
    for (const name of ['kube-apiserver-serving', 'localhost-serving', 'localhost-recovery-serving']) {
      expect(rowOf(status, name)?.inUse?.state, name).toBe('proven');
    }
    expect(renderStatus(status, { output: 'table' })).toContain('Everything is as it should be.');
  });

  it('names a webhook that could stop recovery, to those who may list webhooks; to others it says that it cannot', async () => {
    const { admin: connection, controlPlane, out } = plane;
    const rules = [{ apiGroups: [''], apiVersions: ['v1'], operations: ['UPDATE'], resources: ['secrets'] }];
    const webhook = {
      name: 'policy.example.com',
      clientConfig: { url: 'https://127.0.0.1:1/' },
      rules,
      admissionReviewVersions: ['v1'],
      sideEffects: 'None',
      failurePolicy: 'Fail',
    };
    const kind = 'ValidatingWebhookConfiguration';
    const manifest = { apiVersion: 'admissionregistration.k8s.io/v1', kind, metadata: { name: 'policy' } };
    await controlPlane.apply(JSON.stringify({ ...manifest, webhooks: [webhook] }));
    const kubeconfigFile = join(out, 'credentials', 'regen', 'kubeconfig');
    const regen = await openConnection({ kubeconfigFile, clock, userAgent: 'test' });
    try {
      const status = await look({ connection });
      expect(status.webhooks).toMatchObject({ seen: true, findings: [{ webhook: webhook.name, blocks: true }] });
      expect(status.class).toBe('healthy');
      const limited = await look({ connection: regen });
      expect(limited.webhooks).toMatchObject({ seen: false, message: 'only an administrator may list them' });
      expect(limited.class).toBe('healthy');
    } finally {
      await regen.close();
      await controlPlane.kubectl('delete', 'validatingwebhookconfiguration', 'policy');
    }
    expect((await look({ connection })).webhooks).toEqual({ seen: true, findings: [] });
  });

  it('says of 100 days from now that the cluster comes back by itself', async () => {
    const status = await look({ at: inDays(100) });
    expect(status.class).toBe('recovering');
    expect(rowOf(status, 'kube-apiserver-serving')).toMatchObject({ state: 'EXPIRED', action: 'renew' });
    expect(rowOf(status, 'localhost-recovery-serving')).toMatchObject({ state: 'OK', action: 'keep' });
    expect(rowOf(status, 'etcd-server')).toMatchObject({ state: 'OK', action: 'keep' });
    expect(rowOf(status, 'kube-apiserver-serving')?.onDisk).toBeUndefined();
  });

  it('says of 11 years from now that recovery cannot reach the API, and what to do', async () => {
    const status = await look({ at: inDays(11 * 365) });
    expect(status.class).toBe('stuck');
    expect(status.problems.join()).toContain('renew it by hand');
  });

  it('shows what is missing in the API, other on disk, and gone from disk', async () => {
    const { controlPlane } = plane;
    await controlPlane.kubectl('delete', 'secret', 'kubelet-client', '-n', 'kube-cert-recovery');
    writeFileSync(join(certs, 'configmaps', 'client-ca', 'ca-bundle.crt'), 'other');
    rmSync(join(certs, 'configmaps', 'aggregator-client-ca'), { recursive: true });
    const status = await look();
    expect(status.class).toBe('recovering');
    expect(rowOf(status, 'kubelet-client')).toMatchObject({ state: 'MISSING', reason: 'Absent', action: 'renew' });
    expect(rowOf(status, 'client-ca')).toMatchObject({ state: 'OK', onDisk: 'different' });
    expect(rowOf(status, 'aggregator-client-ca')).toMatchObject({ state: 'OK', onDisk: 'missing' });
    expect(renderStatus(status, { output: 'table' })).toContain('!MISSING! kubelet-client');
  });

  it('says what it could not read when the API is away, and still tells of the files', async () => {
    await plane.controlPlane.stopComponent('kube-apiserver');
    const status = await look();
    expect(status.class).toBe('stuck');
    expect(rowOf(status, 'client-ca')).toMatchObject({ state: 'UNKNOWN', reason: 'Unavailable' });
    expect(rowOf(status, 'etcd-server')).toMatchObject({ state: 'OK' });
  });
});
