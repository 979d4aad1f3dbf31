import { expect, it } from 'vitest';
import type { ResolvedArtefact } from '../../lib/inventory/model.ts';
import type { KubeConnection } from '../../lib/kube/kube.ts';
import { createProver } from '../../lib/proof/prove.ts';
import { FakeClock } from '../support/fake-clock.ts';

const artefact = {
  name: 'client',
  kind: 'target',
  location: { kind: 'secret', namespace: 'a', name: 'client' },
  readers: [{ component: 'kcm', needs: 'nothing', proof: { kind: 'lease', namespace: 'kube-system', name: 'kcm' } }],
} as unknown as ResolvedArtefact;

it.each([
  ['before the boot', '2026-01-01T09:58:00Z', 'unproven'],
  ['after the boot', '2026-01-01T09:59:30Z', 'proven'],
])('a renewal %s proves accordingly, although the files are older', async (_, renewTime, state) => {
  const clock = new FakeClock('2026-01-01T10:00:00Z', 60);
  const lease = { spec: { holderIdentity: 'node1_x', renewTime } };
  const connection = { request: async () => lease } as unknown as KubeConnection;
  const { signal } = new AbortController();
  const apiServer = { host: '127.0.0.1', port: 1 };
  const prove = createProver({
    connection,
    apiServer,
    destinationDir: '/nonexistent',
    clock,
    signal,
    hostName: 'node1',
  });
  const proof = await prove(artefact, new Date('2026-01-01T08:00:00Z'));
  expect(proof.state, proof.message).toBe(state);
});
