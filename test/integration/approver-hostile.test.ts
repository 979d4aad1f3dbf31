// Requests as who would have a certificate that is not theirs makes them, with the identities that would make them, against a
// real API server and one approver: none is approved and none is denied, and of each that is judged here the rule that it
// breaks stands in the log and in an Event. What the API server refuses itself is said as well: here that is relied on.
import { generateKeyPairSync } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PendingReason } from '../../lib/approver/judge.ts';
import { writeDer } from '../../lib/pki/der.ts';
import { microTime } from '../../lib/kube/objects.ts';
import {
  createRequest,
  kubeletRequest,
  type RequestOptions,
  withSignatureOf,
} from '../support/certificates/requests.ts';
import {
  attribute,
  names,
  type RequestForm,
  requestOfForm,
  text,
  wish,
} from '../support/certificates/request-forms.ts';
import { ApproverWorld, csrCollection, type Identity, peakMiB, type Sent } from '../support/cluster/approver-world.ts';
import type { Tool } from '../support/cluster/recovery-world.ts';
import { eventually } from '../support/eventually.ts';

/** What becomes of it. */
type Outcome =
  | PendingReason
  /** The API server does not take it. */
  | 'refused by the API server'
  /** Somebody else's: said once for each requester, after a minute. */
  | 'left to others'
  /** Of a signer that nobody here looks at. */
  | 'not seen';

interface Hostile {
  readonly what: string;
  readonly outcome: Outcome;
  readonly pem: () => string | Promise<string>;
  /** Default: the bootstrap identity. */
  readonly by?: keyof typeof identities;
  readonly spec?: Sent['spec'];
  readonly metadata?: Sent['metadata'];
}

const identities: Record<string, Identity> = {};
let world: ApproverWorld;
const renewing: NodeJS.Timeout[] = [];
let tool: Tool;
/** MiB of the approver before it met any of these. */
let usual: number;

const organization = 'O=system:nodes';
const openssl = (options: Partial<RequestOptions>) => (): Promise<string> => kubeletRequest('panda', options);
const subject =
  (...parts: readonly string[]) =>
  (): Promise<string> =>
    createRequest({ subject: parts, stringMask: 'default' });
const form = (wanted: RequestForm) => (): string => requestOfForm(wanted);
const set = (oid: string, value: string, tag?: number): Buffer => writeDer(0x31, attribute(oid, text(value, tag)));
const commonName = (value: string, tag?: number) =>
  form({ subject: writeDer(0x30, set('2.5.4.10', 'system:nodes'), set('2.5.4.3', value, tag)) });
const padded = (count: number) => async (): Promise<string> => `${'x'.repeat(count)}\n${await kubeletRequest('panda')}`;
const plain = (node: string) => (): Promise<string> => kubeletRequest(node);
const pemOf = (change: (pem: string) => string) => async (): Promise<string> => change(await kubeletRequest('panda'));
const usages = (...list: readonly string[]) => ({ usages: list });
const p224 = (): RequestForm => ({ key: generateKeyPairSync('ec', { namedCurve: 'P-224' }).privateKey });

const rows = (outcome: Outcome, list: readonly (readonly [string, Hostile['pem'], Partial<Hostile>?])[]): Hostile[] =>
  list.map(([what, pem, more]) => ({ what, outcome, pem, ...more }));

const hostile: readonly Hostile[] = [
  ...rows('SubjectUnsuitable', [
    ['O=system:masters', subject('O=system:masters', 'CN=system:node:panda')],
    ['O=system:masters besides', subject(organization, 'O=system:masters', 'CN=system:node:panda')],
    ['O=system:masters first', subject('O=system:masters', organization, 'CN=system:node:panda')],
    ['O=system:master', subject('O=system:master', 'CN=system:node:panda')],
    ['the same O twice', subject(organization, organization, 'CN=system:node:panda')],
    ['O in other letters', subject('O=System:Nodes', 'CN=system:node:panda')],
    [
      'O with a space',
      form({ subject: writeDer(0x30, set('2.5.4.10', 'system:nodes '), set('2.5.4.3', 'system:node:panda')) }),
    ],
    ['no O', subject('CN=system:node:panda')],
    ['no CN', subject(organization)],
    ['nothing', form({ subject: writeDer(0x30) })],
    ['CN=mike', subject(organization, 'CN=mike')],
    ['an administrator', subject('O=system:masters', 'CN=kubernetes-admin')],
    ['two common names', subject(organization, 'CN=system:node:panda', 'CN=kubernetes-admin')],
    ['two common names, the node last', subject(organization, 'CN=kubernetes-admin', 'CN=system:node:panda')],
    ['no prefix', subject(organization, 'CN=panda')],
    ['an empty node', subject(organization, 'CN=system:node:')],
    ['an upper case node', subject(organization, 'CN=system:node:PANDA')],
    ['a trailing dot', subject(organization, 'CN=system:node:panda.')],
    ['a path', subject(organization, 'CN=system:node:../panda')],
    ['a wildcard', subject(organization, 'CN=system:node:*')],
    ['an underscore', subject(organization, 'CN=system:node:pan_da')],
    ['another prefix', subject(organization, 'CN=system:nodes:panda')],
    ['an account in place of a node', subject(organization, 'CN=system:serviceaccount:kube-system:default')],
    ['a NUL', commonName('system:node:panda\0')],
    ['a NUL and more', commonName('system:node:panda\0.example.com')],
    ['a line feed', commonName('system:node:panda\n')],
    ['a space', commonName('system:node:panda ')],
    ['a letter that looks the same', commonName('system:node:p\u0430nda')],
    ['a name of 300 letters', commonName(`system:node:${'a'.repeat(300)}`)],
    ['a subject inside the common name', commonName('system:node:panda,O=system:masters')],
    ['an IA5String', commonName('system:node:panda', 0x16)],
    ['a T61String', commonName('system:node:panda', 0x14)],
    ['one set of two', subject(organization, '+CN=system:node:panda')],
    ['OU besides', subject(organization, 'OU=system:masters', 'CN=system:node:panda')],
    ['a serial number besides', subject(organization, 'serialNumber=1', 'CN=system:node:panda')],
    ['an e-mail address besides', subject(organization, 'CN=system:node:panda', 'emailAddress=a@b')],
  ]),
  ...rows('NamesForbidden', [
    ['a DNS name', openssl({ extensions: ['subjectAltName = DNS:kubernetes.default.svc'] })],
    ['an address', openssl({ extensions: ['subjectAltName = IP:10.0.0.1'] })],
    ['an e-mail address', openssl({ extensions: ['subjectAltName = email:a@example.com'] })],
    ['a URI', openssl({ extensions: ['subjectAltName = URI:spiffe://cluster.local/ns/kube-system/sa/default'] })],
    ['a registered ID', openssl({ extensions: ['subjectAltName = RID:1.2.3'] })],
    ['another name', openssl({ extensions: ['subjectAltName = otherName:1.2.3;UTF8:x'] })],
    ['an empty list of names', form({ attributes: [wish(names())] })],
  ]),
  ...rows('ExtensionForbidden', [
    ['CA:TRUE', openssl({ extensions: ['basicConstraints = critical,CA:TRUE'] })],
    ['CA:FALSE', openssl({ extensions: ['basicConstraints = CA:FALSE'] })],
    ['certificate signing', openssl({ extensions: ['keyUsage = keyCertSign'] })],
    ['another extended usage', openssl({ extensions: ['extendedKeyUsage = serverAuth'] })],
    ['an unknown extension', openssl({ extensions: ['1.2.3.4 = critical,ASN1:UTF8String:x'] })],
    ['a challenge password', openssl({ challengePassword: 'secret' })],
    ['an unknown attribute', form({ attributes: [attribute('1.2.3.4', writeDer(0x31, text('x')))] })],
  ]),
  ...rows('RequestUnreadable', [
    ['two blocks', pemOf((pem) => pem + pem)],
    ['a second block of another kind', pemOf((pem) => `${pem}-----BEGIN X-----\nAAAA\n-----END X-----\n`)],
    ['headers', pemOf((pem) => pem.replace('-----\n', '-----\nx: y\n\n'))],
    ['a blank line', pemOf((pem) => pem.replace('-----\n', '-----\n\n'))],
    ['a damaged mark before', pemOf((pem) => `-----BEGIN CERTIFICATE REQUEST\n${pem}`)],
    [
      "Microsoft's extensions",
      form({ attributes: [attribute('1.3.6.1.4.1.311.2.1.14', writeDer(0x31, writeDer(0x30)))] }),
    ],
    ['P-224', form(p224())],
    [
      'two lists of extensions',
      form({ attributes: [wish(names(text('a', 0x82))), wish(attribute('1.2.3', text('x', 4)))] }),
    ],
  ]),
  ...rows('SignatureInvalid', [['SHA-1', openssl({ key: 'rsa2048', digest: 'sha1' })]]),
  ...rows('KeyTooWeak', [['RSA-1024', openssl({ key: 'rsa1024' })]]),
  ...rows('RequestTooLarge', [
    ['60 kB before the block', padded(60_000)],
    ['an annotation of 70 kB', plain('panda'), { metadata: { annotations: { padding: 'x'.repeat(70_000) } } }],
  ]),
  ...rows('UsagesUnsuitable', [
    ['server auth besides', plain('panda'), { spec: usages('digital signature', 'client auth', 'server auth') }],
    ['server auth instead', plain('panda'), { spec: usages('digital signature', 'server auth') }],
    ['no client auth', plain('panda'), { spec: usages('digital signature', 'key encipherment') }],
    ['no digital signature', plain('panda'), { spec: usages('client auth') }],
    ['any', plain('panda'), { spec: usages('digital signature', 'client auth', 'any') }],
    ['cert sign', plain('panda'), { spec: usages('digital signature', 'client auth', 'cert sign') }],
  ]),
  ...rows('LifetimeUnsuitable', [
    ['ten years', plain('panda'), { spec: { expirationSeconds: 315_360_000 } }],
    ['ten minutes', plain('panda'), { spec: { expirationSeconds: 600 } }],
  ]),
  ...rows('NodeUnknown', [
    ['a node that is not there', plain('stranger')],
    ['a request that says it is approved', plain('stranger'), { metadata: { annotations: { approved: 'true' } } }],
  ]),
  ...rows('NodeAlive', [
    ['a node with a fresh Lease', plain('lively')],
    ['a node with a fresh status', plain('reporting')],
    ['the node of the live control plane', plain('panda')],
  ]),
  ...rows('CertificateMayBeValid', [['a node that has just been registered', plain('young')]]),
  ...rows('AlreadyApproved', [['an expected node for the second time', plain('newcomer')]]),
  ...rows('RequesterDiffers', [
    ['a certificate with the name of an account that may ask', plain('panda'), { by: 'namesake' }],
    ['a bootstrap token of other groups than configured', plain('panda'), { by: 'configuredToken' }],
  ]),
  ...rows('left to others', [
    ["a pod's account", plain('panda'), { by: 'pod' }],
    ['an account of the same name elsewhere', plain('panda'), { by: 'elsewhere' }],
    ['a bootstrap token that is not configured', plain('panda'), { by: 'token' }],
    ['a node in the name of another', plain('panda'), { by: 'lion' }],
    ['a node in its own name', plain('tiger'), { by: 'tiger' }],
    [
      'an account that says it is another',
      plain('panda'),
      {
        by: 'liar',
        spec: { username: 'system:serviceaccount:kube-cert-recovery:kube-cert-recovery-node-bootstrapper' },
      },
    ],
  ]),
  ...rows('refused by the API server', [
    ['no PEM', () => 'garbage'],
    ['another label', pemOf((pem) => pem.replaceAll('CERTIFICATE REQUEST', 'CERTIFICATE'))],
    [
      'the signature of another key',
      async () => withSignatureOf(await kubeletRequest('panda'), await kubeletRequest('panda')),
    ],
    ['secp256k1', openssl({ key: 'secp256k1' })],
    ['no list of attributes', form({ attributes: 'none' })],
    ['no usages', plain('panda'), { spec: usages() }],
    ['a minute', plain('panda'), { spec: { expirationSeconds: 60 } }],
    ['the legacy signer', plain('panda'), { spec: { signerName: 'kubernetes.io/legacy-unknown' } }],
    ['nobody', plain('panda'), { by: 'nobody' }],
  ]),
  ...rows('not seen', [
    ['the signer of clients', plain('panda'), { spec: { signerName: 'kubernetes.io/kube-apiserver-client' } }],
    [
      'the signer of serving certificates',
      plain('panda'),
      { spec: { signerName: 'kubernetes.io/kubelet-serving', ...usages('digital signature', 'server auth') } },
    ],
    ['a foreign signer', plain('panda'), { spec: { signerName: 'example.com/signer' } }],
  ]),
];

const nameOf = (one: Hostile): string => `hostile-${hostile.indexOf(one)}`;
const judged = hostile.filter(({ outcome }) => /^[A-Z]\w+$/.test(outcome));

beforeAll(async () => {
  const asker = 'system:serviceaccount:default:asker';
  const groups = '[system:serviceaccounts, system:serviceaccounts:default, system:authenticated]';
  const others = `{ username: "${asker}", groups: ${groups} }, { username: "system:bootstrap:abcdef", groups: [x] }`;
  world = await ApproverWorld.create(`expectedNodes: [newcomer], requesters: [kube-cert-recovery, ${others}]`);
  const { controlPlane } = world;
  identities['pod'] = await world.mayAsk('default', 'pod');
  identities['liar'] = await world.mayAsk('default', 'liar');
  identities['elsewhere'] = await world.mayAsk('default', 'kube-cert-recovery-node-bootstrapper');
  identities['token'] = await world.bootstrapToken('aaaaaa');
  identities['configuredToken'] = await world.bootstrapToken('abcdef');
  identities['lion'] = await world.certificate('system:node:lion', 'system:nodes');
  identities['tiger'] = await world.certificate('system:node:tiger', 'system:nodes');
  identities['namesake'] = await world.certificate(asker, 'system:bootstrappers');
  identities['nobody'] = 'no-such-token';
  const role = '--clusterrole=system:node-bootstrapper';
  await controlPlane.kubectl('create', 'clusterrolebinding', 'tokens', role, '--group=system:bootstrappers');
  for (const name of ['lively', 'reporting', 'young', 'panda']) {
    expect(await controlPlane.admin('/api/v1/nodes', { method: 'POST', body: { metadata: { name } } })).toMatchObject({
      status: 201,
    });
  }
  const status = {
    conditions: [
      { type: 'Ready', status: 'True', lastHeartbeatTime: new Date().toISOString(), reason: 'KubeletReady' },
    ],
  };
  const reporting = await controlPlane.admin('/api/v1/nodes/reporting/status', { method: 'PATCH', body: { status } });
  expect(reporting).toMatchObject({ status: 200 });
  tool = world.start();
  await world.ask('newcomer-first', 'newcomer');
  await world.issued('newcomer-first');
  usual = await peakMiB(tool.pid);
  // This machine's own is fresh for a minute.
  for (const name of ['lively', 'panda']) {
    const spec = () => ({ holderIdentity: name, leaseDurationSeconds: 40, renewTime: microTime(new Date()) });
    const path = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases';
    const body = { metadata: { name, namespace: 'kube-node-lease' }, spec: spec() };
    expect(await controlPlane.admin(path, { method: 'POST', body })).toMatchObject({ status: 201 });
    const renew = () => controlPlane.admin(`${path}/${name}`, { method: 'PATCH', body: { spec: spec() } });
    expect(await renew()).toMatchObject({ status: 200 });
    renewing.push(setInterval(() => void renew().catch(() => undefined), 10_000));
  }
  const surprises: string[] = [];
  // Those of the nodes first: they depend on the time.
  const order = hostile.toSorted((a, b) => Number(b.outcome === 'NodeAlive') - Number(a.outcome === 'NodeAlive'));
  for (const one of order) {
    const { by, pem, spec, metadata, outcome, what } = one;
    const token = by === undefined ? world.tokens.bootstrapper : (identities[by] ?? '');
    const request = {
      name: nameOf(one),
      token,
      pem: await pem(),
      ...(spec && { spec }),
      ...(metadata && { metadata }),
    };
    const { status: code, body } = await world.trySend(request);
    const isTaken = outcome !== 'refused by the API server';
    if ((code === 201) !== isTaken) surprises.push(`${what}: ${code} ${JSON.stringify(body).slice(0, 300)}`);
  }
  expect(surprises).toEqual([]);
});
afterAll(async () => {
  renewing.forEach(clearInterval);
  await world?.[Symbol.asyncDispose]();
});

const linesOf = (name: string) => tool.lines.filter(({ fields }) => fields['csr'] === name);

describe('a request that is judged', () => {
  it('is one of sixty and more', () => {
    expect(judged.length).toBeGreaterThan(60);
    expect(new Set(hostile.map(({ what, outcome }) => `${outcome} ${what}`)).size).toBe(hostile.length);
  });

  it.each(judged.map((one) => [`${one.outcome}: ${one.what}`, one] as const))('%s', async (_what, one) => {
    const name = nameOf(one);
    await eventually(() =>
      expect(linesOf(name).map(({ event, fields }) => [event, fields['reason']])).toEqual([
        ['csr.pending', one.outcome],
      ]),
    );
    await eventually(async () => {
      const events = await world.eventsOf('hostile-');
      const notes = events.filter((event) => event.name === name).map(({ note }) => note.split(':')[0]);
      expect(notes).toEqual([one.outcome]);
    });
    expect((await world.csr(name)).status).toEqual({});
  });
});

it.each(hostile.filter(({ outcome }) => outcome === 'left to others').map((one) => [one.what, one] as const))(
  'is left to others, and that is said once: %s',
  async (_what, one) => {
    const fields = { reason: 'RequesterUnknown' };
    await eventually(() => expect(linesOf(nameOf(one))).toMatchObject([{ event: 'csr.pending', fields }]));
    expect((await world.csr(nameOf(one))).status).toEqual({});
  },
);

it('of other signers nothing is said, and nothing becomes of them', async () => {
  for (const one of hostile.filter(({ outcome }) => outcome === 'not seen')) {
    expect(linesOf(nameOf(one)), one.what).toEqual([]);
    expect((await world.csr(nameOf(one))).status, one.what).toEqual({});
  }
});

it('is told of twenty requests as large as the API takes them, in at most 60 MB more', async () => {
  const pem = await padded(1_000_000)();
  const metadata = { annotations: { padding: 'x'.repeat(250_000) } };
  const all = Array.from({ length: 20 }, (_, at) => `largest-${at}`);
  for (const name of all) await world.send({ name, token: world.tokens.bootstrapper, pem, metadata });
  await eventually(() => expect(all.filter((name) => linesOf(name).length === 0)).toEqual([]));
  const peak = await peakMiB(tool.pid);
  console.log(`peak ${peak.toFixed()} MiB, before ${usual.toFixed()} MiB`);
  expect(peak - usual).toBeLessThan(60);
});

it('hears of names of any length, and lists them at its start', async () => {
  // A page of the list ends with one of them, whose name would be in the request for the next.
  const long = [
    ...Array.from({ length: 12 }, (_, at) => 'l'.repeat(70_000) + at),
    ','.repeat(12_000),
    'n'.repeat(1025),
  ];
  const pem = await plain('newcomer')();
  for (const name of long) await world.send({ name, token: world.tokens.bootstrapper, pem });
  await world.send({ name: 'z-after-them', token: world.tokens.bootstrapper, pem });
  await eventually(() => expect(linesOf('z-after-them')).toMatchObject([{ event: 'csr.pending' }]));
  const another = world.start();
  const isTold = (lines: Tool['lines']) => lines.some(({ fields }) => fields['csr'] === 'z-after-them');
  await eventually(() => expect(isTold(another.lines)).toBe(true));
  for (const { lines } of [tool, another]) {
    const refused = lines.filter(({ fields }) => /^its name has \d+ characters/.test(`${fields['message']}`));
    expect(refused.map(({ fields }) => fields['level']).filter((level) => level === 'warn')).toHaveLength(1);
    expect(refused.length).toBeGreaterThan(2); // a list continues behind those that begin alike
    expect(lines.filter(({ event }) => event === 'csr.failed' || event === 'watch.failed')).toEqual([]);
  }
  expect(await another.stop()).toBe(0);
});

it('approves the own node after all of them, and has denied and failed nothing', async () => {
  const lease = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/panda';
  expect(await world.controlPlane.admin(lease, { method: 'DELETE' })).toMatchObject({ status: 200 });
  await world.ask('honest', 'panda');
  await world.issued('honest');
  const { items } = (await world.controlPlane.admin(csrCollection)).body as {
    items: readonly { metadata: { name: string }; status: { conditions?: readonly { type: string }[] } }[];
  };
  const decided = items.filter(({ status }) => status.conditions !== undefined);
  // The request for the node of the live control plane is approved in the end: it is alive no more.
  expect(decided.filter(({ status }) => status.conditions?.some(({ type }) => type !== 'Approved'))).toEqual([]);
  expect(tool.lines.filter(({ event }) => event === 'csr.failed' || event === 'csr.flooded')).toEqual([]);
  expect(await tool.stop()).toBe(0);
});
