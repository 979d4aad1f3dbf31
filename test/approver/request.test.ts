// How large a request may be, and what stays in memory of one.
import { describe, expect, it } from 'vitest';
import { type RequestSummary, requestSummary } from '../../lib/approver/batch.ts';
import { askedNode } from '../../lib/approver/client-request.ts';
import { judgeSize, type SigningRequest } from '../../lib/approver/request.ts';
import { bootstrapRequester, kubeletClientSigner } from '../../lib/bootstrap-identity.ts';
import { createRequest, kubeletRequest } from '../support/certificates/requests.ts';

const asked = (pem: string, labels = {}): SigningRequest & { metadata: { labels: object } } => ({
  metadata: { name: 'csr-1', uid: 'u1', creationTimestamp: '2026-01-01T00:00:00Z', labels },
  spec: {
    request: Buffer.from(pem).toString('base64'),
    signerName: kubeletClientSigner,
    usages: ['digital signature', 'client auth'],
    ...bootstrapRequester('ns'),
  },
});

const summaryOf = (request: SigningRequest): RequestSummary => requestSummary(request, { nodeOf: askedNode });

describe('judgeSize()', () => {
  it('has nothing against what a kubelet sends, with a large key either', async () => {
    for (const key of ['P-256', 'rsa2048'] as const) {
      expect(judgeSize(summaryOf(asked(await kubeletRequest('panda', { key }))).size)).toBeUndefined();
    }
    expect(judgeSize(65_536)).toBeUndefined();
  });

  it('says that a request is too large, wherever its text is', async () => {
    const pem = await kubeletRequest('panda');
    const text = 'x'.repeat(65_536);
    for (const request of [asked(`${text}\n${pem}`), asked(pem, { 'a.example.com': text })]) {
      expect(judgeSize(summaryOf(request).size)).toMatchObject({ action: 'leave', reason: 'RequestTooLarge' });
    }
    expect(judgeSize(65_537)?.message).toBe('it has more than 65536 bytes: no kubelet sends so much');
  });
});

describe('requestSummary()', () => {
  it('has the node that is asked for', async () => {
    const pem = await kubeletRequest('panda');
    expect(summaryOf(asked(pem))).toMatchObject({ node: 'panda' });
    for (const other of ['', 'x', pem.replace('BEGIN', 'BEGUN'), `${'x'.repeat(65_536)}\n${pem}`]) {
      expect(summaryOf(asked(other)), other.slice(0, 40)).not.toHaveProperty('node');
    }
    expect(summaryOf(asked(await createRequest({ subject: ['CN=panda'] })))).not.toHaveProperty('node');
  });

  it('has nothing of what the request holds', () => {
    const summary = summaryOf(asked('SECRET'.repeat(10_000)));
    expect(summary).toEqual({
      name: 'csr-1',
      signer: kubeletClientSigner,
      uid: 'u1',
      requestedAt: new Date('2026-01-01T00:00:00Z'),
      size: expect.any(Number) as number,
    });
    expect(summary.size).toBeGreaterThan(80_000);
  });
});
