// The rules by which a kubelet's request for a client certificate is approved, with requests that openssl has made.
import { beforeAll, describe, expect, it } from 'vitest';
import { parseFirstApproval } from '../../lib/approver/first-approvals.ts';
import { contentOf } from '../../lib/approver/node-facts.ts';
import { judge, type PendingReason, type ApprovalVerdict } from '../../lib/approver/judge.ts';
import type { NodeFacts } from '../../lib/approver/node-state.ts';
import { judgeClientRequest, requesterIn } from '../../lib/approver/client-request.ts';
import { isDecided, type SigningRequest } from '../../lib/approver/request.ts';
import { bootstrapRequester, kubeletClientSigner, type Requester, requesterOf } from '../../lib/bootstrap-identity.ts';
import {
  createRequest,
  kubeletRequest,
  type RequestOptions,
  withSignatureOf,
} from '../support/certificates/requests.ts';

const now = new Date('2026-06-01T12:00:00Z');
const ago = (ms: number): Date => new Date(now.getTime() - ms);
const minute = 60_000;
const day = 86_400_000;
const year = 365 * day;
const requester = bootstrapRequester('kube-cert-recovery');
const path = '/var/lib/kubelet/pki/kubelet-client-current.pem';

let panda: string;
beforeAll(async () => {
  panda = await kubeletRequest('panda');
});

interface Given {
  readonly pem?: string;
  readonly spec?: Partial<SigningRequest['spec']>;
  readonly status?: SigningRequest['status'];
  readonly requestedAt?: Date;
  readonly facts?: Partial<NodeFacts>;
  readonly bootedAt?: Date;
  readonly requesters?: readonly Requester[];
  readonly now?: Date;
  readonly builtAt?: Date;
  readonly isConfirmed?: boolean;
}

/** What this machine's kubelet sends; without facts its certificate has ended. */
function judged({
  pem = panda,
  spec = {},
  status,
  requestedAt = now,
  facts,
  bootedAt,
  requesters = [requester],
  ...time
}: Given = {}): ApprovalVerdict {
  const request: SigningRequest = {
    metadata: { name: 'csr-1', uid: 'u1', resourceVersion: '7', creationTimestamp: requestedAt.toISOString() },
    spec: {
      request: Buffer.from(pem).toString('base64'),
      signerName: kubeletClientSigner,
      usages: ['digital signature', 'client auth'],
      ...requester,
      ...spec,
    },
    ...(status !== undefined && { status }),
  };
  const asking = requesterIn(request, requesters);
  if (asking === undefined || isDecided(request)) return { action: 'ignore' };
  const shape = judgeClientRequest(request, () => contentOf(request), asking);
  if (shape.action !== 'judge') return shape;
  return judge({
    request,
    node: shape.node,
    facts: { isExpected: false, ...(facts ?? { own: ended }) },
    longestLifeMs: 365 * day,
    bootedAt,
    clock: { builtAt: time.builtAt ?? new Date('2026-01-01T00:00:00Z'), synchronised: time.isConfirmed ?? true },
    now: time.now ?? now,
  });
}

const own = (notAfter: Date, commonName = 'system:node:panda') =>
  ({ state: 'present', path, commonName, notAfter }) as const;
const ended = own(ago(day));

const left = (reason: PendingReason): object => ({ action: 'leave', reason });
const approved = { action: 'approve', node: 'panda' };

describe('judge(): what a request must be', () => {
  it.each<[string, Given, object]>([
    ['the two usages', {}, approved],
    [
      'key encipherment besides',
      { spec: { usages: ['key encipherment', 'client auth', 'digital signature'] } },
      approved,
    ],
    ['groups in another order', { spec: { groups: requester.groups.toReversed() } }, approved],
  ])('approves a request of the bootstrap identity with %s', (_what, given, verdict) => {
    expect(judged(given)).toMatchObject(verdict);
  });

  it.each<[string, Given]>([
    ['by another ServiceAccount', { spec: { username: 'system:serviceaccount:kube-system:node-bootstrapper' } }],
    ['by one of the same name elsewhere', { spec: bootstrapRequester('elsewhere') }],
    [
      'by the node itself',
      { spec: { username: 'system:node:panda', groups: ['system:nodes', 'system:authenticated'] } },
    ],
    ['by an administrator', { spec: { username: 'kubernetes-admin', groups: ['system:masters'] } }],
    ['for the signer of serving certificates', { spec: { signerName: 'kubernetes.io/kubelet-serving' } }],
    ['for the signer of all clients', { spec: { signerName: 'kubernetes.io/kube-apiserver-client' } }],
    ['that is approved', { status: { conditions: [{ type: 'Approved', status: 'True' }] } }],
    ['that is denied', { status: { conditions: [{ type: 'Denied', status: 'True' }] } }],
    ['that has failed', { status: { conditions: [{ type: 'Failed', status: 'True' }] } }],
    ['that has its certificate', { status: { certificate: 'eA==' } }],
  ])('has nothing to say about a request %s', (_what, given) => {
    expect(judged(given)).toEqual({ action: 'ignore' });
  });

  const tokenGroups = [
    'system:bootstrappers',
    'system:bootstrappers:kubeadm:default-node-token',
    'system:authenticated',
  ];
  const openshift = 'openshift-machine-config-operator';
  const accountGroups = ['system:serviceaccounts', `system:serviceaccounts:${openshift}`, 'system:authenticated'];
  const requesters = (['kubeadm', 'openshift', { username: 'ours', groups: ['a'] }] as const).map((one) =>
    requesterOf(one, 'ns'),
  );

  it.each<[string, string, readonly string[], object]>([
    ['a token of kubeadm', 'system:bootstrap:abc123', tokenGroups, approved],
    ["OpenShift's", `system:serviceaccount:${openshift}:node-bootstrapper`, accountGroups, approved],
    ['one that the configuration names', 'ours', ['a'], approved],
    [
      'a token of kubeadm with a group more',
      'system:bootstrap:abc123',
      [...tokenGroups, 'a'],
      left('RequesterDiffers'),
    ],
    ["another's groups", 'ours', tokenGroups, left('RequesterDiffers')],
    ['a name that only begins like a token', 'system:bootstrap:abc1234', tokenGroups, { action: 'ignore' }],
    ['a name in upper case', 'system:bootstrap:ABC123', tokenGroups, { action: 'ignore' }],
    ['a name with a line break', 'system:bootstrap:abc123\n', tokenGroups, { action: 'ignore' }],
    ['another account there', `system:serviceaccount:${openshift}:default`, accountGroups, { action: 'ignore' }],
    ['our own, which is not configured', requester.username, requester.groups, { action: 'ignore' }],
  ])('by the configured requesters: %s', (_what, username, groups, verdict) => {
    expect(judged({ spec: { username, groups }, requesters })).toMatchObject(verdict);
  });

  it.each<[string, readonly string[]]>([
    ['one more', [...requester.groups, 'system:masters']],
    ['one fewer', requester.groups.slice(1)],
    ['none', []],
  ])('leaves a request whose requester has other groups: %s', (_what, groups) => {
    expect(judged({ spec: { groups } })).toMatchObject(left('RequesterDiffers'));
  });

  it.each<[string, readonly string[]]>([
    ['none', []],
    ['server auth in place of client auth', ['digital signature', 'server auth']],
    ['server auth besides', ['digital signature', 'client auth', 'server auth']],
    ['a fourth', ['digital signature', 'client auth', 'key encipherment', 'signing']],
    ['client auth alone', ['client auth']],
    ['digital signature alone', ['digital signature']],
  ])('leaves a request with other usages: %s', (_what, usages) => {
    expect(judged({ spec: { usages } })).toMatchObject(left('UsagesUnsuitable'));
  });

  it.each([600, 86_400, 2_147_483_647])('leaves a request for a life of %i s: a kubelet names none', (seconds) => {
    expect(judged({ spec: { expirationSeconds: seconds } })).toMatchObject(left('LifetimeUnsuitable'));
    expect(judged({ spec: { expirationSeconds: null as never } })).toMatchObject(approved);
  });

  it.each<[string, readonly string[]]>([
    ['a second organization', ['O=system:nodes', 'O=system:masters', 'CN=system:node:panda']],
    ['another organization', ['O=system:masters', 'CN=system:node:panda']],
    ['no organization', ['CN=system:node:panda']],
    ['the same organization twice', ['O=system:nodes', 'O=system:nodes', 'CN=system:node:panda']],
    ['no prefix', ['O=system:nodes', 'CN=panda']],
    ['no node name', ['O=system:nodes', 'CN=system:node:']],
    ['no common name', ['O=system:nodes', 'OU=system:node:panda']],
    ['two common names', ['O=system:nodes', 'CN=system:node:other', 'CN=system:node:panda']],
    ['a unit besides', ['O=system:nodes', 'OU=x', 'CN=system:node:panda']],
    ['an e-mail address besides', ['O=system:nodes', 'CN=system:node:panda', 'emailAddress=a@example.com']],
    ['a name in upper case', ['O=system:nodes', 'CN=system:node:Panda']],
    ['a name that is a path', ['O=system:nodes', 'CN=system:node:../../secrets']],
    ['a name with a final dot', ['O=system:nodes', 'CN=system:node:panda.']],
    ['a name that only looks like it', ['O=system:nodes', 'CN=system:node:pаnda']],
  ])('leaves a request with another subject: %s', async (_what, subject) => {
    expect(judged({ pem: await createRequest({ subject }) })).toMatchObject(left('SubjectUnsuitable'));
  });

  it('takes strings of either type that Go writes', async () => {
    expect(judged({ pem: await kubeletRequest('panda', { stringMask: 'utf8only' }) })).toMatchObject(approved);
  });

  it('takes the two attributes of the subject in either order', async () => {
    const pem = await createRequest({ subject: ['CN=system:node:panda', 'O=system:nodes'] });
    expect(judged({ pem })).toMatchObject(approved);
  });

  it.each<[PendingReason, string, Partial<RequestOptions>]>([
    ['NamesForbidden', 'DNS panda', { extensions: ['subjectAltName = DNS:panda'] }],
    ['NamesForbidden', 'IP 192.0.2.1', { extensions: ['subjectAltName = IP:192.0.2.1'] }],
    ['NamesForbidden', 'email a@example.com', { extensions: ['subjectAltName = email:a@example.com'] }],
    ['NamesForbidden', 'URI spiffe://a', { extensions: ['subjectAltName = URI:spiffe://a'] }],
    ['NamesForbidden', 'other', { extensions: ['subjectAltName = otherName:1.2.3;UTF8:x'] }],
    ['ExtensionForbidden', 'CA', { extensions: ['basicConstraints = critical,CA:TRUE'] }],
    ['ExtensionForbidden', 'CA', { extensions: ['keyUsage = keyCertSign'] }],
    ['ExtensionForbidden', '1.2.840.113549.1.9.7', { challengePassword: 'secret' }],
    ['ExtensionForbidden', '2.5.29.37', { extensions: ['extendedKeyUsage = critical,serverAuth'] }],
    ['ExtensionForbidden', '2.5.29.37', { extensions: ['extendedKeyUsage = critical,codeSigning'] }],
    ['ExtensionForbidden', '2.5.29.37', { extensions: ['extendedKeyUsage = clientAuth'] }],
    ['ExtensionForbidden', '2.5.29.15', { extensions: ['keyUsage = cRLSign'] }],
    ['ExtensionForbidden', '2.5.29.19', { extensions: ['basicConstraints = CA:FALSE'] }],
    ['ExtensionForbidden', '1.2.3.4', { extensions: ['1.2.3.4 = critical,ASN1:NULL'] }],
    ['SubjectUnsuitable', 'tag 30', { stringMask: 'MASK:0x800' }],
    ['SubjectUnsuitable', 'tag 20', { stringMask: 'MASK:0x4' }],
    ['SubjectUnsuitable', 'several values', { subject: ['O=system:nodes', '+CN=system:node:panda'] }],
    ['KeyTooWeak', 'RSA-1024', { key: 'rsa1024' }],
    ['RequestUnreadable', 'secp256k1', { key: 'secp256k1' }],
    ['SignatureInvalid', 'key', { digest: 'sha1' }],
  ])('leaves a request by the rule %s, and names what it found: %s', async (reason, found, options) => {
    const verdict = judged({ pem: await kubeletRequest('panda', options) });
    expect(verdict).toMatchObject(left(reason));
    expect(verdict).toHaveProperty('message', expect.stringContaining(found));
  });

  it.each<RequestOptions['key']>(['rsa2048', 'P-384', 'P-521', 'ed25519'])('takes a key of kind %s', async (key) => {
    expect(judged({ pem: await kubeletRequest('panda', { ...(key && { key }) }) })).toMatchObject(approved);
  });

  it('leaves a request with the signature of another key', async () => {
    const pem = withSignatureOf(await kubeletRequest('panda'), panda);
    expect(judged({ pem })).toMatchObject(left('SignatureInvalid'));
  });

  it.each(['', 'x', '-----BEGIN CERTIFICATE-----\neA==\n-----END CERTIFICATE-----\n'])(
    'leaves a request that cannot be read: %j',
    (pem) => {
      expect(judged({ pem })).toMatchObject(left('RequestUnreadable'));
    },
  );
});

describe("judge(): this machine's node", () => {
  it.each<[string, Partial<NodeFacts>, string]>([
    ['has expired', { own: ended }, 'expired at 2026-05-31T12:00:00.000Z'],
    ['ends at this moment', { own: own(now) }, 'expired at 2026-06-01T12:00:00.000Z'],
    ['is not there', { own: { state: 'absent', problem: 'there is none' } }, 'there is none'],
    ['cannot be used', { own: { state: 'broken', problem: 'it is torn' } }, 'it is torn'],
    [
      'has ended, whatever its Lease and record say',
      { own: ended, renewedAt: ago(2 * minute), heartbeatAt: ago(2 * minute), issuedUntil: ago(-day) },
      'expired at',
    ],
  ])('is approved when its certificate %s', (_what, facts, message) => {
    expect(judged({ facts })).toMatchObject({ ...approved, message: expect.stringContaining(message) as unknown });
  });

  it.each<[string, Partial<NodeFacts>, PendingReason]>([
    ['is valid for a second', { own: own(ago(-1000)) }, 'CertificateStillValid'],
    ['is that of another node', { own: own(ago(day), 'system:node:other') }, 'CertificateOfOtherNode'],
    ['is valid, and that of another node', { own: own(ago(-day), 'system:node:other') }, 'CertificateOfOtherNode'],
    ['is no node certificate', { own: own(ago(day), 'panda') }, 'CertificateOfOtherNode'],
    ['cannot be looked at', { own: { state: 'unknown', problem: 'EACCES' } }, 'CertificateUnknown'],
  ])('is left when its certificate %s', (_what, facts, reason) => {
    expect(judged({ facts })).toMatchObject(left(reason));
  });

  const earlier = { uid: 'u0', at: ago(minute), requestedAt: ago(2 * minute), isIssued: true, knownMs: 0 };
  it('is approved again when a kubelet was started again before it got its certificate', () => {
    expect(judged({ facts: { own: ended, approval: earlier, issuedUntil: ago(-day) } })).toMatchObject(approved);
  });
  it('is left when a later request was approved, because nobody waits for this one', () => {
    const facts = { own: ended, approval: earlier };
    expect(judged({ requestedAt: ago(3 * minute), facts })).toMatchObject(left('AlreadyApproved'));
  });
  it('is not held up by an approval that was asked for by a clock which has been set back since', () => {
    const facts = { own: ended, approval: { ...earlier, at: ago(-year), requestedAt: ago(-year) } };
    expect(judged({ facts })).toMatchObject(approved);
    expect(judged({ requestedAt: ago(-year + minute), facts })).toMatchObject(left('AlreadyApproved'));
  });
});

describe('judge(): another node', () => {
  const node = { createdAt: ago(1000 * day) };
  const recorded = (ms: number) => ({ until: ago(ms), key: '' });
  it.each<[string, Partial<NodeFacts>]>([
    ['the last certificate that was seen has expired', { node, issuedUntil: ago(1), renewedAt: ago(day) }],
    ['it has expired, and there is no Lease', { node: { createdAt: ago(day) }, issuedUntil: ago(1) }],
    ['it has not renewed its Lease for a year', { node, renewedAt: ago(365 * day) }],
    ['it has no Lease and is older than a year', { node: { createdAt: ago(365 * day) } }],
    ['it has no Lease and reported its status a year ago', { node, heartbeatAt: ago(365 * day) }],
    [
      'the last approval has led to a certificate that has expired',
      {
        node,
        issuedUntil: ago(minute),
        renewedAt: ago(6 * minute),
        approval: { uid: 'u0', at: ago(7 * minute), requestedAt: ago(8 * minute), isIssued: true, knownMs: 0 },
      },
    ],
    [
      'an approval was never answered, and its request is gone for long',
      {
        node,
        renewedAt: ago(400 * day),
        approval: { uid: 'u0', at: ago(61 * minute), requestedAt: ago(70 * minute), isIssued: false, knownMs: 0 },
      },
    ],
  ])('is approved when %s', (_what, facts) => {
    expect(judged({ facts })).toMatchObject(approved);
  });

  it.each<[string, Partial<NodeFacts>]>([
    ['the last certificate that was seen is valid', { node, issuedUntil: ago(-1000), renewedAt: ago(400 * day) }],
    [
      'it renewed its Lease after the end of that certificate',
      { node, issuedUntil: ago(day), renewedAt: ago(6 * minute) },
    ],
    [
      'it reported its status after the end of that certificate',
      { node, issuedUntil: ago(day), renewedAt: ago(2 * day), heartbeatAt: ago(6 * minute) },
    ],
    ['it has no Lease and reported its status within a year', { node, heartbeatAt: ago(365 * day - 1) }],
    ['it renewed its Lease within a year', { node, renewedAt: ago(365 * day - 1) }],
    [
      'it was registered within a year, whatever its Lease says',
      { node: { createdAt: ago(day) }, renewedAt: ago(400 * day) },
    ],
    ['what was recorded is valid', { node, recorded: recorded(-day), renewedAt: ago(400 * day) }],
    ['that was seen to end, and a later one was recorded', { node, issuedUntil: ago(1), recorded: recorded(-day) }],
    ['what was recorded has expired: that is no proof', { node, recorded: recorded(1), renewedAt: ago(day) }],
    [
      'it spoke after what was seen had expired, and what was recorded has expired since',
      { node, issuedUntil: ago(3 * day), recorded: recorded(1), renewedAt: ago(2 * day) },
    ],
  ])('is left when %s', (_what, facts) => {
    expect(judged({ facts })).toMatchObject(left('CertificateMayBeValid'));
  });

  const future = [{ renewedAt: ago(-day) }, { heartbeatAt: ago(-3650 * day) }];
  it.each(future)('is not locked out by a time that is still to come: its silence is waited for (%j)', (signs) => {
    const facts = { node: { createdAt: ago(999 * day) }, ...signs };
    const message = expect.stringContaining('which is still to come') as unknown;
    expect(judged({ facts })).toMatchObject({ ...left('ClockUnconfirmed'), lookAgainMs: 10_000, message });
    const watched = { signs, lookedMs: 100_000, silentMs: 40_000 };
    expect(judged({ facts: { ...facts, watched } })).toMatchObject(approved);
    const moving = { ...facts, watched: { ...watched, silentMs: 0, spokeAfterMs: 90_000 } };
    expect(judged({ facts: moving })).toMatchObject(left('NodeAlive'));
  });

  const approval = { uid: 'u0', at: ago(5 * minute), requestedAt: ago(6 * minute), isIssued: true, knownMs: 0 };
  it.each<[string, Partial<NodeFacts>]>([
    ['issued just now', { node, issuedUntil: ago(-day), approval }],
    ['not issued yet', { node, renewedAt: ago(400 * day), approval: { ...approval, isIssued: false } }],
    ['not issued for half an hour', { node, approval: { ...approval, at: ago(30 * minute), isIssued: false } }],
    ['issued just now, to a name without a Node', { issuedUntil: ago(-day), approval, isExpected: true }],
  ])('is left when the certificate of an approved request is %s', (_what, facts) => {
    expect(judged({ facts })).toMatchObject(left('AlreadyApproved'));
  });

  it('is held up by an approval of the future for as long as this process knows of it, and no longer than by any other', () => {
    const known = (knownMs: number, isIssued: boolean): Partial<NodeFacts> => ({
      node,
      renewedAt: ago(400 * day),
      approval: { ...approval, at: ago(-year), requestedAt: ago(-year), isIssued, knownMs },
    });
    expect(judged({ facts: known(59 * minute, false) })).toMatchObject(left('AlreadyApproved'));
    expect(judged({ facts: known(60 * minute, false) })).toMatchObject(approved);
    expect(judged({ facts: { ...known(9 * minute, true), issuedUntil: ago(-day) } })).toMatchObject(
      left('AlreadyApproved'),
    );
    expect(judged({ facts: { ...known(10 * minute, true), issuedUntil: ago(-day) } })).toMatchObject(
      left('CertificateMayBeValid'),
    );
  });
  it('counts an approval of the very same request for none', () => {
    const facts = { node, renewedAt: ago(400 * day), approval: { ...approval, uid: 'u1', isIssued: false } };
    expect(judged({ facts })).toMatchObject(approved);
  });
});

describe('judge(): a node that speaks', () => {
  const node = { createdAt: ago(1000 * day) };
  const years = 400 * day;
  it.each<[string, Partial<NodeFacts>]>([
    ['Lease of 5 s ago, the known end 30 s ago', { node, issuedUntil: ago(30_000), renewedAt: ago(5000) }],
    ['Lease of 5 s ago, the known end 64 s ago', { node, issuedUntil: ago(64_000), renewedAt: ago(5000) }],
    ['Lease of 5 min ago: its clock may be behind', { node, issuedUntil: ago(1), renewedAt: ago(5 * minute) }],
    ['Lease 4 min in the future', { node, issuedUntil: ago(1), renewedAt: ago(-4 * minute) }],
    ['heartbeat of a minute ago, an old Lease', { node, renewedAt: ago(years), heartbeatAt: ago(minute) }],
    ['heartbeat of 9 min ago and no Lease', { node, issuedUntil: ago(1), heartbeatAt: ago(9 * minute) }],
    ['Lease and no Node, although it is expected', { isExpected: true, renewedAt: ago(5000) }],
    ['Lease of 5 s ago, this machine: its file is not what it uses', { own: ended, renewedAt: ago(5000) }],
    ['heartbeat and no Lease, this machine', { own: ended, heartbeatAt: ago(5 * minute) }],
    ['Lease, this machine: its file is gone', { own: { state: 'absent', problem: 'gone' }, renewedAt: ago(5000) }],
  ])('is left: %s', (_what, facts) => {
    expect(judged({ facts, bootedAt: ago(day) })).toMatchObject(left('NodeAlive'));
  });

  it('counts as silent on this machine when its last word was before the boot', () => {
    const facts = { own: ended, renewedAt: ago(20_000), heartbeatAt: ago(40_000) };
    expect(judged({ facts, bootedAt: ago(10_000) })).toMatchObject(approved);
    expect(judged({ facts })).toMatchObject(left('NodeAlive'));
  });
  it('counts as silent on this machine when its word is of a wrong clock, a year ahead', () => {
    expect(judged({ facts: { own: ended, renewedAt: ago(-365 * day) } })).toMatchObject(approved);
  });
  it('was another machine: a boot of this one says nothing of it', () => {
    const facts = { node, issuedUntil: ago(1), renewedAt: ago(20_000) };
    expect(judged({ facts, bootedAt: ago(10_000) })).toMatchObject(left('NodeAlive'));
  });
});

describe('judge(): a name without a Node', () => {
  it('is approved where it is expected', () => {
    expect(judged({ facts: { isExpected: true } })).toMatchObject(approved);
  });
  it('is approved once: not while the certificate that it got is valid', () => {
    const verdict = judged({ facts: { isExpected: true, issuedUntil: ago(-day) } });
    expect(verdict).toMatchObject(left('AlreadyApproved'));
  });
  const first = (uid: string, at: Date) => ({ isExpected: true, first: { text: 'x', uid, at } });
  it('is approved once: not while what was approved before may be valid, whatever this process has seen', () => {
    expect(judged({ facts: first('u0', ago(364 * day)) })).toMatchObject(left('AlreadyApproved'));
    expect(judged({ facts: first('u0', ago(365 * day)) })).toMatchObject({ ...approved, isFirst: true });
    expect(judged({ facts: { isExpected: true, first: { text: 'unreadable' } } })).toMatchObject(
      left('AlreadyApproved'),
    );
  });
  it('is approved when it was noted and not approved: a process died in between', () => {
    expect(judged({ facts: first('u1', ago(minute)) })).toMatchObject({ ...approved, isFirst: true });
  });
  it('is approved, whatever was recorded, when its entry among the first approvals was deleted', () => {
    expect(judged({ facts: { isExpected: true, recorded: { until: ago(-day), key: '' } } })).toMatchObject(approved);
  });
  it('is left where it is not', () => {
    expect(judged({ facts: {} })).toMatchObject(left('NodeUnknown'));
  });
});

describe('judge(): the clock', () => {
  it('leaves what it would approve while the clock shows a time before the build', () => {
    expect(judged({ builtAt: ago(-day) })).toMatchObject(left('ClockImplausible'));
  });
  it('leaves it when the clock is ten years ahead and nothing says that it is right', () => {
    const given = { now: new Date('2037-01-01T00:00:00Z'), isConfirmed: false };
    expect(judged(given)).toMatchObject(left('ClockImplausible'));
  });

  const node = { createdAt: ago(1000 * day) };
  const seen = (silentMs: number, renewalMs?: number): Partial<NodeFacts> => {
    const signs = { renewedAt: ago(400 * day), ...(renewalMs !== undefined && { renewalMs }) };
    return { node, ...signs, watched: { signs, lookedMs: 500_000, silentMs } };
  };
  it.each<[string, Partial<NodeFacts>, object]>([
    ['was not looked at before', { node, renewedAt: ago(400 * day) }, { lookAgainMs: 10_000 }],
    ['was silent for most of the time of its Lease', seen(39_999), { lookAgainMs: 10_000 }],
    ['renews its Lease seldom', seen(40_000, 20_000), { lookAgainMs: 20_000 }],
    ['says that it renews its Lease once a year', seen(239_999, 365 * day), { lookAgainMs: 60_000 }],
    ['has no Lease', { node }, { lookAgainMs: 10_000 }],
  ])(
    'leaves another node until it was seen to be silent, while nothing confirms the clock: %s',
    (_what, facts, more) => {
      expect(judged({ facts, isConfirmed: false })).toMatchObject({ ...left('ClockUnconfirmed'), ...more });
      expect(judged({ facts })).toMatchObject(approved);
    },
  );
  it.each<[string, Partial<NodeFacts>]>([
    ['it was silent for the time of its Lease', seen(40_000)],
    ['whatever its Lease says', seen(240_000, 365 * day)],
    ["it is this machine's", { own: ended }],
    ['it is expected, and the API knows nothing of it', { isExpected: true }],
  ])('needs no confirmation where %s', (_what, facts) => {
    expect(judged({ facts, isConfirmed: false })).toMatchObject(approved);
  });
  it('says first why it would be left anyway', () => {
    const facts = { ...seen(0), issuedUntil: ago(-day) };
    expect(judged({ facts, isConfirmed: false })).toMatchObject(left('CertificateMayBeValid'));
  });
  it('does not count for a node whose Lease was seen to move: that lives for five minutes since', () => {
    const moved = (spokeAfterMs: number): Partial<NodeFacts> => {
      const signs = { renewedAt: ago(400 * day) };
      return { node, ...signs, watched: { signs, lookedMs: 500_000, silentMs: 40_000, spokeAfterMs } };
    };
    expect(judged({ facts: moved(200_000) })).toMatchObject(left('NodeAlive'));
    expect(judged({ facts: moved(199_999), isConfirmed: false })).toMatchObject(approved);
  });
});

describe('parseFirstApproval()', () => {
  it('reads a time and the uid of the request, and says of anything else that it is there', () => {
    const at = new Date('2026-06-01T12:00:00Z');
    expect(parseFirstApproval(`${at.toISOString()} u1`)).toEqual({ text: `${at.toISOString()} u1`, uid: 'u1', at });
    for (const text of ['', 'x', 'yesterday u1', '2026-06-01T12:00:00Z'])
      expect(parseFirstApproval(text)).toEqual({ text });
  });
});
