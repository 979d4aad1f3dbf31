import { beforeEach, describe, expect, it } from 'vitest';
import { expiredCertificateAnnotation } from '../../lib/bootstrap-identity.ts';
import { RecoveryError } from '../../lib/errors.ts';
import type { KubeRequest } from '../../lib/kube/kube.ts';
import { createLog } from '../../lib/log.ts';
import { generateKey } from '../../lib/pki/key.ts';
import { signLeaf } from '../../lib/pki/sign.ts';
import { askForCertificate, requestName, requestObject } from '../../lib/origin/ask-certificate.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { nodeAuthority, nodePair } from './node-pair.ts';

const pair = nodePair();
const tiger = async () => {
  const { certificate, key } = await pair;
  return { node: 'tiger', leaf: certificate, key: key.key };
};
const issued = async (): Promise<string> => {
  const { certificate } = await nodePair({ notAfter: new Date('2030-01-01T00:00:00Z') });
  return Buffer.from(certificate.pem).toString('base64');
};

/** What the API server says to who shows what was issued. */
const trials: (object | RecoveryError)[] = [];
beforeEach(() => void trials.splice(0));

/** Answers in turn; the last one again and again. */
async function ask(...answers: readonly (object | RecoveryError)[]) {
  const clock = new FakeClock('2026-03-01T00:00:00Z');
  const asked: string[] = [];
  const lines: string[] = [];
  const request = async ({ method, path }: KubeRequest): Promise<object> => {
    asked.push(`${method} ${path.split('/').at(-1) ?? ''}`);
    const answer = answers[Math.min(asked.length, answers.length) - 1];
    if (answer instanceof RecoveryError) throw answer;
    return answer ?? {};
  };
  const connection = { server: 'https://s', request: request as never };
  const trial = async (): Promise<object> => {
    const answer = trials.shift() ?? {};
    if (answer instanceof RecoveryError) throw answer;
    return answer;
  };
  const connectAs = async () => ({ request: trial, close: async () => undefined }) as never;
  const log = createLog({ write: (line) => lines.push((JSON.parse(line) as { event: string }).event) });
  const { signal } = new AbortController();
  const state = { isOver: false };
  const result = askForCertificate(await tiger(), {
    connection,
    connectAs,
    account,
    waitMs: 40_000,
    clock,
    log,
    signal,
  })
    .then((pem) => pem.toString('base64'))
    .catch((err: unknown) => (err as Error).message)
    .finally(() => (state.isOver = true));
  while (!state.isOver) {
    await Promise.race([clock.waiting(), result]);
    clock.advance(clock.nextWake ?? 0);
    await new Promise(setImmediate);
  }
  return { result: await result, asked, lines, at: clock.now().toISOString() };
}

const account = 'system:serviceaccount:kube-cert-recovery:kube-cert-recovery-worker';
const away = new RecoveryError('KubeUnavailable', 'nothing listens');
const conflict = new RecoveryError('KubeConflict', 'it is there');
/** As another run has made it. */
const own = async (more: { readonly spec?: object; readonly metadata?: object; readonly status?: object } = {}) => {
  const { metadata, spec } = await requestObject(await tiger());
  const username = account;
  return { ...more, metadata: { ...metadata, ...more.metadata }, spec: { ...spec, username, ...more.spec } };
};
const condition = (type: string) => ({ status: { conditions: [{ type, reason: 'R', message: 'm' }] } });

describe('requestObject()', () => {
  it('has one name for one expired certificate, and another one for the next', async () => {
    const [first, next] = [await tiger(), await nodePair({ notAfter: new Date('2026-02-02T00:00:00Z') })];
    expect(await requestObject(first)).toMatchObject({ metadata: { name: requestName(first) } });
    expect(requestName(await tiger())).not.toBe(requestName({ leaf: next.certificate }));
    expect(requestName(first)).toMatch(/^kube-cert-recovery-worker-[0-9a-f]{32}$/);
  });

  it('shows the leaf alone, and asks as a kubelet does', async () => {
    const expired = await tiger();
    const { metadata, spec } = (await requestObject(expired)) as Record<'metadata' | 'spec', Record<string, unknown>>;
    expect(metadata['annotations']).toEqual({ [expiredCertificateAnnotation]: expired.leaf.pem });
    expect(spec).toEqual({
      request: expect.any(String) as string,
      signerName: 'kubernetes.io/kube-apiserver-client-kubelet',
      usages: ['digital signature', 'client auth'],
    });
  });

  it('asks for key encipherment with an RSA key', async () => {
    const [{ certificate: ca, key: caKey }, { key }] = [
      await nodeAuthority(),
      await generateKey({ name: 'RSA', bits: 2048 }),
    ];
    const [from, to] = [new Date('2026-01-01T00:00:00Z'), new Date('2026-02-01T00:00:00Z')];
    const issuer = { certificate: ca, key: caKey.key };
    const names = { commonName: 'system:node:tiger', organizations: ['system:nodes'], hostnames: [] };
    const leaf = await signLeaf({ issuer, key, ...names, usage: 'client', notBefore: from, notAfter: to, now: from });
    expect(await requestObject({ node: 'tiger', leaf, key })).toMatchObject({
      spec: { usages: ['digital signature', 'key encipherment', 'client auth'] },
    });
  });
});

describe('askForCertificate()', () => {
  it('waits for the API server, for the approval and for the signature', async () => {
    const certificate = await issued();
    const { result, asked, lines } = await ask(away, away, {}, condition('Approved'), { status: { certificate } });
    expect(result).toBe(certificate);
    const name = requestName(await tiger());
    const post = 'POST certificatesigningrequests';
    expect(asked).toEqual([post, post, post, `GET ${name}`, `GET ${name}`]);
    expect(lines).toEqual(['api.waiting', 'csr.requested']);
  });

  it('takes up the request that is there', async () => {
    const certificate = await issued();
    const { result, asked } = await ask(conflict, await own({ status: { certificate } }));
    expect(result).toBe(certificate);
    expect(asked.map((each) => each.split(' ')[0])).toEqual(['POST', 'GET']);
  });

  it('asks by another name where somebody has taken its own', async () => {
    const certificate = await issued();
    const { certificate: leaf, key } = await nodePair({ keyOf: 'other' });
    const foreign = await requestObject({ node: 'tiger', leaf, key: key.key });
    const { result, asked, lines } = await ask(conflict, foreign, {}, { status: { certificate } });
    expect(result).toBe(certificate);
    const name = requestName(await tiger());
    expect(asked.slice(0, 3)).toEqual(['POST certificatesigningrequests', `GET ${name}`, asked[0]]);
    expect(asked[3]).toMatch(new RegExp(`^GET ${name}-[0-9a-f]{8}$`));
    expect(lines).toEqual(['csr.taken', 'csr.requested']);
  });

  it.each<[string, { readonly spec?: object; readonly metadata?: object }]>([
    ['for another signer', { spec: { signerName: 'kubernetes.io/kubelet-serving' } }],
    ['without the certificate', { metadata: { annotations: {} } }],
    ['for another use', { spec: { usages: ['digital signature', 'client auth', 'server auth'] } }],
    ['for another time', { spec: { expirationSeconds: 600 } }],
    ['by another identity', { spec: { username: 'system:node:lion' } }],
    [
      'by an account of that name elsewhere',
      { spec: { username: 'system:serviceaccount:other:kube-cert-recovery-worker' } },
    ],
  ])('and where it was taken with its own bytes, %s', async (_, change) => {
    const certificate = await issued();
    const { result, lines } = await ask(conflict, await own(change), {}, { status: { certificate } });
    expect([result, lines]).toEqual([certificate, ['csr.taken', 'csr.requested']]);
  });

  it('floods nobody where every answer is another request than its own, and gives up in time', async () => {
    const { certificate: leaf, key } = await nodePair({ keyOf: 'other' });
    const foreign = await requestObject({ node: 'tiger', leaf, key: key.key });
    const { result, asked } = await ask(...Array.from({ length: 500 }, () => [conflict, foreign]).flat());
    expect(result).toMatch(/has not been approved and signed in 40s/);
    expect(asked.length).toBeLessThan(80); // each look asks twice
  });

  it('takes what it has made for its own, whatever a webhook has changed in it', async () => {
    const certificate = await issued();
    const changed = await own({ metadata: { annotations: {} } });
    const { result, lines } = await ask(changed, { status: { certificate } });
    expect([result, lines]).toEqual([certificate, ['csr.requested']]);
  });

  it('asks again for what was deleted', async () => {
    const certificate = await issued();
    const gone = new RecoveryError('KubeNotFound', 'gone');
    const { result, asked } = await ask({}, gone, {}, { status: { certificate } });
    expect(result).toBe(certificate);
    expect(asked.map((each) => each.split(' ')[0])).toEqual(['POST', 'GET', 'POST', 'GET']);
  });

  it.each(['Denied', 'Failed'])('ends at once when it was %s', async (type) => {
    const { result, asked } = await ask(condition(type));
    expect(result).toMatch(
      /^Cannot renew the client certificate of node "tiger": Certificate\S+ "\S+" was .* \(R: m\)/,
    );
    expect(asked).toHaveLength(1);
  });

  it('ends at once when the API server will not have it', async () => {
    const { result, asked } = await ask(new RecoveryError('KubeRejected', 'no'));
    expect([result, asked.length]).toEqual(['no', 1]);
  });

  it('gives up in time, and says for whom it has waited', async () => {
    const without = await ask(away);
    expect(without.result).toMatch(/the API server has not answered in 40s \(nothing listens\)$/);
    const unapproved = await ask({});
    expect(unapproved.result).toMatch(/has not been approved and signed in 40s; it stays/);
    for (const { at } of [without, unapproved]) expect(at < '2026-03-01T00:00:43').toBe(true);
    // Two seconds between two looks in the end: hundreds of workers may wait.
    expect(unapproved.asked.length).toBeLessThan(40);
  });

  it('says of one that is approved and not signed who is to sign', async () => {
    const { result } = await ask(condition('Approved'));
    expect(result).toMatch(/has been approved, and not signed in 40s; .* See that kube-controller-manager runs/);
  });

  const made = (at: string, certificate: string) => ({
    metadata: { creationTimestamp: at },
    status: { certificate },
  });
  const unknown = new RecoveryError('KubeUnauthorized', '401');

  it('asks by another name where the API server does not know what was issued', async () => {
    const [certificate] = [await issued()];
    trials.push(unknown);
    const { result, asked, lines } = await ask({ status: { certificate } }, {}, { status: { certificate } });
    expect(result).toBe(certificate);
    expect(lines).toEqual(['csr.requested', 'csr.refused', 'csr.requested']);
    expect(asked[2]).toMatch(new RegExp(`^GET ${requestName(await tiger())}-[0-9a-f]{8}$`));
  });

  it('asks by another name where what was issued has expired, or is another one', async () => {
    const { certificate: late } = await nodePair({ notAfter: new Date('2026-02-28T00:00:00Z') });
    const { certificate: other } = await nodePair({ keyOf: 'other', notAfter: new Date('2030-01-01T00:00:00Z') });
    const certificate = await issued();
    for (const { pem } of [late, other]) {
      const bad = Buffer.from(pem).toString('base64');
      const { result, lines } = await ask({ status: { certificate: bad } }, {}, { status: { certificate } });
      expect([result, lines]).toEqual([certificate, ['csr.requested', 'csr.refused', 'csr.requested']]);
    }
  });

  it('keeps the expired one where that is of no use either, and makes no more for ten minutes', async () => {
    const certificate = await issued();
    trials.push(unknown, unknown);
    const recent = made('2026-02-28T23:55:00Z', certificate);
    const { result, asked } = await ask(recent, recent);
    expect(result).toMatch(
      /cannot be used, signed by "CN=\S+", the API server answers 401 to it: .*; the expired one stays, and a new one is asked for in ten minutes$/,
    );
    expect(asked).toHaveLength(2);
    trials.push(unknown, unknown);
    const old = made('2026-02-28T23:45:00Z', certificate);
    expect(await ask(old, old, { status: { certificate } })).toMatchObject({ result: certificate });
  });

  it('waits for an API server that does not say whether it knows it', async () => {
    const certificate = await issued();
    trials.push(away, away);
    const { result, lines } = await ask({ status: { certificate } });
    expect([result, lines]).toEqual([certificate, ['api.waiting', 'csr.requested']]);
  });
});
