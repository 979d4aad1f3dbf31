import { describe, expect, it } from 'vitest';
import { judgeRelations, type RelationRow } from '../../lib/trust/judge-relations.ts';
import { relations } from '../../lib/trust/relations.ts';
import { signSigner } from '../../lib/pki/sign.ts';
import { authority, day, now } from '../pki/authority.ts';
import {
  address,
  type Changes,
  cluster,
  etcdCa,
  frontCa,
  holder,
  kubeconfig,
  machine,
  pair,
  proxyClient,
  serving,
  stranger,
} from './machine.ts';

const judged = (changes: Changes = {}, at = now): readonly RelationRow[] =>
  judgeRelations(relations, machine(changes), at);

const idsOf = (rows: readonly RelationRow[], verdict: RelationRow['verdict']): readonly string[] => [
  ...new Set(rows.flatMap((row) => (row.verdict === verdict ? [row.id] : []))),
];

const kas = (flags: Readonly<Record<string, string | readonly string[]>>): Changes => ({
  flags: { 'kube-apiserver': flags },
});
const kcm = (flags: Readonly<Record<string, string>>): Changes => ({ flags: { 'kube-controller-manager': flags } });
const etcd = (flags: Readonly<Record<string, string>>): Changes => ({ flags: { etcd: flags } });
const file = (name: string, text: string | undefined): Changes => ({ files: { [`/pki/${name}`]: text } });
const scheduler = (text: string): Changes => ({ kubeconfigs: { '/scheduler.conf': text } });

const [strangeClient, strangeServing, etcdWithoutUsage, expired, later] = await Promise.all([
  pair(stranger, 'client'),
  pair(stranger, 'serving'),
  pair(etcdCa, 'serving'),
  pair(cluster, 'client', { notAfter: day(-0.5), now: day(-0.6) }),
  pair(cluster, 'client', { notBefore: day(2), notAfter: day(100), now: day(2) }),
]);
const intermediate = await authority({ commonName: 'intermediate', issuer: cluster });
const below = await pair(intermediate, 'client');
const short = await authority({ commonName: 'kubernetes', notAfter: day(20) });
/** The same CA, as its owner has renewed it, has signed a leaf that outlives the former certificate. */
const shortDates = { notBefore: day(-1), now };
const longer = await signSigner({ ...shortDates, commonName: 'kubernetes', key: short.key, notAfter: day(400) });
const beyondShort = await pair({ certificate: longer, key: short.key }, 'client', { notAfter: day(100) });

describe('judgeRelations()', () => {
  it('says that every relation holds where each does', () => {
    const rows = judged();
    expect(rows.filter(({ verdict }) => verdict === 'fails' || verdict === 'unknown')).toEqual([]);
    expect(idsOf(rows, 'holds')).toEqual(relations.map(({ id }) => id));
  });

  it.each<readonly [string, string, Changes]>([
    [
      'R1',
      'the CA of kubelets is another one',
      kcm({
        'cluster-signing-kubelet-client-cert-file': '/pki/stranger.crt',
        'cluster-signing-kubelet-client-key-file': '/pki/stranger.key',
      }),
    ],
    ['R2', 'kube-apiserver trusts other front proxies', kas({ 'requestheader-client-ca-file': '/pki/ca.crt' })],
    ['R2', 'the name of the front proxy is not allowed', kas({ 'requestheader-allowed-names': 'a,b' })],
    [
      'R3',
      'the kubelet serves with a certificate of another CA',
      { files: { '/pki/kubelet.crt': strangeServing.cert, '/pki/kubelet.key': strangeServing.key } },
    ],
    ['R3', 'the kubelet has another address', { flags: { kubelet: { 'node-ip': '192.0.2.99' } } }],
    [
      'R4',
      'the CA of serving certificates is another one',
      kcm({
        'cluster-signing-kubelet-serving-cert-file': '/pki/stranger.crt',
        'cluster-signing-kubelet-serving-key-file': '/pki/stranger.key',
      }),
    ],
    ['R5', 'the kubelet trusts another CA', { flags: { kubelet: { 'client-ca-file': '/pki/stranger.crt' } } }],
    ['R5', 'the kubelet trusts no CA', { flags: { kubelet: { 'client-ca-file': '' } } }],
    [
      'R6',
      'kube-controller-manager signs tokens with another key',
      kcm({ 'service-account-private-key-file': '/pki/stranger.key' }),
    ],
    [
      'R7',
      'kube-apiserver signs tokens with another key',
      kas({ 'service-account-signing-key-file': '/pki/stranger.key' }),
    ],
    ['R8', 'Pods are given another CA', kcm({ 'root-ca-file': '/pki/etcd-ca.crt' })],
    ['R8', 'the certificate lacks the address of the service', kas({ 'service-cluster-ip-range': '10.0.0.0/12' })],
    ['R9', 'a kubeconfig has another CA', scheduler(kubeconfig({ client: holder, ca: stranger.pem }))],
    [
      'R9',
      'the certificate lacks the name of a kubeconfig',
      scheduler(kubeconfig({ client: holder, server: 'https://localhost:6443' })),
    ],
    ['R10', 'a kubeconfig has a certificate of another CA', scheduler(kubeconfig({ client: strangeClient }))],
    ['R10', 'a kubeconfig has a certificate of a server', scheduler(kubeconfig({ client: serving }))],
    ['R10', 'the certificate of a kubeconfig is not valid yet', scheduler(kubeconfig({ client: later }))],
    ['R10', 'the certificate of a kubeconfig has expired', scheduler(kubeconfig({ client: expired }))],
    [
      'R11',
      'etcd is shown a certificate of another CA',
      { files: { '/pki/etcd-client.crt': strangeClient.cert, '/pki/etcd-client.key': strangeClient.key } },
    ],
    ['R12', 'kube-apiserver trusts another CA of etcd', kas({ 'etcd-cafile': '/pki/ca.crt' })],
    [
      'R12',
      'etcd is no client of itself',
      { files: { '/pki/etcd-server.crt': etcdWithoutUsage.cert, '/pki/etcd-server.key': etcdWithoutUsage.key } },
    ],
    ['R13', 'etcd trusts other peers', etcd({ 'peer-trusted-ca-file': '/pki/ca.crt' })],
    [
      'R13',
      'a peer is no client',
      { files: { '/pki/etcd-peer.crt': etcdWithoutUsage.cert, '/pki/etcd-peer.key': etcdWithoutUsage.key } },
    ],
    ['R13', 'a peer has another address', etcd({ 'initial-advertise-peer-urls': 'https://192.0.2.99:2380' })],
    ['R14', 'the key is that of another CA', kcm({ 'cluster-signing-key-file': '/pki/stranger.key' })],
    ['R14', 'the file of the CA holds two', file('signer.crt', `${cluster.pem}${stranger.pem}`)],
    ['R15', 'the key of a certificate is another one', file('etcd-client.key', serving.key)],
    [
      'R15',
      'the key in a kubeconfig is another one',
      scheduler(kubeconfig({ client: { ...holder, key: serving.key } })),
    ],
    ['R16', 'another server trusts other front proxies', kcm({ 'requestheader-client-ca-file': '/pki/ca.crt' })],
  ])('names %s alone where %s', (id, title, changes) => {
    const signer = title.includes('holds two') ? kcm({ 'cluster-signing-cert-file': '/pki/signer.crt' }) : {};
    const rows = judged({ ...changes, ...signer });
    expect(idsOf(rows, 'fails'), JSON.stringify(rows.filter(({ verdict }) => verdict === 'fails'))).toEqual([id]);
    expect(idsOf(rows, 'unknown')).toEqual([]);
  });

  it('takes a certificate of an intermediate CA whose chain is sent along', () => {
    const whole = { ...below, cert: below.cert + intermediate.certificate.pem };
    expect(idsOf(judged(scheduler(kubeconfig({ client: whole }))), 'fails')).toEqual([]);
    expect(idsOf(judged(scheduler(kubeconfig({ client: below }))), 'fails')).toEqual(['R10']);
  });

  it('takes no CA that signs below a trusted one: requests are answered without the chain', () => {
    const signer = { 'cluster-signing-cert-file': '/pki/below.crt', 'cluster-signing-key-file': '/pki/below.key' };
    const key = String(intermediate.key.export({ type: 'sec1', format: 'pem' }));
    const files = { '/pki/below.crt': intermediate.certificate.pem, '/pki/below.key': key };
    expect(idsOf(judged({ ...kcm(signer), files }), 'fails')).toEqual(['R1', 'R4']);
  });

  it('takes no certificate for a CA that may sign nothing, although it is trusted', () => {
    const signer = {
      'cluster-signing-cert-file': '/pki/apiserver.crt',
      'cluster-signing-key-file': '/pki/apiserver.key',
    };
    const files = { '/pki/clients.crt': `${cluster.pem}${serving.cert}` };
    const told = { 'kube-controller-manager': signer, 'kube-apiserver': { 'client-ca-file': '/pki/clients.crt' } };
    const rows = judged({ flags: told, files });
    expect(rows.find(({ id }) => id === 'R1')).toMatchObject({
      verdict: 'fails',
      reason: expect.stringMatching(/not a CA$/),
    });
  });

  it('takes the certificate that kube-apiserver shows for a name', () => {
    const files = { '/pki/sni.crt': strangeServing.cert, '/pki/sni.key': strangeServing.key };
    const sni = (names: string): readonly RelationRow[] =>
      judged({ ...kas({ 'tls-sni-cert-key': [`/pki/sni.crt,/pki/sni.key:${names}`] }), files });
    expect(idsOf(sni('kubernetes.default.svc'), 'fails')).toEqual(['R8']);
    expect(idsOf(sni(address), 'fails')).toEqual(['R9']);
    expect(idsOf(sni('other.example.com'), 'fails')).toEqual([]);
  });

  it('judges no server elsewhere whose certificate is of another CA', () => {
    const elsewhere = 'https://api.example.com:6443';
    const rows = judged(scheduler(kubeconfig({ client: holder, server: elsewhere, ca: stranger.pem })));
    expect(idsOf(rows, 'unknown')).toEqual(['R9']);
    // The API servers of a cluster have one CA, and its name must be in the certificate of each.
    expect(idsOf(judged(scheduler(kubeconfig({ client: holder, server: elsewhere }))), 'fails')).toEqual(['R9']);
  });

  it('knows nothing of a file that is absent, and says what it knows of the rest', () => {
    const rows = judged(file('etcd-client.crt', undefined));
    expect(idsOf(rows, 'unknown')).toEqual(['R11', 'R15']);
    expect(rows.find(({ id }) => id === 'R11')?.reason).toBe('"/pki/etcd-client.crt" is absent');
    expect(idsOf(rows, 'fails')).toEqual([]);
  });

  it('says that damaged content breaks its relations', () => {
    expect(idsOf(judged(file('front-client.crt', proxyClient.cert.slice(0, 200))), 'fails')).toEqual([
      'R2',
      'R15',
      'R16',
    ]);
    expect(idsOf(judged(file('front-ca.crt', 'nothing')), 'fails')).toEqual(['R2', 'R16']);
  });

  it('leaves out what does not run on the machine', () => {
    const rows = judged({ flags: { etcd: undefined } });
    expect(idsOf(rows, 'fails')).toEqual([]);
    expect(rows.filter(({ verdict }) => verdict === 'notApplicable').map(({ id }) => id)).toEqual(
      expect.arrayContaining(['R11', 'R12', 'R13']),
    );
  });

  it('says that a certificate has expired, although who verifies it runs elsewhere', () => {
    const away: Changes = { flags: { etcd: undefined } };
    const files = { '/pki/etcd-client.crt': expired.cert, '/pki/etcd-client.key': expired.key };
    expect(idsOf(judged({ ...away, files }), 'fails')).toEqual(['R11']);
    const worker = { 'kube-apiserver': undefined, 'kube-controller-manager': undefined, etcd: undefined };
    expect(idsOf(judged({ flags: worker }), 'fails')).toEqual([]);
    expect(idsOf(judged({ flags: worker, ...scheduler(kubeconfig({ client: expired })) }), 'fails')).toEqual(['R10']);
  });

  it('takes an empty value for none, also behind another one', () => {
    const twice = kas({ 'kubelet-certificate-authority': ['/pki/stranger.crt', ''] });
    expect(judged(twice).find(({ id }) => id === 'R3')?.verdict).toBe('notApplicable');
  });

  it('knows nothing of a component whose flags are not known', () => {
    const rows = judged({ doubts: { etcd: 'Cannot read the manifest' } });
    expect(idsOf(rows, 'unknown')).toEqual(['R11', 'R12', 'R13', 'R15']);
  });

  it('asks for no name where etcd of this machine is not met by this kube-apiserver', () => {
    expect(idsOf(judged(kas({ 'etcd-servers': 'https://192.0.2.11:2379' })), 'fails')).toEqual([]);
  });

  it('allows etcd a certificate of its own for its gateway', () => {
    const files = { '/pki/etcd-server.crt': etcdWithoutUsage.cert, '/pki/etcd-server.key': etcdWithoutUsage.key };
    const own = { 'client-cert-file': '/pki/etcd-peer.crt', 'client-key-file': '/pki/etcd-peer.key' };
    expect(idsOf(judged({ ...etcd(own), files }), 'fails')).toEqual([]);
  });
});

describe('judgeRelations() of what the API keeps', () => {
  const entries = {
    front: 'ConfigMap "kube-system/extension-apiserver-authentication" requestheader-client-ca-file',
    names: 'ConfigMap "kube-system/extension-apiserver-authentication" requestheader-allowed-names',
    root: 'ConfigMap "default/kube-root-ca.crt" ca.crt',
    info: 'ConfigMap "kube-public/cluster-info" kubeconfig',
  } as const;
  const known = { [entries.front]: frontCa.pem, [entries.root]: cluster.pem, [entries.info]: cluster.pem };

  it('holds where it is that of the files', () => {
    const rows = judged({ files: { ...known, [entries.names]: 'front-proxy-client' } });
    expect(idsOf(rows, 'fails')).toEqual([]);
    const published = rows.filter(({ trust }) => trust.name.startsWith('ConfigMap'));
    expect(published.map(({ id, verdict }) => [id, verdict])).toEqual([
      ['R8', 'holds'],
      ['R9', 'holds'],
      ['R16', 'holds'],
    ]);
  });

  it.each([
    ['R16', { [entries.front]: stranger.pem }],
    ['R16', { [entries.names]: 'a,b' }],
    ['R8', { [entries.root]: stranger.pem }],
    ['R9', { [entries.info]: etcdCa.pem }],
  ])('names %s alone where it is another one', (id, changed) => {
    expect(idsOf(judged({ files: { ...known, ...changed } }), 'fails')).toEqual([id]);
  });

  it('knows nothing of an entry that cannot be read', () => {
    const rows = judged({ files: { ...known, [entries.root]: undefined } });
    expect(idsOf(rows, 'unknown')).toEqual(['R8']);
    expect(rows.find(({ verdict }) => verdict === 'unknown')?.reason).toBe(`${entries.root} is absent`);
  });
});

describe('judgeRelations() at another time', () => {
  const endOf = (id: string, changes: Changes = {}): Date | undefined =>
    judged(changes).find((row) => row.id === id)?.breaksFrom;

  it('says from when each relation breaks: the end of the leaf, or of the CA that signs', () => {
    expect(endOf('R9')).toEqual(day(200));
    expect(endOf('R2')).toEqual(day(250));
    expect(endOf('R1')).toEqual(day(3650));
    expect(endOf('R6')).toBeUndefined();
  });

  it('says the end of a root that ends before its leaf, unless another one takes its place', () => {
    const endWith = (clients: string): RelationRow | undefined => {
      const files = { '/pki/clients.crt': `${cluster.pem}${clients}` };
      const changes = { ...kas({ 'client-ca-file': '/pki/clients.crt' }), files };
      const holderOfShort = scheduler(kubeconfig({ client: beyondShort }));
      return judged({ ...changes, ...holderOfShort }).find(({ id }) => id === 'R10');
    };
    expect(endWith(short.certificate.pem)).toMatchObject({ verdict: 'holds', breaksFrom: day(20) });
    const both = `${short.certificate.pem}${longer.pem}`;
    expect(endWith(both)).toMatchObject({ verdict: 'holds', breaksFrom: day(100) });
  });

  it('agrees with its own forecast, to the second', () => {
    for (const { id, breaksFrom } of judged()) {
      if (breaksFrom === undefined) continue;
      const [before, after] = [breaksFrom, new Date(breaksFrom.getTime() + 1000)];
      expect(idsOf(judged({}, before), 'fails')).not.toContain(id);
      expect(idsOf(judged({}, after), 'fails')).toContain(id);
    }
  });

  it('announces what ends in the last fifth of its life', () => {
    const ending = (at: Date): boolean => judged({}, at).find(({ id }) => id === 'R9')?.isEnding === true;
    expect(ending(now)).toBe(false);
    expect(ending(day(170))).toBe(true);
  });
});

describe('judgeRelations() without a CA', () => {
  const printOf = ({ certificate }: { readonly certificate: typeof cluster.certificate }): string =>
    certificate.facts.fingerprint;

  it('names what would break', () => {
    expect(idsOf(judged({ without: [printOf(frontCa)] }), 'fails')).toEqual(['R2', 'R16']);
    expect(idsOf(judged({ without: [printOf(etcdCa)] }), 'fails')).toEqual(['R11', 'R12', 'R13']);
    expect(idsOf(judged({ without: [printOf(cluster)] }), 'fails')).toEqual([
      'R1',
      'R3',
      'R4',
      'R5',
      'R8',
      'R9',
      'R10',
    ]);
  });

  it('names nothing where it is trusted besides, and signs nothing', () => {
    const files = { '/pki/front-ca.crt': `${frontCa.pem}${stranger.pem}` };
    expect(idsOf(judged({ files, without: [printOf(stranger)] }), 'fails')).toEqual([]);
  });
});
