// Which requests for serving certificates of kubelets are approved: the rules in their order, on requests that openssl has
// made, with what one source says of the node.
import { beforeAll, describe, expect, it } from 'vitest';
import { type AddressVerdict, answerOf, judgeAddresses, type SourceAnswer } from '../../lib/approver/addresses.ts';
import type { ClusterNames } from '../../lib/approver/cluster-names.ts';
import { contentOf } from '../../lib/approver/node-facts.ts';
import type { SigningRequest, Unsuitable } from '../../lib/approver/request.ts';
import { type AskedName, judgeServingRequest, requestingNode } from '../../lib/approver/serving-request.ts';
import {
  createRequest,
  kubeletRequest,
  type RequestOptions,
  withSignatureOf,
} from '../support/certificates/requests.ts';

const noClusterNames: ClusterNames = { served: new Set(), serviceRanges: [], services: new Set() };

const usages = ['digital signature', 'key encipherment', 'server auth'];
const groups = ['system:nodes', 'system:authenticated'];
const nodes = {
  test: ['10.0.0.7', '10.0.0.1', '2001:db8::1', 'node1', 'node1.local'],
  other: ['10.0.0.99', 'other.local'],
};
const names = 'DNS:node1,DNS:node1.local,IP:10.0.0.7,IP:10.0.0.1';

interface Wish {
  readonly spec?: Partial<SigningRequest['spec']>;
  readonly pem?: string;
  readonly known?: Readonly<Record<string, readonly string[]>>;
}

const requestOf = ({ spec = {}, pem = base }: Wish): SigningRequest => ({
  metadata: { name: 'csr-1', uid: 'u1' },
  spec: {
    request: Buffer.from(pem).toString('base64'),
    signerName: 'kubernetes.io/kubelet-serving',
    username: 'system:node:test',
    groups,
    usages,
    ...spec,
  },
});

function judged(wish: Wish): Unsuitable | AddressVerdict {
  const request = requestOf(wish);
  const shape = judgeServingRequest(request, () => contentOf(request));
  if (shape.action !== 'judge') return shape;
  const answer: SourceAnswer = { ...answerOf(shape, 'nodes', wish.known ?? nodes), namesNode: true, isListed: true };
  return judgeAddresses({ ...shape, cluster: noClusterNames, answers: [answer] });
}

const asking = (san: string, more: Partial<RequestOptions> = {}): Promise<string> =>
  kubeletRequest('test', {
    key: 'rsa2048',
    ...more,
    extensions: [`subjectAltName = ${san}`, ...(more.extensions ?? [])],
  });

let base: string;
beforeAll(async () => {
  base = await asking(names);
});

const approved = { action: 'approve' };
const left = (reason: string): object => ({ action: 'leave', reason });

describe('a request for a serving certificate is approved', () => {
  it('as a kubelet sends it', () => expect(judged({})).toMatchObject(approved));

  it.each<[string, Partial<RequestOptions>]>([
    ['ECDSA', { key: 'P-256' }],
    ['Ed25519', { key: 'ed25519' }],
  ])('with a key of kind %s, without key encipherment', async (_kind, options) => {
    const spec = { usages: ['digital signature', 'server auth'] };
    expect(judged({ pem: await asking(names, options), spec })).toMatchObject(approved);
  });

  it('with a further group, as the API server may add', () => {
    expect(judged({ spec: { groups: [...groups, 'foo-bar'] } })).toMatchObject(approved);
  });

  it.each([
    'DNS:node1.local.',
    'DNS:NODE1.Local',
    'IP:10.0.0.1',
    'IP:2001:DB8:0:0::1',
    'IP:::ffff:10.0.0.1',
    'DNS:test',
  ])('for a name of its own, however it is written: %s', async (san) =>
    expect(judged({ pem: await asking(san) })).toMatchObject(approved),
  );

  it('with the names in a critical extension', async () => {
    expect(judged({ pem: await asking(`critical,${names}`) })).toMatchObject(approved);
  });

  it('and its approval says by which source', () => {
    const message = 'the node asks for itself, and node1, node1.local, 10.0.0.7, 10.0.0.1 is its own by nodes';
    expect(judged({})).toEqual({ action: 'approve', message });
  });
});

describe('a request for a serving certificate is left', () => {
  it.each<[string, Partial<SigningRequest['spec']>]>([
    ['a user who is no node', { username: 'test' }],
    ['a node without name', { username: 'system:node:' }],
    ['a name that no Node can have', { username: 'system:node:Te_st' }],
    ['a ServiceAccount', { username: 'system:serviceaccount:default:system:node:test' }],
    ['nobody', { username: '' }],
    ['a bootstrap token', { username: 'system:bootstrap:abcdef', groups: ['system:bootstrappers', groups[1] ?? ''] }],
    ['a user who is not authenticated', { groups: ['system:nodes'] }],
    ['a user who is not among the nodes', { groups: ['system:authenticated'] }],
    ['a member of another group', { groups: ['system:masters', 'system:authenticated'] }],
    ['a member of none', { groups: [] }],
  ])('when the requester is %s', (_who, spec) => {
    expect(judged({ spec })).toMatchObject(left('RequesterUnsuitable'));
    expect(judged({ spec, pem: 'x' })).toMatchObject(left('RequesterUnsuitable'));
  });

  it.each<[string, readonly string[] | undefined]>([
    ['none', undefined],
    ['no server auth', ['digital signature', 'key encipherment']],
    ['no digital signature', ['server auth', 'key encipherment']],
    ['server auth alone', ['server auth']],
    ['two others', ['signing', 'client auth']],
    ['client auth as the third', ['digital signature', 'server auth', 'client auth']],
    ['client auth as the fourth', [...usages, 'client auth']],
    ['cert sign as the fourth', [...usages, 'cert sign']],
    ['any', [...usages, 'any']],
  ])('when its usages are others: %s', (_what, wrong) => {
    expect(judged({ spec: { usages: wrong ?? [] } })).toMatchObject(left('UsagesUnsuitable'));
  });

  it.each<[string, readonly string[]]>([
    ['the name of another node', ['O=system:nodes', 'CN=system:node:other']],
    ['a name without prefix', ['O=system:nodes', 'CN=test']],
    ['the name in upper case', ['O=system:nodes', 'CN=system:node:TEST']],
    ['a second name', ['O=system:nodes', 'CN=system:node:other', 'CN=system:node:test']],
    ['no organization', ['CN=system:node:test']],
    ['another organization', ['O=system:masters', 'CN=system:node:test']],
    ['a second organization', ['O=system:nodes', 'O=system:masters', 'CN=system:node:test']],
    ['a unit', ['O=system:nodes', 'OU=x', 'CN=system:node:test']],
  ])('when its subject has %s', async (_what, subject) => {
    const pem = await createRequest({ subject, extensions: [`subjectAltName = ${names}`] });
    expect(judged({ pem })).toMatchObject(left('SubjectUnsuitable'));
  });

  it.each<[string, string, string]>([
    ['NamesForbidden', `${names},email:a@example.com`, 'email:a@example.com'],
    ['NamesForbidden', `${names},URI:spiffe://cluster/ns/default`, 'URI:spiffe://cluster/ns/default'],
    ['NamesForbidden', `${names},otherName:1.2.3;UTF8:x`, 'other:'],
    ['NamesForbidden', `${names},RID:1.2.3`, 'other:'],
    ['NamesForbidden', `${names},DNS:*.local`, 'DNS:*.local'],
    ['NamesForbidden', `${names},DNS:10.0.0.1`, 'DNS:10.0.0.1'],
    ['NamesForbidden', `${names},DNS:10.1`, 'DNS:10.1'],
    ['NamesForbidden', `${names},DNS:2130706433`, 'DNS:2130706433'],
    ['NamesForbidden', `${names},DNS:0x7F.1`, 'DNS:0x7f.1'],
    ['NamesForbidden', `${names},DNS:node1.0x7f000001`, 'DNS:node1.0x7f000001'],
    ['NamesForbidden', `${names},DNS:node1..`, 'DNS:node1.'],
    ['NamesForbidden', `${names},DNS:a_b`, 'DNS:a_b'],
    ['AddressNotOfNode', `${names},IP:10.0.0.2`, 'IP:10.0.0.2'],
    ['AddressNotOfNode', `${names},IP:2001:db8::2`, 'IP:2001:db8::2'],
    ['NameOfCluster', `${names},DNS:kubernetes.default.svc`, 'DNS:kubernetes.default.svc'],
    ['NamesForbidden', `${names},${Array.from({ length: 101 }, (_, at) => `IP:10.1.0.${at}`).join()}`, '105'],
    ['AddressNotOfNode', 'DNS:node1.loca', 'DNS:node1.loca'],
    ['AddressNotOfNode', 'DNS:x.test', 'DNS:x.test'],
    ['AddressOfOtherNode', `${names},IP:10.0.0.99`, '"10.0.0.99" belongs to node "other"'],
    ['AddressOfOtherNode', 'DNS:OTHER.local.', '"other.local" belongs to node "other"'],
  ])('by the rule %s when it asks for %s, and names that', async (reason, san, found) => {
    const verdict = judged({ pem: await asking(san) });
    expect(verdict).toMatchObject(left(reason));
    expect(verdict.message).toContain(found);
  });

  it('when it asks for no name', async () => {
    expect(judged({ pem: await kubeletRequest('test') })).toMatchObject(left('NamesMissing'));
  });

  it.each<[string, string, Partial<RequestOptions>]>([
    ['ExtensionForbidden', 'CA', { extensions: ['basicConstraints = critical,CA:TRUE'] }],
    ['ExtensionForbidden', 'CA', { extensions: ['keyUsage = keyCertSign'] }],
    ['ExtensionForbidden', '2.5.29.19', { extensions: ['basicConstraints = CA:FALSE'] }],
    ['ExtensionForbidden', '2.5.29.37', { extensions: ['extendedKeyUsage = clientAuth'] }],
    ['ExtensionForbidden', '2.5.29.37', { extensions: ['extendedKeyUsage = serverAuth'] }],
    ['ExtensionForbidden', '2.5.29.15', { extensions: ['keyUsage = digitalSignature'] }],
    ['ExtensionForbidden', '1.2.840.113549.1.9.7', { challengePassword: 'secret' }],
    ['KeyTooWeak', 'RSA-1024', { key: 'rsa1024' }],
    ['RequestUnreadable', 'secp256k1', { key: 'secp256k1' }],
    ['SignatureInvalid', 'key', { digest: 'sha1' }],
    ['SubjectUnsuitable', 'tag 30', { stringMask: 'MASK:0x800' }],
  ])('by the rule %s when it has %s', async (reason, found, options) => {
    const verdict = judged({ pem: await asking(names, options) });
    expect(verdict).toMatchObject(left(reason));
    expect(verdict.message).toContain(found);
  });

  it('when it has the signature of another key', async () => {
    const pem = withSignatureOf(await asking(names), base);
    expect(judged({ pem })).toMatchObject(left('SignatureInvalid'));
  });

  it('when it asks for a life of its own', () => {
    expect(judged({ spec: { expirationSeconds: 315_360_000 } })).toMatchObject(left('LifetimeUnsuitable'));
  });

  it.each(['', 'x', '-----BEGIN CERTIFICATE-----\neA==\n-----END CERTIFICATE-----\n'])(
    'when it is no request: %j',
    (pem) => {
      expect(judged({ pem })).toMatchObject(left('RequestUnreadable'));
    },
  );

  it('when no source knows the node, whoever has the addresses', async () => {
    const pem = await asking('DNS:test,DNS:node1.local,IP:10.0.0.7,IP:10.0.0.1');
    expect(judged({ pem, known: {} })).toMatchObject(left('NodeNotInSources'));
    expect(judged({ pem, known: { other: ['10.0.0.1'] } })).toMatchObject(left('AddressOfOtherNode'));
  });
});

describe('answerOf()', () => {
  it('knows no node that is not listed, whatever its name is in JavaScript', () => {
    const asked: readonly AskedName[] = [{ kind: 'IP', value: '10.0.0.1' }];
    expect(answerOf({ node: 'constructor', asked }, 'a', nodes)).toEqual({
      source: 'a',
      own: undefined,
      others: new Map([['10.0.0.1', 'test']]),
    });
  });
});

describe('requestingNode()', () => {
  it('is who asks, not who is asked for', async () => {
    const pem = await kubeletRequest('other');
    expect(requestingNode(requestOf({ pem }))).toBe('test');
    expect(requestingNode(requestOf({ pem, spec: { username: 'admin' } }))).toBeUndefined();
  });
});

describe('judgeAddresses(): several sources', () => {
  const asked: readonly AskedName[] = [
    { kind: 'IP', value: '192.0.2.1' },
    { kind: 'DNS', value: 'node-1' },
  ];
  const judgeBy = (...answers: readonly SourceAnswer[]): AddressVerdict =>
    judgeAddresses({ node: 'node-1', asked, cluster: noClusterNames, answers });
  const others = new Map([['192.0.2.1', 'node-2']]);

  it('one for each name is enough, and the name of the node needs one that names nodes by it, or lists it', () => {
    expect(judgeBy({ source: 'a', own: ['192.0.2.1'], namesNode: true })).toMatchObject(approved);
    expect(judgeBy({ source: 'a', own: ['192.0.2.1'] })).toMatchObject(left('AddressNotOfNode'));
    expect(judgeBy({ source: 'a', own: undefined }, { source: 'b', own: ['192.0.2.1', 'node-1'] })).toMatchObject(
      approved,
    );
    expect(judgeBy({ source: 'a', own: [] })).toMatchObject(left('AddressNotOfNode'));
    const both = judgeBy({ source: 'a', own: ['192.0.2.1'] }, { source: 'b', own: ['node-1'] });
    expect(both.message).toContain('by a, b');
  });

  it('no source, or none that knows the node, is not enough', () => {
    expect(judgeBy()).toMatchObject(left('NodeNotInSources'));
    expect(judgeBy({ source: 'a', own: undefined })).toMatchObject(left('NodeNotInSources'));
  });

  it('what one gives to another node is not given by a second', () => {
    const own = ['192.0.2.1'];
    expect(judgeBy({ source: 'a', own }, { source: 'b', own: undefined, others })).toMatchObject(
      left('AddressOfOtherNode'),
    );
    expect(judgeBy({ source: 'a', own, others })).toMatchObject(left('AddressOfOtherNode'));
  });

  it('what another node says of itself takes no address from a node that a source knows', () => {
    const claimed: SourceAnswer = { source: 'cidrs', own: undefined, others, isWeak: true };
    expect(judgeBy(claimed, { source: 'a', own: ['192.0.2.1', 'node-1'] })).toMatchObject(approved);
    expect(judgeBy(claimed, { source: 'a', own: [] })).toMatchObject(left('AddressOfOtherNode'));
    const given: SourceAnswer = { source: 'a', own: undefined, others };
    expect(judgeBy({ ...claimed, own: ['192.0.2.1'], others: new Map() }, given)).toMatchObject(
      left('AddressOfOtherNode'),
    );
  });

  it('a node that may be several machines is left, whatever else is known', () => {
    const ambiguous = { source: 'm', own: ['192.0.2.1'], ambiguity: 'several Machines' };
    expect(judgeBy(ambiguous, { source: 'a', own: ['192.0.2.1'] })).toEqual({
      ...left('NodeAmbiguous'),
      message: 'several Machines',
    });
  });
});
