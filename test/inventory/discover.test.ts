// What is found on a kubeadm machine, with every source there, missing, or garbage.
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { discoverEnvironment } from '../../lib/inventory/discover/discover.ts';
import { discoverKubeadm } from '../../lib/inventory/discover/kubeadm-machine.ts';
import { decideKubeadm } from '../../lib/inventory/discover/kubeadm.ts';
import type { KubeadmFiles, KubeadmSight } from '../../lib/inventory/discover/kubeadm.ts';
import { firstServiceIp } from '../../lib/inventory/discover/service-range.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { createAuthority, createLeaf } from '../support/certificates/certificates.ts';

const manifest = (name: string, ...flags: readonly string[]): string => `apiVersion: v1
kind: Pod
metadata: { name: ${name}, namespace: kube-system }
spec:
  containers:
  - name: ${name}
    command:
    - ${name}
${flags.map((flag) => `    - --${flag}\n`).join('')}`;
const kubeconfig = (server: string, user = '{}'): string => `apiVersion: v1
kind: Config
current-context: me
clusters: [{ name: kubernetes, cluster: { server: '${server}' } }]
users: [{ name: me, user: ${user} }]
contexts: [{ name: me, context: { cluster: kubernetes, user: me } }]
`;

const apiServer = manifest(
  'kube-apiserver',
  'advertise-address=192.0.2.10',
  'secure-port=8443',
  'service-cluster-ip-range=10.32.0.0/16',
  'service-account-issuer=https://kubernetes.default.svc.from.issuer',
  'etcd-servers=https://127.0.0.1:2379',
);
const etcd = manifest(
  'etcd',
  'name=from-etcd',
  'advertise-client-urls=https://192.0.2.11:2379',
  'listen-peer-urls=https://192.0.2.11:2380',
  'listen-client-urls=https://127.0.0.1:2379,https://192.0.2.11:2379',
);
const complete: KubeadmFiles = {
  apiServerManifest: apiServer,
  etcdManifest: etcd,
  kubeletConfiguration: 'kind: KubeletConfiguration\nclusterDomain: from.kubelet\n',
  kubeletFlags:
    'KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix:///run/c.sock --hostname-override=from-flags"\n',
  kubeletKubeconfig: kubeconfig('https://api.example.com:6443'),
  adminKubeconfig: kubeconfig('https://admin.example.com:6443'),
  otherKubeconfigs: [kubeconfig('https://other.example.com:6443')],
  hostname: 'From-Host\n',
};
const etcdAuthority = '/etc/kubernetes/pki/etcd/ca.crt';
const decide = (files: KubeadmFiles, more: Partial<KubeadmSight> = {}) =>
  decideKubeadm({ files, etcdAuthority, hasEtcdAuthority: true, address: '198.51.100.7', ...more }, {});
const without = (...names: readonly (keyof KubeadmFiles)[]): KubeadmFiles =>
  Object.fromEntries(Object.entries(complete).filter(([name]) => !names.includes(name as keyof KubeadmFiles)));

describe('firstServiceIp()', () => {
  it.each([
    ['10.96.0.0/12', '10.96.0.1'],
    ['10.96.7.9/12', '10.96.0.1'],
    ['192.168.255.248/29', '192.168.255.249'],
    ['10.32.0.0/16,fd00::/108', '10.32.0.1'],
    ['fd00:10:96::/112, 10.96.0.0/12', 'fd00:10:96::1'],
    ['2001:db8::ffff:0/113', '2001:db8::ffff:1'],
    ['2001:db8:1:2:3:4:5:6/64', '2001:db8:1:2::1'],
    ['10.96.0.0', undefined],
    ['10.96.0.0/32', undefined],
    ['10.96.0/12', undefined],
    ['fd00::/128', undefined],
    ['', undefined],
  ])('of %s is %s', (range, expected) => {
    expect(firstServiceIp(range)).toBe(expected);
  });
});

describe('decideKubeadm()', () => {
  it('takes everything from the files of a healthy node', () => {
    expect(decide(complete)).toEqual({
      parameters: {
        nodeName: ['from-flags'],
        advertiseAddress: ['192.0.2.10'],
        serviceIP: ['10.32.0.1'],
        clusterServiceNames: ['kubernetes.default.svc.from.kubelet'],
        apiServerHostnames: ['admin.example.com'],
      },
      endpoints: { controlPlane: 'https://admin.example.com:6443', local: 'https://192.0.2.10:8443' },
      lacks: ['externalEtcd'],
      unknown: {},
      notes: [],
    });
  });

  it('defaults to what kubeadm would take where there is nothing, and says so', () => {
    const { parameters, endpoints, lacks, notes } = decide({ hostname: 'Node-1' });
    expect(parameters).toEqual({
      nodeName: ['node-1'],
      advertiseAddress: ['198.51.100.7'],
      serviceIP: ['10.96.0.1'],
      clusterServiceNames: ['kubernetes.default.svc.cluster.local'],
      apiServerHostnames: [],
    });
    expect(endpoints).toEqual({ controlPlane: 'https://198.51.100.7:6443', local: 'https://198.51.100.7:6443' });
    expect(lacks).toEqual(['externalEtcd']);
    expect(notes).toEqual([
      "the manifest of kube-apiserver is absent; other files and kubeadm's defaults take its place",
      "the configuration of the kubelet is absent; other files and kubeadm's defaults take its place",
    ]);
  });

  it.each([
    ['no clusterDomain', 'apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n', []],
    ['an empty one', 'kind: KubeletConfiguration\nclusterDomain: ""\n', []],
    ['a number', 'kind: KubeletConfiguration\nclusterDomain: 5\n', [expect.stringContaining('not what it should be')]],
    ['another document', 'kubelet: yes, please: no', [expect.stringContaining('not what it should be')]],
  ])('takes a configuration of the kubelet with %s for what it is', (_, kubeletConfiguration, notes) => {
    const { parameters, notes: told } = decide({ ...complete, kubeletConfiguration });
    expect(parameters['clusterServiceNames']).toEqual(['kubernetes.default.svc.from.issuer']);
    expect(told).toEqual(notes);
  });

  it('survives garbage in every file', () => {
    const garbage = Object.fromEntries(
      Object.keys(complete).map((name) => [name, name === 'otherKubeconfigs' ? ['{'] : '\0: [garbage {{']),
    ) as KubeadmFiles;
    const { parameters, lacks, notes } = decide({ ...garbage, kubeletCertificate: '-----BEGIN CERTIFICATE-----\nx' });
    expect(parameters).toMatchObject({ nodeName: [], advertiseAddress: ['198.51.100.7'], serviceIP: ['10.96.0.1'] });
    expect(lacks).toEqual(['externalEtcd']); // there is a manifest of etcd
    expect(notes).toHaveLength(5);
    expect(notes.join()).not.toContain('garbage');
  });

  it.each<[string, KubeadmFiles, string, readonly string[]]>([
    ['etcd names the node where the kubelet has no override', without('kubeletFlags'), 'nodeName', ['from-etcd']],
    ['the host name is the last', without('kubeletFlags', 'etcdManifest'), 'nodeName', ['from-host']],
    [
      'a name that is none is passed over',
      { ...without('kubeletFlags'), etcdManifest: manifest('etcd', 'name=a_b') },
      'nodeName',
      ['from-host'],
    ],
    [
      'etcd knows the address where the API server has no manifest',
      without('apiServerManifest'),
      'advertiseAddress',
      ['192.0.2.11'],
    ],
    [
      'the address of the machine is the last',
      without('apiServerManifest', 'etcdManifest'),
      'advertiseAddress',
      ['198.51.100.7'],
    ],
    [
      'flags may stand apart from their values',
      {
        ...complete,
        apiServerManifest: manifest('kube-apiserver', 'advertise-address', '192.0.2.9').replace('--192', '192'),
      },
      'advertiseAddress',
      ['192.0.2.9'],
    ],
    [
      'tokens know the domain where the kubelet has no configuration',
      without('kubeletConfiguration'),
      'clusterServiceNames',
      ['kubernetes.default.svc.from.issuer'],
    ],
    [
      'kubelet.conf knows the endpoint where admin.conf is lost',
      without('adminKubeconfig'),
      'apiServerHostnames',
      ['api.example.com'],
    ],
    [
      'the other kubeconfigs know it last',
      without('kubeletKubeconfig', 'adminKubeconfig'),
      'apiServerHostnames',
      ['other.example.com'],
    ],
    [
      'a kubeconfig that names this machine gives way to one that names the endpoint of the cluster',
      { ...complete, adminKubeconfig: kubeconfig('https://192.0.2.10:6443') },
      'apiServerHostnames',
      ['api.example.com'],
    ],
    [
      'an endpoint that is this machine is no further name',
      { ...without('kubeletKubeconfig', 'otherKubeconfigs'), adminKubeconfig: kubeconfig('https://192.0.2.10:6443') },
      'apiServerHostnames',
      [],
    ],
    [
      'an address of IPv6',
      { ...complete, adminKubeconfig: kubeconfig('https://[2001:DB8::1]:6443') },
      'apiServerHostnames',
      ['2001:db8::1'],
    ],
  ])('%s', (_title, files, parameter, expected) => {
    expect(decide(files).parameters[parameter]).toEqual(expected);
  });

  it('writes an address of IPv6 in brackets', () => {
    const files = { ...complete, apiServerManifest: manifest('kube-apiserver', 'advertise-address=2001:db8::5') };
    expect(decide(files).endpoints.local).toBe('https://[2001:db8::5]:6443');
  });

  it.each<[string, KubeadmFiles, boolean, readonly string[]]>([
    ['a manifest of etcd, even garbage', { etcdManifest: '{{{' }, false, ['externalEtcd']],
    ['an API server that asks this machine', without('etcdManifest'), true, ['externalEtcd']],
    [
      'an API server that asks its own address',
      {
        apiServerManifest: manifest(
          'kube-apiserver',
          'advertise-address=192.0.2.1',
          'etcd-servers=https://192.0.2.1:2379',
        ),
      },
      true,
      ['externalEtcd'],
    ],
    [
      'an API server that asks others, although their CA is in etcd/',
      { apiServerManifest: manifest('kube-apiserver', 'etcd-servers=https://e1:2379,https://e2:2379') },
      true,
      ['stackedEtcd'],
    ],
    ['no manifest, certificates of etcd', {}, true, ['externalEtcd']],
    ['no manifest, no certificates of etcd', {}, false, ['stackedEtcd']],
    [
      'an API server that asks this machine by the lost CA of kubeadm',
      {
        apiServerManifest: manifest(
          'kube-apiserver',
          'etcd-servers=https://127.0.0.1:2379',
          `etcd-cafile=${etcdAuthority}`,
        ),
      },
      false,
      ['externalEtcd'],
    ],
    [
      "an etcd on this machine with somebody else's CA, as kubespray installs it",
      {
        apiServerManifest: manifest(
          'kube-apiserver',
          'advertise-address=192.0.2.1',
          'etcd-servers=https://192.0.2.1:2379',
          'etcd-cafile=/etc/ssl/etcd/ssl/ca.pem',
        ),
      },
      false,
      ['stackedEtcd'],
    ],
  ])('etcd: %s', (_title, files, hasEtcdAuthority, lacks) => {
    expect(decide(files, { hasEtcdAuthority }).lacks).toEqual(lacks);
  });

  it('believes the administrator before all files', () => {
    const given = {
      parameters: { nodeName: ['mine'], advertiseAddress: ['203.0.113.1'], apiServerHostnames: [] },
      lacks: ['stackedEtcd'] as const,
    };
    const found = decideKubeadm({ files: complete, etcdAuthority, hasEtcdAuthority: true }, given);
    expect(found.parameters).toMatchObject({ ...given.parameters, serviceIP: ['10.32.0.1'] });
    expect(found.endpoints.local).toBe('https://203.0.113.1:8443');
    expect(found.lacks).toEqual(['stackedEtcd']);
  });
});

describe('discovery of a machine', () => {
  const directories = {
    kubernetesDir: '/etc/kubernetes',
    pkiDir: '/etc/kubernetes/pki',
    kubeletDir: '/var/lib/kubelet',
  };
  const addresses = () => ({ docker0: ['172.17.0.1'], eth0: ['fe80::1', '198.51.100.7'] });
  let root = '';
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'discover-'));
  });
  afterEach(() => rm(root, { recursive: true, force: true }));
  const put = async (file: string, text: string | Uint8Array): Promise<void> => {
    await mkdir(dirname(join(root, file)), { recursive: true });
    await writeFile(join(root, file), text);
  };
  const found = (given = {}) => discoverKubeadm({ directories, given, root, addresses });

  it('knows the node by the certificate of its kubelet, in its file or embedded', async () => {
    const ca = await createAuthority(join(root, 'ca'), { commonName: 'ca' });
    const identity = { commonName: 'system:node:by-certificate', organization: 'system:nodes' };
    const leaf = await createLeaf(join(root, 'leaf'), ca, identity);
    const both = `${await readFile(leaf.cert, 'utf8')}${await readFile(leaf.key, 'utf8')}`;
    await put('/etc/kubernetes/manifests/kube-apiserver.yaml', apiServer);
    await put('/var/lib/kubelet/pki/kubelet-client-current.pem', both);
    expect((await found()).parameters['nodeName']).toEqual(['by-certificate']);

    await rm(join(root, '/var/lib/kubelet'), { recursive: true });
    const data = Buffer.from(await readFile(leaf.cert, 'utf8')).toString('base64');
    await put('/etc/kubernetes/kubelet.conf', kubeconfig('https://api:6443', `{ client-certificate-data: ${data} }`));
    expect((await found()).parameters['nodeName']).toEqual(['by-certificate']);

    await put('/etc/kubernetes/manifests/etcd.yaml', etcd);
    await put('/etc/kubernetes/kubelet.conf', 'torn');
    expect((await found()).parameters['nodeName']).toEqual(['from-etcd']);
  });

  it.each([
    ['the name of the machine, and its etcd', { etcd: 'node-1', hostname: 'node-1' }, 'node-1'],
    ['the name of the machine alone', { hostname: 'node-1' }, 'node-1'],
    ['the name of the machine, which the network has given it', { hostname: 'dhcp-17', static: 'node-1' }, 'worker-9'],
    ['no name of its own yet', { hostname: 'localhost.localdomain' }, 'worker-9'],
    ['the name of the machine, and a cloud names the node', { hostname: 'ip-10-0-0-1', cloud: 'aws' }, 'worker-9'],
    ['the name of the machine, and a cloud outside names it', { hostname: 'node-1', cloud: 'external' }, 'node-1'],
    ['the name of the machine, and etcd has that of the kubelet', { etcd: 'worker-9', hostname: 'node-1' }, 'worker-9'],
    ['its etcd, and the machine has that of the kubelet', { etcd: 'e1', hostname: 'Worker-9' }, 'worker-9'],
  ])('knows the node where its kubelet is worker-9 and against that stands %s', async (_, names, node) => {
    const ca = await createAuthority(join(root, 'ca'), { commonName: 'ca' });
    const identity = { commonName: 'system:node:worker-9', organization: 'system:nodes' };
    const leaf = await createLeaf(join(root, 'leaf'), ca, identity);
    const { hostname, etcd: member, cloud } = { etcd: undefined, cloud: undefined, ...names };
    await put('/etc/kubernetes/manifests/kube-apiserver.yaml', apiServer);
    if (member !== undefined) await put('/etc/kubernetes/manifests/etcd.yaml', manifest('etcd', `name=${member}`));
    if (cloud !== undefined)
      await put('/var/lib/kubelet/kubeadm-flags.env', `KUBELET_KUBEADM_ARGS="--cloud-provider=${cloud}"\n`);
    await put('/var/lib/kubelet/pki/kubelet-client-current.pem', await readFile(leaf.cert, 'utf8'));
    await put('/proc/sys/kernel/hostname', `${hostname}\n`);
    await put('/etc/hostname', `${'static' in names ? names.static : hostname}\n`);
    expect((await found()).parameters['nodeName']).toEqual([node]);
  });

  it('takes the address of the default route and the name that the kernel has', async () => {
    await put('/etc/kubernetes/manifests/kube-apiserver.yaml', 'kube-apiserver: [');
    await put('/proc/sys/kernel/hostname', 'Kernel-Name\n');
    await put('/etc/hostname', 'file-name\n');
    await put('/proc/net/route', 'Iface\tDestination\tGateway\ndocker0\t000011AC\t0\neth0\t00000000\t0101A8C0\n');
    expect((await found()).parameters).toMatchObject({
      nodeName: ['kernel-name'],
      advertiseAddress: ['198.51.100.7'],
    });
  });

  it.each([
    ['its configuration', { '/var/lib/kubelet/config.yaml': 'staticPodPath: /etc/static\n' }],
    ['a path beside its configuration', { '/var/lib/kubelet/config.yaml': 'staticPodPath: ../../../etc/static\n' }],
    [
      'its unit',
      { '/etc/systemd/system/kubelet.service': '[Service]\nExecStart=/k/kubelet --pod-manifest-path=%E/static\n' },
    ],
  ])('reads static pods where the kubelet does, by %s', async (_, files) => {
    await put(
      '/etc/kubernetes/manifests/kube-apiserver.yaml',
      manifest('kube-apiserver', 'advertise-address=192.0.2.1'),
    );
    for (const [file, content] of Object.entries(files)) await put(file, content);
    expect((await found()).parameters['advertiseAddress']).toEqual(['192.0.2.1']); // nothing is there
    await put('/etc/static/kube-apiserver.yaml', manifest('kube-apiserver', 'advertise-address=192.0.2.2'));
    expect((await found()).parameters['advertiseAddress']).toEqual(['192.0.2.2']);
  });

  it('says what could not be read, and goes on', async () => {
    await put('/etc/kubernetes/manifests/kube-apiserver.yaml', 'kube-apiserver: [');
    await put('/etc/hostname', 'node-1');
    await mkdir(join(root, '/etc/kubernetes/kubelet.conf'), { recursive: true });
    const { notes, parameters } = await found();
    expect(notes[0]).toMatch(/^"\/etc\/kubernetes\/kubelet.conf" could not be read: EISDIR/);
    expect(parameters).toMatchObject({ nodeName: ['node-1'] });
  });

  it.each([
    ['an empty machine', []],
    [
      'one with empty files in the places of those of a control plane',
      ['manifests/kube-apiserver.yaml', 'pki/apiserver.crt', 'pki/apiserver.key', 'scheduler.conf'].map(
        (name) => `/etc/kubernetes/${name}`,
      ),
    ],
    ['a worker, which has the CA too', ['/etc/kubernetes/pki/ca.crt', '/etc/kubernetes/kubelet.conf']],
    [
      'a machine that is to join: the CAs have been brought',
      [
        'ca.crt',
        'ca.key',
        'sa.key',
        'sa.pub',
        'front-proxy-ca.crt',
        'front-proxy-ca.key',
        'etcd/ca.crt',
        'etcd/ca.key',
      ].map((name) => `/etc/kubernetes/pki/${name}`),
    ],
  ])('refuses %s', async (_title, files) => {
    for (const file of files) await put(file, '');
    await expect(found()).rejects.toMatchObject({
      code: 'PreconditionFailed',
      message: expect.stringMatching(
        /^Cannot find a control plane of kubeadm on this machine: there is no "\/etc\/kubernetes\/manifests\/kube-apiserver.yaml"/,
      ) as unknown,
    });
  });

  it('names the distribution of a machine that is not of kubeadm, and what renews its certificates', async () => {
    await mkdir(join(root, '/var/lib/rancher/rke2/server/tls'), { recursive: true });
    await expect(found()).rejects.toThrow(
      '; this machine runs RKE2, which renews its certificates when it starts: systemctl restart rke2-server',
    );
  });

  it.each([
    ['pki/apiserver.crt', '-----BEGIN CERTIFICATE-----\nMII'],
    ['pki/apiserver.key', '\0\0\0\0'],
    ['controller-manager.conf', kubeconfig('https://192.0.2.10:6443')],
    ['scheduler.conf', 'apiVersion: v1\nclusters:\n- clu'],
    ['manifests/kube-apiserver.yaml', 'apiVersion: v1\nkind: Pod\nmetadata:\n  name: kube-apiserver\n  names: ['],
  ])('knows a control plane that has lost its manifests by what is in %s', async (file, content) => {
    await put(`/etc/kubernetes/${file}`, content);
    await put('/etc/kubernetes/pki/etcd/ca.crt', '');
    expect((await found()).lacks).toEqual(['externalEtcd']);
  });

  it('gives the preset its environment: what was given, else found', async () => {
    await put('/srv/pki/apiserver.crt', '');
    await put('/etc/kubernetes/manifests/kube-apiserver.yaml', apiServer);
    await put('/etc/hostname', 'node-1');
    const inventory = loadPreset('kubeadm');
    const given = { directories: { pkiDir: '/srv/pki' }, parameters: { serviceIP: ['10.0.0.1'] } };
    const { environment } = await discoverEnvironment(inventory, given, { root, addresses });
    const resolved = resolve(inventory, environment);
    expect(resolved.endpoints).toEqual({ controlPlane: 'https://192.0.2.10:8443', local: 'https://192.0.2.10:8443' });
    expect(resolved.artefacts.find(({ name }) => name === 'apiserver')).toMatchObject({
      location: { certFile: '/srv/pki/apiserver.crt' },
      hostnames: [
        '10.0.0.1',
        '192.0.2.10',
        'kubernetes',
        'kubernetes.default',
        'kubernetes.default.svc',
        'kubernetes.default.svc.from.issuer',
        'node-1',
      ],
    });
  });

  it.each([
    ['controller-manager.conf', 'KUBE_CONTROLLER_MANAGER_ARGS="--v=2"\n'],
    ['scheduler.conf', 'apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n'],
    ['pki/apiserver.crt', '-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n'],
    ['pki/apiserver.key', 'text\n'],
    ['manifests/kube-apiserver.yaml', 'kind: KubeletConfiguration\n'],
  ])('takes no name for a sign of a control plane: another document in %s', async (file, content) => {
    await put(`/etc/kubernetes/${file}`, content);
    await expect(found()).rejects.toMatchObject({ code: 'PreconditionFailed' });
  });

  it('leaves an inventory alone that asks for no discovery', async () => {
    const given = { parameters: { apiServerHostnames: ['a'] } };
    const answer = await discoverEnvironment(loadPreset('kubernetes'), given, { root, addresses });
    expect(answer).toEqual({ environment: given, notes: [] });
  });
});

it('takes no server from a context of another cluster', () => {
  const kind = kubeconfig('https://127.0.0.1:34567').replaceAll('kubernetes', 'kind-kind');
  const both = `current-context: kind-kind
clusters:
- { name: kind-kind, cluster: { server: 'https://127.0.0.1:34567' } }
- { name: kubernetes, cluster: { server: 'https://admin.example.com:6443' } }
users: [{ name: kind-kind, user: {} }, { name: kubernetes-admin, user: {} }]
contexts:
- { name: kind-kind, context: { cluster: kind-kind, user: kind-kind } }
- { name: kubernetes-admin@kubernetes, context: { cluster: kubernetes, user: kubernetes-admin } }
`;
  expect(decide({ ...complete, adminKubeconfig: both }).endpoints.controlPlane).toBe('https://admin.example.com:6443');
  const alone = decide({ ...complete, adminKubeconfig: kind });
  expect(alone.endpoints.controlPlane).toBe('https://api.example.com:6443');
  expect(alone.notes).toEqual([]);
});
