// `verify` against real components: on a machine of the real kubeadm every relation holds and every handshake succeeds;
// with one relation broken it names that one and no other, and exactly that handshake, token or start really fails.
import { X509Certificate } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { relations } from '../../lib/trust/relations.ts';
import { createAuthority } from '../support/certificates/certificates.ts';
import { runOn } from '../support/cluster/flagged-machine.ts';
import { advertiseAddress } from '../support/cluster/kubeadm-machine.ts';
import { type Probe, probes } from '../support/cluster/trust-probes.ts';
import { idsOf, type RelationSight, TrustWorld } from '../support/cluster/trust-world.ts';
import { apiService, definition, webhook } from '../support/cluster/verifying-objects.ts';
import { eventually } from '../support/eventually.ts';

let world: TrustWorld;
beforeAll(async () => {
  world = await TrustWorld.prepare();
  await world.start();
});
afterAll(() => world?.[Symbol.asyncDispose]());

const etcd = 'etcd';
const kas = 'kube-apiserver';
const kcm = 'kube-controller-manager';
type Restarted = typeof etcd | typeof kas | typeof kcm;

interface Break {
  readonly id: keyof typeof probes;
  readonly title: string;
  readonly breaks: () => Promise<unknown>;
  /** Restarted with it, and afterwards. */
  readonly restarts?: readonly Restarted[];
  /** Also the server with the kubelet's files, which trusts this CA. */
  readonly kubelet?: () => string;
  /** A process does not start with it: what it, or the other one, says. */
  readonly refuses?: readonly [name: Restarted, text: string, by?: Restarted];
}

const stranger = (): typeof world.stranger => world.stranger;
const strangers = (name: string): Promise<string> => world.put(name, stranger().cert);
const dataOf = async (file: string): Promise<string> => (await readFile(file)).toString('base64');

async function giveScheduler({ cert, key }: typeof world.stranger): Promise<void> {
  const [certData, keyData] = [await dataOf(cert), await dataOf(key)];
  await world.edit('/etc/kubernetes/scheduler.conf', (text) =>
    text
      .replace(/client-certificate-data: .*/, `client-certificate-data: ${certData}`)
      .replace(/client-key-data: .*/, `client-key-data: ${keyData}`),
  );
}

/** kube-controller-manager takes one CA for all requests, or one for each kind. */
async function signersApart(strange: 'client' | 'serving'): Promise<void> {
  const [cert, key] = [await strangers('signer.crt'), await world.put('signer.key', stranger().key)];
  const own = ['/etc/kubernetes/pki/ca.crt', '/etc/kubernetes/pki/ca.key'] as const;
  const kinds = ['kubelet-client', 'kubelet-serving', 'kube-apiserver-client', 'legacy-unknown'];
  const flags = kinds.flatMap((kind): (readonly [string, string])[] => {
    const [certFile, keyFile] = kind === `kubelet-${strange}` ? [cert, key] : own;
    return [
      [`cluster-signing-${kind}-cert-file`, certFile],
      [`cluster-signing-${kind}-key-file`, keyFile],
    ];
  });
  const none = { 'cluster-signing-cert-file': '', 'cluster-signing-key-file': '' };
  await world.tell(kcm, { ...none, ...Object.fromEntries(flags) });
}

const breaks: readonly Break[] = [
  {
    id: 'R1',
    title: 'a CA signs kubelets that kube-apiserver does not trust',
    breaks: () => signersApart('client'),
    restarts: [kcm],
  },
  {
    id: 'R2',
    title: 'kube-apiserver trusts another CA of front proxies',
    breaks: async () => world.tell(kas, { 'requestheader-client-ca-file': await strangers('front.crt') }),
    restarts: [kas],
  },
  {
    id: 'R2',
    title: 'kube-apiserver allows another name of front proxies',
    breaks: () => world.tell(kas, { 'requestheader-allowed-names': 'another' }),
    restarts: [kas],
  },
  {
    id: 'R3',
    title: 'the kubelet serves with a certificate of another CA',
    breaks: () => world.giveKubelet(stranger()),
    kubelet: () => world.ca('ca').cert,
  },
  {
    id: 'R4',
    title: 'a CA signs serving certificates that kube-apiserver does not trust',
    breaks: () => signersApart('serving'),
    restarts: [kcm],
  },
  {
    id: 'R5',
    title: 'the kubelet trusts another CA',
    breaks: () =>
      world
        .edit('/var/lib/kubelet/config.yaml', (text) =>
          text.replace('/etc/kubernetes/pki/ca.crt', '/etc/kubernetes/own/c.crt'),
        )
        .then(() => strangers('c.crt')),
    kubelet: () => stranger().cert,
  },
  {
    id: 'R6',
    title: 'kube-controller-manager signs tokens with another key',
    breaks: async () =>
      world.tell(kcm, { 'service-account-private-key-file': await world.put('sa.key', stranger().key) }),
    restarts: [kcm],
  },
  {
    id: 'R7',
    title: 'kube-apiserver signs tokens with another key',
    breaks: async () =>
      world.tell(kas, { 'service-account-signing-key-file': await world.put('sa.key', stranger().key) }),
    restarts: [kas],
  },
  {
    id: 'R8',
    title: 'Pods are given another CA',
    breaks: async () => world.tell(kcm, { 'root-ca-file': await strangers('root.crt') }),
    restarts: [kcm],
  },
  {
    id: 'R9',
    title: 'a kubeconfig has another CA',
    breaks: async () => {
      const data = await dataOf(stranger().cert);
      await world.edit('/etc/kubernetes/controller-manager.conf', (text) =>
        text.replace(/certificate-authority-data: .*/, `certificate-authority-data: ${data}`),
      );
    },
  },
  {
    id: 'R9',
    title: 'a kubeconfig names its server as its certificate does not',
    breaks: () =>
      world.edit('/etc/kubernetes/controller-manager.conf', (text) =>
        text.replace(`https://${advertiseAddress}:6443`, 'https://127.0.0.1:6443'),
      ),
  },
  {
    id: 'R10',
    title: 'a kubeconfig has a certificate of another CA',
    breaks: async () => {
      await giveScheduler(await world.leaf(stranger(), { commonName: 'system:kube-scheduler' }));
    },
  },
  {
    id: 'R11',
    title: 'kube-apiserver shows etcd a certificate of another CA',
    breaks: () => world.replace(world.pair('apiserver-etcd-client'), stranger(), { commonName: 'kube-apiserver' }),
    refuses: [kas, 'rejected connection', etcd],
    restarts: [kas],
  },
  {
    id: 'R12',
    title: 'etcd serves with a certificate that is no server',
    breaks: () =>
      world.replace(world.pair('etcd/server'), world.ca('etcd/ca'), {
        commonName: 'node1',
        ipAddresses: ['127.0.0.1'],
      }),
    refuses: [kas, 'authentication handshake failed'],
    restarts: [kas],
  },
  {
    id: 'R12',
    title: 'kube-apiserver trusts another CA of etcd',
    breaks: async () => world.tell(kas, { 'etcd-cafile': await strangers('etcd.crt') }),
    refuses: [kas, 'authentication handshake failed'],
    restarts: [kas],
  },
  {
    id: 'R13',
    title: 'etcd trusts peers of another CA',
    breaks: async () => world.tell(etcd, { 'peer-trusted-ca-file': await strangers('peer.crt') }),
    restarts: [etcd, kas],
  },
  {
    id: 'R14',
    title: 'the key of the CA that signs is another one',
    breaks: async () => world.tell(kcm, { 'cluster-signing-key-file': await world.put('signer.key', stranger().key) }),
    refuses: [kcm, 'private key does not match public key'],
    restarts: [kcm],
  },
  {
    id: 'R15',
    title: 'the key of a certificate is another one',
    breaks: async () => writeFile(world.pair('apiserver').key, await readFile(stranger().key)),
    refuses: [kas, 'private key does not match public key'],
    restarts: [kas],
  },
  {
    id: 'R16',
    title: 'kube-controller-manager trusts another CA of front proxies',
    breaks: async () => world.tell(kcm, { 'requestheader-client-ca-file': await strangers('front.crt') }),
    restarts: [kcm],
  },
];

describe('verify on a machine of kubeadm whose kubelet is verified', () => {
  it('says that every relation holds', async () => {
    const { rows, code } = await world.verify();
    const all = relations.map(({ id }) => id);
    expect(idsOf(rows, 'fails')).toEqual([]);
    expect(idsOf(rows, 'unknown')).toEqual([]);
    expect(idsOf(rows, 'holds')).toEqual(all);
    expect(code).toBe(0);
  });

  it.each(Object.entries<Probe>(probes))('%s: what needs it really works', async (_, probe) => {
    await world.restoring(async () => expect(await probe(world)).toBe(true));
  });
});

describe('verify names the relation that is broken, and no other', () => {
  it.each(breaks)('$id: $title', async ({ id, breaks: doBreak, restarts = [], kubelet, refuses }) => {
    await world.restoring(async () => {
      await doBreak();
      const { rows, code } = await world.verify();
      expect(idsOf(rows, 'fails'), JSON.stringify(rows.filter(({ verdict }) => verdict !== 'holds'))).toEqual([id]);
      expect(idsOf(rows, 'unknown')).toEqual([]);
      expect(code).toBe(3);
      if (refuses === undefined) {
        for (const name of restarts) await world.restart(name);
        if (kubelet !== undefined) await world.startKubeletServer(kubelet());
        expect(await probes[id](world)).toBe(false);
      } else await world.startsAndSays(...refuses);
    });
    for (const name of restarts) await world.restart(name);
    if (kubelet !== undefined || id === 'R4') await world.startKubeletServer();
    expect(await probes[id](world)).toBe(true);
  });

  it('breaks each relation once at least', () => {
    expect([...new Set(breaks.map(({ id }) => id))]).toEqual(relations.map(({ id }) => id));
  });
});

describe('verify at another time', () => {
  const end = (): Date => new Date(Math.ceil(systemClock.now().getTime() / 1000) * 1000 + 45_000);
  const isoOf = (date: Date): string => date.toISOString().replace('.000Z', 'Z');

  /** The handshake ends when the report says so. */
  async function agrees(notAfter: Date): Promise<void> {
    const isScheduler = ({ relation, credential }: RelationSight): boolean =>
      relation === 'R10' && credential.file === '/etc/kubernetes/scheduler.conf';
    const { rows } = await world.verify();
    expect(rows.find(isScheduler)).toMatchObject({ verdict: 'holds', breaksFrom: isoOf(notAfter) });
    expect(idsOf((await world.verify(`--at=${isoOf(notAfter)}`)).rows, 'fails')).toEqual([]);
    const after = await world.verify(`--at=${isoOf(new Date(notAfter.getTime() + 1000))}`);
    expect(after.rows.filter(({ verdict }) => verdict === 'fails')).toEqual(after.rows.filter(isScheduler));
    expect(await probes.R10(world)).toBe(true);
    await eventually(async () => expect(await probes.R10(world)).toBe(false));
    expect(systemClock.now().getTime()).toBeGreaterThanOrEqual(notAfter.getTime());
    expect(idsOf((await world.verify()).rows, 'fails')).toEqual(['R10']);
  }

  it('agrees with handshakes of a leaf that ends', () =>
    world.restoring(async () => {
      const notAfter = end();
      await giveScheduler(await world.leaf(world.ca('ca'), { commonName: 'system:kube-scheduler', notAfter }));
      await agrees(notAfter);
    }));

  it('agrees with handshakes of a CA that ends before its leaf', async () => {
    await world.restoring(async () => {
      await world.put('clients.crt', world.ca('ca').cert);
      await world.tell(kas, { 'client-ca-file': '/etc/kubernetes/own/clients.crt' });
      await world.restart(kas);
      const notAfter = end();
      const short = await createAuthority(`${world.machine.root}/short`, { commonName: 'short', notAfter });
      await giveScheduler(await world.leaf(short, { commonName: 'system:kube-scheduler' }));
      const both = `${await readFile(world.ca('ca').cert, 'utf8')}${await readFile(short.cert, 'utf8')}`;
      await world.write('/etc/kubernetes/own/clients.crt', both);
      await eventually(async () => expect(await probes.R10(world)).toBe(true), { withinMs: 20_000 });
      await agrees(notAfter);
    });
    await world.restart(kas);
  });
});

describe('verify with the API', () => {
  const publishedIn = (rows: readonly RelationSight[]): readonly (readonly [string, string, string])[] =>
    rows.flatMap(({ relation, credential: { file }, trust: { name }, verdict }): [string, string, string][] =>
      name.startsWith('ConfigMap') && file !== undefined ? [[relation, name, verdict]] : [],
    );
  const root = ['R8', 'ConfigMap "default/kube-root-ca.crt" ca.crt', 'holds'];
  const fronts = [
    'R16',
    'ConfigMap "kube-system/extension-apiserver-authentication" requestheader-client-ca-file',
    'holds',
  ];
  const info = 'ConfigMap "kube-public/cluster-info" kubeconfig';

  async function publishInfo(ca: string): Promise<void> {
    const cluster = { server: `https://${advertiseAddress}:6443`, 'certificate-authority-data': await dataOf(ca) };
    const kubeconfig = { apiVersion: 'v1', kind: 'Config', clusters: [{ name: '', cluster }] };
    const metadata = { name: 'cluster-info', namespace: 'kube-public' };
    await world.running.apply({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata,
      data: { kubeconfig: JSON.stringify(kubeconfig) },
    });
  }

  it('verifies what it publishes: the CA of Pods, of front proxies, and of joining nodes', async () => {
    expect(publishedIn((await world.verifyWithApi()).rows)).toEqual([root, fronts]);
    await publishInfo(stranger().cert);
    const { rows } = await world.verifyWithApi();
    expect(publishedIn(rows)).toEqual([root, ['R9', info, 'fails'], fronts]);
    expect(idsOf(rows, 'fails')).toEqual(['R9']);
    const livez = `https://${advertiseAddress}:6443/livez`;
    expect((await world.curl('--cacert', stranger().cert, livez)).code).not.toBe(0);
    await publishInfo(world.ca('ca').cert);
    expect(publishedIn((await world.verifyWithApi()).rows)).toEqual([root, ['R9', info, 'holds'], fronts]);
    expect((await world.curl('--cacert', world.ca('ca').cert, livez)).code).toBe(0);
  });

  it('says what it cannot read, and judges the rest', async () => {
    await world.running.stop(kas);
    const { rows, notes } = await world.verifyWithApi();
    expect(idsOf(rows, 'unknown')).toEqual(['R8', 'R9', 'R16']);
    expect(idsOf(rows, 'fails')).toEqual([]);
    expect(notes).toContainEqual(expect.stringMatching(/^Not verified: kubelets of Nodes: /));
    await world.restart(kas);
  });
});

describe('verify of servers of the cluster', () => {
  const seen = ({ relation, credential, verdict }: RelationSight): string =>
    `${relation} ${credential.name}: ${verdict}`;
  const met = (rows: readonly RelationSight[]): readonly string[] =>
    rows.filter(({ credential: { name } }) => / at .*:\d+/.test(name)).map(seen);
  const node = async (name: string, address: string, port: number): Promise<void> => {
    await world.running.apply({ apiVersion: 'v1', kind: 'Node', metadata: { name } });
    const addresses = [{ type: 'InternalIP', address }];
    const status = { addresses, daemonEndpoints: { kubeletEndpoint: { Port: port } } };
    const patch = ['--type=merge', '--subresource=status', `-p=${JSON.stringify({ status })}`];
    expect((await world.running.asAdmin('patch', `node/${name}`, ...patch)).code).toBe(0);
  };
  const strange = (): Promise<typeof world.stranger> =>
    world.leaf(stranger(), { commonName: 'kubelet', usages: ['serverAuth'], ipAddresses: [advertiseAddress] });
  const sound = [
    `R3 kubelet of Node "node1" at ${advertiseAddress}:10250: holds`,
    `R8 kube-apiserver at ${advertiseAddress}:6443 as 10.96.0.1: holds`,
    `R8 kube-apiserver at ${advertiseAddress}:6443 as kubernetes.default.svc: holds`,
  ];

  it('meets the kubelet of each Node and each API server', async () => {
    const { rows, notes } = await world.verifyWithApi();
    expect(met(rows)).toEqual(sound);
    expect(idsOf(rows, 'fails')).toEqual([]);
    expect(notes).toEqual([]);
  });

  it('names a kubelet that kube-apiserver refuses, and no other, and says of one that is away that it is not verified', async () => {
    const { cert, key } = await strange();
    await world.startServer(10_251, cert, key);
    await node('node2', advertiseAddress, 10_251);
    await node('node3', '192.0.2.77', 10_250);
    const { rows } = await world.verifyWithApi();
    const others = [
      `R3 kubelet of Node "node2" at ${advertiseAddress}:10251: fails`,
      'R3 kubelet of Node "node3" at 192.0.2.77:10250: unknown',
    ];
    expect(met(rows).toSorted()).toEqual([...sound, ...others].toSorted());
    expect(rows.filter(({ verdict }) => verdict === 'fails').map(seen)).toEqual(others.slice(0, 1));
    expect(rows.find(({ verdict }) => verdict === 'unknown')?.reason).toContain('is not verified: no answer');
    const asked = await world.running.asAdmin('get', '--raw=/api/v1/nodes/node2/proxy/metrics');
    expect(asked.stderr).toContain('x509: certificate signed by unknown authority');
    await world.running.asAdmin('delete', 'node', 'node2', 'node3');
    await world.running.processes.get('server')?.kill();
  });

  it('names a kubelet that serves something else than its file', async () => {
    const { cert, key } = await strange();
    await world.running.processes.get('kubelet')?.kill();
    await world.startServer(10_250, cert, key);
    const { rows } = await world.verifyWithApi();
    expect(rows.filter(({ verdict }) => verdict === 'fails').map(seen)).toEqual([
      `R3 kubelet of Node "node1" at ${advertiseAddress}:10250: fails`,
    ]);
    await world.running.processes.get('server')?.kill();
    await world.startKubeletServer();
  });
});

describe('verify of caBundles', () => {
  const [ended, now] = [new Date(systemClock.now().getTime() - 3_600_000), systemClock.now()];

  const bundlesIn = (rows: readonly RelationSight[]): readonly (readonly [string, string, string])[] =>
    rows.flatMap(({ relation, trust, verdict }) => (relation.startsWith('B') ? [[relation, trust.name, verdict]] : []));
  /** What the API server says of a ConfigMap that the webhook must see. */
  const asked = async (): Promise<string> => {
    const metadata = { name: 'asked', labels: { policy: 'asked' } };
    await world.write('/asked.json', JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata }));
    return (await world.running.asAdmin('create', '-f', world.below('/asked.json'))).stderr;
  };
  const names = [
    'ValidatingWebhookConfiguration "policy" webhook "policy.example.com" caBundle',
    'CustomResourceDefinition "things.other.example.com" caBundle',
    'APIService "v1.example.com" caBundle',
  ] as const;

  it('names the one that has expired, or is garbage, and no other row', async () => {
    const url = `https://${advertiseAddress}:10251/`;
    const former = await createAuthority(world.below('/former'), {
      commonName: 'hook',
      notBefore: new Date(now.getTime() - 7_200_000),
      notAfter: ended,
    });
    const { cert, key } = await world.leaf(stranger(), {
      commonName: 'hook',
      usages: ['serverAuth'],
      ipAddresses: [advertiseAddress],
    });
    await world.startServer(10_251, cert, key);
    const [good, bad] = [await dataOf(stranger().cert), await dataOf(former.cert)];

    await world.running.apply(webhook(url, good), apiService(good), definition(good));
    const before = await world.verifyWithApi();
    expect(bundlesIn(before.rows)).toEqual([
      ['B1', names[0], 'holds'],
      ['B2', names[1], 'holds'],
      ['B3', names[2], 'holds'],
    ]);
    await eventually(async () => expect(await asked()).toMatch(/failed calling webhook(?!.*x509)/));

    await world.running.apply(webhook(url, bad));
    const { rows } = await world.verifyWithApi();
    expect(rows.filter(({ verdict }) => verdict === 'fails').map(({ trust }) => trust.name)).toEqual([names[0]]);
    expect(rows.find(({ verdict }) => verdict === 'fails')?.reason).toContain('expired at');
    await eventually(async () => expect(await asked()).toMatch(/failed calling webhook.*x509/));

    await world.running.apply(webhook(url, good), apiService(Buffer.from('garbage').toString('base64')));
    const after = await world.verifyWithApi();
    expect(after.rows.filter(({ verdict }) => verdict === 'fails').map(({ trust }) => trust.name)).toEqual([names[2]]);
  });

  it('says what may not be read, and fails for nothing of it', async () => {
    const { rows, notes } = await world.verifyWithApi('scheduler.conf');
    expect(bundlesIn(rows)).toEqual([]);
    expect(idsOf(rows, 'fails')).toEqual([]);
    for (const kind of ['ValidatingWebhookConfiguration', 'MutatingWebhookConfiguration', 'CustomResourceDefinition'])
      expect(notes).toContainEqual(expect.stringMatching(new RegExp(`^Not verified: caBundles of ${kind}s: .*403`)));
    await world.running.asAdmin('delete', 'validatingwebhookconfiguration/policy', 'apiservice/v1.example.com');
    await world.running.asAdmin('delete', 'crd/things.other.example.com');
    await world.running.processes.get('server')?.kill();
  });
});

describe('verify without a CA', () => {
  it('names what really breaks when that CA is taken out', async () => {
    const ids = ['R2', 'R16'] as const;
    const { rows, code } = await world.verify('--without=/etc/kubernetes/pki/front-proxy-ca.crt');
    expect(idsOf(rows, 'fails')).toEqual(ids);
    expect(code).toBe(3);
    await world.restoring(async () => {
      await world.put('front.crt', stranger().cert);
      for (const name of [kas, kcm] as const) {
        await world.tell(name, { 'requestheader-client-ca-file': '/etc/kubernetes/own/front.crt' });
        await world.restart(name);
      }
      for (const [id, probe] of Object.entries<Probe>(probes))
        expect(await probe(world), id).toBe(!(ids as readonly string[]).includes(id));
    });
    await world.startKubeletServer();
    for (const name of [kas, kcm] as const) await world.restart(name);
  });

  it('takes a fingerprint, and refuses what is neither that nor a file', async () => {
    const { fingerprint256 } = new X509Certificate(await readFile(world.ca('etcd/ca').cert));
    const { rows } = await world.verify(`--without=SHA256:${fingerprint256}`);
    expect(idsOf(rows, 'fails')).toEqual(['R11', 'R12', 'R13']);
    const { stderr, code } = await runOn(world.machine, 'verify', '--without=/absent');
    expect(stderr).toContain('--without must be its file or its fingerprint');
    expect(code).toBe(2);
  });
});
