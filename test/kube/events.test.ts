// Names of Events: an object may have a name that no Event may have.
import { expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { dnsSubdomain } from '../../lib/inventory/values.ts';
import { EventRecorder } from '../../lib/kube/events.ts';
import type { KubeConnection, KubeRequest } from '../../lib/kube/kube.ts';
import { createLog } from '../../lib/log.ts';

it.each([
  ['csr-abcde', 'csr-abcde.'],
  ['node-1.example', 'node-1.example.'],
  ['a,b', 'a-b.'],
  ['X=..\u0000é', 'x.'],
  ['…', 'object.'],
  ['n'.repeat(1000), `${'n'.repeat(230)}.`],
])('of an object with the name %j begins with %j', async (name, beginning) => {
  const sent: { readonly metadata: { readonly name: string }; readonly regarding: { readonly name: string } }[] = [];
  const connection = {
    request: ({ body }: KubeRequest) => Promise.resolve(void sent.push(body as (typeof sent)[number])),
  } as unknown as KubeConnection;
  const log = createLog({ write: () => undefined });
  const events = new EventRecorder({ connection, clock: systemClock, log, instance: 'test' });
  const regarding = { kind: 'CertificateSigningRequest', name } as const;
  events.record({ type: 'Normal', reason: 'CertificateRequestApproved', regarding, note: 'yes' });
  expect(await events.flush()).toBe(0);
  expect(sent[0]?.regarding.name).toBe(name);
  expect(sent[0]?.metadata.name.startsWith(beginning)).toBe(true);
  expect(sent[0]?.metadata.name).toMatch(dnsSubdomain);
});
