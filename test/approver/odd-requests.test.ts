// What comes as a request and is none must not end the list or the watch that brings the others.
import { expect, it } from 'vitest';
import { ClientPolicy } from '../../lib/approver/client-policy.ts';
import { RequestQueue } from '../../lib/approver/queue.ts';
import type { ApproverOptions } from '../../lib/approver/settings.ts';
import type { SigningRequest } from '../../lib/approver/request.ts';
import { bootstrapRequester, kubeletClientSigner } from '../../lib/bootstrap-identity.ts';
import { systemClock } from '../../lib/clock.ts';
import type { KubeConnection } from '../../lib/kube/kube.ts';
import { createLog } from '../../lib/log.ts';

const requester = bootstrapRequester('ns');
const spec = { request: '', signerName: kubeletClientSigner, username: requester.username };
const whole: SigningRequest = { metadata: { name: 'whole', uid: '1' }, spec };

const odd: readonly unknown[] = [
  null,
  {},
  { metadata: null },
  { metadata: { name: 'a' } },
  { metadata: { name: 'a' }, spec: null },
  { metadata: { name: 'a' }, spec, status: { conditions: [null] } },
  { metadata: { name: 'a' }, spec, status: { conditions: 7 } },
  { metadata: { name: 'a' }, spec, status: { certificate: 7 } },
  { metadata: { name: 7 }, spec: { ...spec, request: 7 } },
];

it.each(odd)('%j is left out, told, and no other is lost', (request) => {
  const lines: string[] = [];
  const options: ApproverOptions = {
    requesters: [requester],
    connection: undefined as unknown as KubeConnection, // nothing is asked here
    clock: systemClock,
    log: createLog({ write: (line) => lines.push(line) }),
    signal: new AbortController().signal,
    once: false,
    dryRun: false,
    nodeName: 'n',
    nodeCertificate: '/nonexistent',
    expectedNodes: [],
    namespace: 'kube-cert-recovery',
    bootedAt: () => undefined,
    longestLifeMs: 1,
    recheckMs: 1000,
    clockFacts: () => Promise.resolve({ builtAt: new Date(0), synchronised: true }),
  };
  const queue = new RequestQueue(options, [new ClientPolicy(options)]);
  queue.put(whole);
  queue.put(request as SigningRequest);
  queue.heard(kubeletClientSigner, 'DELETED', request);
  expect(queue.dueInMs()).toBe(0);
  const isRequest = typeof request === 'object' && request !== null && 'spec' in request && request.spec !== null;
  if (!isRequest) expect(lines.join('')).toContain('csr.failed');
});
