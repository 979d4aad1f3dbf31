// The rules by which a request is believed that has the key of the expired certificate which it shows. Certificates and
// requests are made by openssl.
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ApprovalVerdict, judge, type PendingReason } from '../../lib/approver/judge.ts';
import { contentOf } from '../../lib/approver/node-facts.ts';
import type { NodeFacts } from '../../lib/approver/node-state.ts';
import { isByPossession, keyHash } from '../../lib/approver/possession.ts';
import type { SigningRequest } from '../../lib/approver/request.ts';
import {
  bootstrapRequester,
  expiredCertificateAnnotation,
  kubeletClientSigner,
  type Requester,
  requesterOf,
} from '../../lib/bootstrap-identity.ts';
import { type Certificate, parseCertificates } from '../../lib/pki/certificate.ts';
import {
  type AuthorityOptions,
  createAuthority,
  createLeaf,
  type LeafOptions,
  type Pair,
} from '../support/certificates/certificates.ts';
import { kubeletRequest } from '../support/certificates/requests.ts';

const now = new Date('2026-06-01T12:00:00Z');
const ago = (ms: number): Date => new Date(now.getTime() - ms);
const minute = 60_000;
const day = 86_400_000;
const notBefore = ago(400 * day);
const end = ago(35 * day);
const worker = requesterOf('worker', 'ns');

let root: string;
let authority: Pair;
const texts = { leaf: '', key: '', authority: '', request: '' };
let keyOfLeaf: string;
let made = 0;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'possession-'));
  authority = await newAuthority({});
  const leaf = await newLeaf({});
  texts.leaf = await readFile(leaf.cert, 'utf8');
  texts.key = await readFile(leaf.key, 'utf8');
  texts.authority = await readFile(authority.cert, 'utf8');
  texts.request = await kubeletRequest('panda', { keyFile: leaf.key });
  const [certificate] = parseCertificates(Buffer.from(texts.leaf), 'leaf');
  keyOfLeaf = keyHash(certificate?.fields.publicKeyInfo ?? Buffer.alloc(0));
});
afterAll(() => rm(root, { recursive: true, force: true }));

const newDirectory = (): string => join(root, `${(made += 1)}`);
const newAuthority = (options: Partial<AuthorityOptions>): Promise<Pair> =>
  createAuthority(newDirectory(), { commonName: 'ca', notBefore, notAfter: ago(-day), ...options });
const newLeaf = (options: Partial<LeafOptions>, signer = authority): Promise<Pair> => {
  const names = { commonName: 'system:node:panda', organization: 'system:nodes' };
  return createLeaf(newDirectory(), signer, { ...names, notBefore, notAfter: end, ...options });
};

interface Given {
  readonly shown?: string | undefined;
  readonly pem?: string;
  readonly requester?: Requester;
  readonly facts?: Partial<NodeFacts>;
  readonly authorities?: string;
  readonly now?: Date;
  readonly isConfirmed?: boolean;
}

const node = { createdAt: notBefore, uid: 'u-node' };

function judged({
  pem = texts.request,
  requester = worker,
  facts = {},
  isConfirmed = true,
  ...given
}: Given = {}): ApprovalVerdict {
  const shown = 'shown' in given ? given.shown : texts.leaf;
  const request: SigningRequest = {
    metadata: {
      name: 'csr-1',
      uid: 'u1',
      creationTimestamp: now.toISOString(),
      ...(shown !== undefined && { annotations: { [expiredCertificateAnnotation]: shown } }),
    },
    spec: { request: Buffer.from(pem).toString('base64'), signerName: kubeletClientSigner },
  };
  const content = contentOf(request);
  if ('problem' in content) throw new Error(content.problem);
  const all: NodeFacts = { isExpected: false, node, renewedAt: ago(36 * day), ...facts };
  const authorities: Certificate[] = parseCertificates(Buffer.from(given.authorities ?? texts.authority), 'ca');
  return judge({
    request,
    node: 'panda',
    facts: all,
    possession: isByPossession(request, requester, all) ? { content, authorities } : undefined,
    longestLifeMs: 365 * day,
    clock: { builtAt: new Date('2026-01-01T00:00:00Z'), synchronised: isConfirmed },
    now: given.now ?? now,
  });
}

const approved = { action: 'approve', node: 'panda' };
const left = (reason: PendingReason): object => ({ action: 'leave', node: 'panda', reason });

describe('a request that shows the expired certificate of its node', () => {
  it('is approved when it has its key, and says by what', () => {
    expect(judged()).toEqual({
      ...approved,
      isFirst: false,
      message: `it has the key of the node's certificate, which expired at ${end.toISOString()}`,
    });
  });

  const own = { state: 'present', path: '/p', commonName: 'system:node:panda', notAfter: end } as const;
  it.each<[string, Given]>([
    ['by any requester', { requester: bootstrapRequester('ns') }],
    ['with comments around it', { shown: undefined }],
    ['whatever the longest life', { facts: { renewedAt: end } }],
    ['where its node spoke in the last minute of the certificate', { facts: { renewedAt: ago(35 * day - minute) } }],
    ['where its node has no Lease', { facts: { renewedAt: undefined } }],
    [
      'where its Node was made ten minutes after the certificate began',
      { facts: { node: { createdAt: new Date(notBefore.getTime() + 10 * minute) } } },
    ],
    ['where an older one was recorded', { facts: { recorded: { until: ago(60 * day), key: '' } } }],
    ["of this machine's node, whose file has expired as well", { facts: { own, renewedAt: undefined } }],
  ])('is approved %s', (what, given) => {
    const shown = what.includes('comments') ? `# a\n${texts.leaf}\n# b\n` : texts.leaf;
    expect(judged({ ...given, shown })).toMatchObject(approved);
  });

  it('is approved whenever its Node was made, where its key was noted for this Node', () => {
    const late = { ...node, createdAt: new Date(notBefore.getTime() + 50 * minute) };
    const recorded = { until: end, key: keyOfLeaf, nodeUid: 'u-node' };
    expect(judged({ facts: { node: late, recorded } })).toMatchObject(approved);
  });

  it('is approved by a CA that has expired since', async () => {
    const signer = await newAuthority({ notAfter: end });
    const { cert, key } = await newLeaf({}, signer);
    const pem = await kubeletRequest('panda', { keyFile: key });
    const authorities = texts.authority + (await readFile(signer.cert, 'utf8'));
    expect(judged({ shown: await readFile(cert, 'utf8'), pem, authorities })).toMatchObject(approved);
  });

  it('is approved when it is the one that was recorded, also for this Node', () => {
    const recorded = { until: end, key: keyOfLeaf };
    expect(judged({ facts: { recorded } })).toMatchObject(approved);
    expect(judged({ facts: { recorded: { ...recorded, nodeUid: 'u-node' } } })).toMatchObject(approved);
  });

  it('is approved when a later one with the same key has expired as well', () => {
    const renewed = { until: ago(day), key: keyOfLeaf };
    expect(judged({ facts: { recorded: renewed } })).toMatchObject(approved);
    expect(judged({ facts: { recorded: renewed, renewedAt: ago(2 * day) } })).toMatchObject(approved);
    expect(judged({ facts: { issuedUntil: renewed.until, issuedKey: keyOfLeaf } })).toMatchObject(approved);
  });
});

describe('a request that shows something else', () => {
  it.each<[PendingReason, string, () => string | undefined]>([
    ['CertificateNotShown', 'nothing', () => undefined],
    ['CertificateUnreadable', 'no text', () => ''],
    ['CertificateUnreadable', 'no PEM', () => 'panda'],
    ['CertificateUnreadable', 'a torn certificate', () => texts.leaf.slice(0, 300)],
    ['CertificateUnreadable', 'it twice', () => texts.leaf + texts.leaf],
    ['CertificateUnreadable', 'its CA besides', () => texts.leaf + texts.authority],
    ['CertificateUnreadable', 'its key besides', () => texts.leaf + texts.key],
    ['CertificateUnreadable', 'a request', () => texts.request],
    ['KeyDiffers', 'its CA', () => texts.authority],
  ])('is left, %s: %s', (reason, _what, shown) => {
    const verdict = judged({ shown: shown() });
    expect(verdict).toMatchObject(left(reason));
    for (const line of texts.key.split('\n').slice(1, -2)) expect(JSON.stringify(verdict)).not.toContain(line);
  });

  it('is left when it has another key', async () => {
    expect(judged({ pem: await kubeletRequest('panda') })).toMatchObject(left('KeyDiffers'));
  });

  it.each<[PendingReason, string, Partial<LeafOptions>]>([
    ['CertificateOfOtherNode', "a neighbour's", { commonName: 'system:node:tiger' }],
    ['CertificateOfOtherNode', 'of another organization', { organization: 'system:masters' }],
    ['CertificateOfOtherNode', 'of no organization', { organization: '' }],
    ['CertificateNotTrusted', 'a server', { usages: ['serverAuth'] }],
    ['CertificateNotTrusted', 'of no usage: none is made so for a kubelet', { usages: [] }],
    ['CertificateStillValid', 'valid for a second', { notAfter: ago(-1000) }],
    ['CertificateStillValid', 'ended a moment ago: clocks may differ', { notAfter: ago(minute - 1000) }],
  ])('is left, %s: %s', async (reason, _what, options) => {
    const { cert, key } = await newLeaf(options);
    const pem = await kubeletRequest('panda', { keyFile: key });
    expect(judged({ shown: await readFile(cert, 'utf8'), pem })).toMatchObject(left(reason));
  });

  it('is left when it is of a CA of the same name that the API server does not believe', async () => {
    const { cert, key } = await newLeaf({}, await newAuthority({}));
    const pem = await kubeletRequest('panda', { keyFile: key });
    expect(judged({ shown: await readFile(cert, 'utf8'), pem })).toMatchObject(left('CertificateNotTrusted'));
  });

  it('is left when its certificate outlived the CA', async () => {
    const signer = await newAuthority({ notAfter: ago(36 * day) });
    const { cert, key } = await newLeaf({}, signer);
    const pem = await kubeletRequest('panda', { keyFile: key });
    const given = { shown: await readFile(cert, 'utf8'), pem, authorities: await readFile(signer.cert, 'utf8') };
    expect(judged(given)).toMatchObject(left('CertificateNotTrusted'));
  });

  it('counts for no less where its requester could do without', () => {
    const facts = { node, renewedAt: ago(400 * day) };
    const requester = bootstrapRequester('ns');
    expect(judged({ requester, facts, shown: undefined })).toMatchObject(approved);
    expect(judged({ requester, facts, shown: 'panda' })).toMatchObject(left('CertificateUnreadable'));
  });
});

describe('what is known of the node', () => {
  const other = '0'.repeat(64);
  const approval = { uid: 'u0', at: ago(minute), requestedAt: ago(2 * minute), isIssued: false, knownMs: 0 };
  const ownOf = (notAfter: Date) =>
    ({ state: 'present', path: '/p', commonName: 'system:node:panda', notAfter }) as const;
  it.each<[PendingReason, string, () => Partial<NodeFacts>]>([
    ['NodeUnknown', 'its Node is gone', () => ({ node: undefined })],
    ['NodeUnknown', 'it is only expected', () => ({ node: undefined, isExpected: true })],
    ['CertificateSuperseded', 'its Node was made anew', () => ({ node: { createdAt: ago(34 * day) } })],
    ['CertificateSuperseded', 'it renewed its Lease since', () => ({ renewedAt: ago(34 * day) })],
    ['CertificateSuperseded', 'it reported its status since', () => ({ heartbeatAt: ago(34 * day) })],
    [
      'CertificateSuperseded',
      'another key was seen to be certified',
      () => ({ issuedUntil: ago(day), issuedKey: other }),
    ],
    [
      'CertificateSuperseded',
      'another key was recorded that ended with it, as both ended with their CA',
      () => ({ recorded: { until: end, key: other } }),
    ],
    ['CertificateSuperseded', 'another key was recorded', () => ({ recorded: { until: ago(day), key: other } })],
    [
      'CertificateSuperseded',
      'another key was recorded and is valid',
      () => ({ recorded: { until: ago(-day), key: other } }),
    ],
    [
      'CertificateSuperseded',
      'its Node was made long after the certificate began, as that of a former machine',
      () => ({ node: { createdAt: ago(100 * day) } }),
    ],
    [
      'CertificateSuperseded',
      'it spoke since, and the same key has a valid one',
      () => ({ recorded: { until: ago(-day), key: keyOfLeaf }, renewedAt: ago(day) }),
    ],
    [
      'CertificateSuperseded',
      'its Node was made anew within a quarter of an hour, and the key is noted as that of the former one',
      () => ({ recorded: { until: end, key: keyOfLeaf, nodeUid: 'u-former' } }),
    ],
    [
      'CertificateSuperseded',
      'its Node was made twenty minutes after the certificate began',
      () => ({ node: { createdAt: new Date(notBefore.getTime() + 20 * minute) } }),
    ],
    ['CertificateSuperseded', 'what was recorded cannot be read', () => ({ recorded: {} })],
    [
      'CertificateSuperseded',
      'it spoke after a later one with the same key',
      () => ({ recorded: { until: ago(2 * day), key: keyOfLeaf }, renewedAt: ago(day) }),
    ],
    ['AlreadyApproved', 'another request was approved', () => ({ approval })],
    ['NodeAlive', 'it speaks', () => ({ renewedAt: ago(minute) })],
    ['CertificateStillValid', "it is this machine's, with a valid file", () => ({ own: ownOf(ago(-day)) })],
  ])('leaves the request, %s: %s', (reason, _what, facts) => {
    expect(judged({ facts: facts() })).toMatchObject(left(reason));
  });

  it('approves what has lost a certificate with the same key, which nobody else can use', () => {
    expect(judged({ facts: { recorded: { until: ago(-day), key: keyOfLeaf } } })).toMatchObject(approved);
  });

  it('holds the rules of the clock', () => {
    expect(judged({ isConfirmed: false })).toMatchObject({ ...left('ClockUnconfirmed'), lookAgainMs: 10_000 });
    expect(judged({ now: new Date('2037-01-01T00:00:00Z'), isConfirmed: false })).toMatchObject(
      left('ClockImplausible'),
    );
  });

  it("leaves a worker's request for this machine's node that shows nothing, whatever its file is", () => {
    expect(judged({ facts: { own: ownOf(end) }, shown: undefined })).toMatchObject(left('CertificateNotShown'));
    expect(judged({ facts: { own: ownOf(end) }, shown: undefined, requester: bootstrapRequester('ns') })).toMatchObject(
      approved,
    );
  });
});
