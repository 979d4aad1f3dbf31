// A machine of the real kubeadm on which every relation of trust is in use: etcd, kube-apiserver and
// kube-controller-manager run with their manifests' flags, and a server with the kubelet's files answers at its port. One
// probe for each relation makes the handshake, or uses the token.
import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import { createAuthority, createLeaf, type LeafOptions, type Pair } from '../certificates/certificates.ts';
import { eventually } from '../eventually.ts';
import { findBinaries } from './binaries.ts';
import { runOn } from './flagged-machine.ts';
import { advertiseAddress, type KubeadmMachine, type Outcome } from './kubeadm-machine.ts';
import { unseen } from './namespaces.ts';
import { RunningMachine } from './running-machine.ts';

type Started = 'etcd' | 'kube-apiserver' | 'kube-controller-manager';

export interface RelationSight {
  readonly relation: string;
  readonly credential: { readonly name: string; readonly file?: string };
  readonly trust: { readonly name: string; readonly file?: string };
  readonly verdict: string;
  readonly reason: string;
  readonly breaksFrom?: string;
}

const program = fileURLToPath(new URL('../../../dist/app/main.mjs', import.meta.url));
const kubeletDir = '/var/lib/kubelet';
const own = '/etc/kubernetes/own';

export class TrustWorld implements AsyncDisposable {
  readonly running: RunningMachine;
  /** A CA that nobody trusts. */
  readonly stranger: Pair;
  readonly #scheduler: string;
  #made = 0;

  private constructor(running: RunningMachine, stranger: Pair, scheduler: string) {
    this.running = running;
    this.stranger = stranger;
    this.#scheduler = scheduler;
  }

  get machine(): KubeadmMachine {
    return this.running.machine;
  }

  /** The machine with a kubelet that kube-apiserver verifies; nothing runs. */
  static async prepare(): Promise<TrustWorld> {
    const running = await RunningMachine.prepare();
    const { machine } = running;
    const stranger = await createAuthority(join(machine.root, 'stranger'), { commonName: 'kubernetes' });
    const scheduler = (await findBinaries(['kube-scheduler'])).get('kube-scheduler') ?? '';
    const world = new TrustWorld(running, stranger, scheduler);
    await world.giveKubelet(world.ca('ca'));
    await world.write(
      `${kubeletDir}/config.yaml`,
      'apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nauthentication:\n' +
        `  x509: { clientCAFile: /etc/kubernetes/pki/ca.crt }\ntlsCertFile: ${kubeletDir}/pki/kubelet.crt\n` +
        `tlsPrivateKeyFile: ${kubeletDir}/pki/kubelet.key\n`,
    );
    await world.tell('kube-apiserver', { 'kubelet-certificate-authority': '/etc/kubernetes/pki/ca.crt' });
    // A new leader waits for the Lease of the former one.
    await world.tell('kube-controller-manager', { 'leader-elect': 'false' });
    return world;
  }

  async start(): Promise<void> {
    for (const name of ['etcd', 'kube-apiserver', 'kube-controller-manager'] as const) await this.restart(name);
    await this.startKubeletServer();
    await eventually(() => this.running.apply({ apiVersion: 'v1', kind: 'Node', metadata: { name: 'node1' } }));
    // As kubeadm does it: its client certificate for kubelets is in this group.
    const rbac = 'rbac.authorization.k8s.io';
    await this.running.apply({
      apiVersion: `${rbac}/v1`,
      kind: 'ClusterRoleBinding',
      metadata: { name: 'kubeadm:cluster-admins' },
      roleRef: { apiGroup: rbac, kind: 'ClusterRole', name: 'cluster-admin' },
      subjects: [{ apiGroup: rbac, kind: 'Group', name: 'kubeadm:cluster-admins' }],
    });
    const status = {
      addresses: [{ type: 'InternalIP', address: advertiseAddress }],
      daemonEndpoints: { kubeletEndpoint: { Port: 10250 } },
    };
    await this.running.asAdmin(
      'patch',
      'node/node1',
      '--type=merge',
      '--subresource=status',
      `-p=${JSON.stringify({ status })}`,
    );
  }

  // --- files

  ca(name: 'ca' | 'etcd/ca' | 'front-proxy-ca'): Pair {
    return { cert: this.machine.path('pki', `${name}.crt`), key: this.machine.path('pki', `${name}.key`) };
  }

  pair(name: string): Pair {
    return { cert: this.machine.path('pki', `${name}.crt`), key: this.machine.path('pki', `${name}.key`) };
  }

  /** `file`: a path of the machine. */
  below(file: string): string {
    return join(this.machine.root, file);
  }

  async write(file: string, text: string | Buffer): Promise<void> {
    await mkdir(dirname(this.below(file)), { recursive: true });
    await writeFile(this.below(file), text);
  }

  /** A copy in the directory of what the machine is told besides; its path there. */
  async put(name: string, source: string): Promise<string> {
    await this.write(`${own}/${name}`, await readFile(source));
    return `${own}/${name}`;
  }

  leaf(signer: Pair, options: LeafOptions): Promise<Pair> {
    this.#made += 1;
    return createLeaf(join(this.machine.root, `leaf${this.#made}`), signer, options);
  }

  /** Another pair in its place. */
  async replace(place: Pair, signer: Pair, options: LeafOptions): Promise<void> {
    const made = await this.leaf(signer, options);
    await writeFile(place.cert, await readFile(made.cert));
    await writeFile(place.key, await readFile(made.key));
  }

  async giveKubelet(signer: Pair): Promise<void> {
    await mkdir(this.below(`${kubeletDir}/pki`), { recursive: true });
    const place = {
      cert: this.below(`${kubeletDir}/pki/kubelet.crt`),
      key: this.below(`${kubeletDir}/pki/kubelet.key`),
    };
    await this.replace(place, signer, {
      commonName: 'system:node:node1',
      organization: 'system:nodes',
      usages: ['serverAuth'],
      ipAddresses: [advertiseAddress],
    });
  }

  /** Sets flags of a static pod; an empty value takes the flag away. */
  async tell(pod: Started, flags: Readonly<Record<string, string>>): Promise<void> {
    const file = this.machine.path(`manifests/${pod}.yaml`);
    let text = await readFile(file, 'utf8');
    for (const [flag, value] of Object.entries(flags)) {
      text = text.replace(new RegExp(`^    - --${flag}=.*\n`, 'm'), '');
      if (value !== '') text = text.replace(`    - ${pod}\n`, `    - ${pod}\n    - --${flag}=${value}\n`);
    }
    await writeFile(file, text);
  }

  async edit(file: string, change: (text: string) => string): Promise<void> {
    await writeFile(this.below(file), change(await readFile(this.below(file), 'utf8')));
  }

  /** Does `act`, and puts all files of the machine back. */
  async restoring(act: () => Promise<void>): Promise<void> {
    const kept = join(this.machine.root, 'kept');
    const places = ['etc', 'var/lib/kubelet'];
    for (const place of places) await cp(this.below(place), join(kept, place), { recursive: true });
    try {
      await act();
    } finally {
      for (const place of places) {
        await rm(this.below(place), { recursive: true });
        await cp(join(kept, place), this.below(place), { recursive: true });
      }
      await rm(kept, { recursive: true });
    }
  }

  // --- processes

  async restart(name: Started): Promise<void> {
    if (name === 'kube-controller-manager') return this.startsAndSays(name, 'all resource monitors have synced');
    await this.running.stop(name);
    await this.running.startComponent(name);
    if (name === 'kube-apiserver') await this.ready();
  }

  async ready(): Promise<void> {
    await eventually(async () => expect((await this.running.asAdmin('get', '--raw=/readyz')).stdout).toBe('ok'));
  }

  /** Starts it, and waits until its log, or that of another one, says this. */
  async startsAndSays(name: Started, text: string, by: Started = name): Promise<void> {
    await this.running.stop(name);
    const [begin, other] = [this.#length(name), this.#length(by)];
    await this.running.startComponent(name);
    await this.says(by, text, by === name ? begin : other);
  }

  #length(name: string): number {
    return this.running.processes.get(name)?.log().length ?? 0;
  }

  /** Versions begin the same line with a capital or not. */
  async says(name: string, text: string, begin = 0): Promise<void> {
    const process = this.running.processes.get(name);
    const said = (): boolean | undefined => process?.log().slice(begin).toLowerCase().includes(text.toLowerCase());
    await eventually(() => expect(said(), process?.logTail(5)).toBe(true));
  }

  /**
   * A kube-scheduler at the kubelet's port, with the kubelet's files: a kubelet serves, and authenticates its clients,
   * with the same library.
   */
  async startKubeletServer(clientAuthority = this.machine.path('pki/ca.crt')): Promise<void> {
    await this.running.processes.get('kubelet')?.kill();
    const pki = this.below(`${kubeletDir}/pki`);
    this.running.start('kubelet', [
      this.#scheduler,
      `--kubeconfig=${this.machine.path('super-admin.conf')}`,
      `--authentication-kubeconfig=${this.machine.path('super-admin.conf')}`,
      `--authorization-kubeconfig=${this.machine.path('super-admin.conf')}`,
      '--leader-elect=false',
      '--secure-port=10250',
      `--bind-address=${advertiseAddress}`,
      `--tls-cert-file=${pki}/kubelet.crt`,
      `--tls-private-key-file=${pki}/kubelet.key`,
      `--client-ca-file=${clientAuthority}`,
      '--authentication-skip-lookup=true',
    ]);
    await eventually(async () =>
      expect((await this.curl('-k', `https://${advertiseAddress}:10250/healthz`)).code).toBe(0),
    );
  }

  /** A TLS server that is no component. */
  async startServer(port: number, cert: string, key: string): Promise<void> {
    const at = `${advertiseAddress}:${port}`;
    await this.running.processes.get('server')?.kill();
    this.running.start('server', ['openssl', 's_server', '-www', '-accept', at, '-cert', cert, '-key', key]);
    await eventually(async () => expect((await this.curl('-k', `https://${at}/`)).code).toBe(0));
  }

  curl(...args: readonly string[]): Promise<Outcome> {
    return this.running.inNetwork('curl', '-sS', '--max-time', '10', ...args);
  }

  // --- what is verified

  /** `verify` on this machine, with its /etc and /var. */
  async verify(
    ...args: readonly string[]
  ): Promise<{ readonly rows: readonly RelationSight[]; readonly code: number }> {
    const { stdout, stderr, code } = await runOn(this.machine, 'verify', '-o', 'json', ...args);
    expect(stdout, stderr).not.toBe('');
    return { rows: (JSON.parse(stdout) as { relations: RelationSight[] }).relations, code };
  }

  /** The same in the network of this machine, where its API server answers. */
  async verifyWithApi(
    kubeconfig = 'super-admin.conf',
  ): Promise<{ readonly rows: readonly RelationSight[]; readonly notes: readonly string[] }> {
    const script = 'mount --bind "$0/etc" /etc && mount --bind "$0/var" /var && exec "$@"';
    const command = ['sh', '-c', script, this.machine.root, process.execPath, program];
    const flags = ['verify', '-o', 'json', `--kubeconfig=/etc/kubernetes/${kubeconfig}`];
    const { stdout, stderr } = await this.running.inNetwork('unshare', '--mount', ...unseen, ...command, ...flags);
    expect(stdout, stderr).not.toBe('');
    const { relations, notes } = JSON.parse(stdout) as { relations: RelationSight[]; notes: string[] };
    return { rows: relations, notes };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.running[Symbol.asyncDispose]();
  }
}

/** The relations with a row of this verdict. */
export const idsOf = (rows: readonly RelationSight[], verdict: string): readonly string[] => [
  ...new Set(rows.flatMap((row) => (row.verdict === verdict ? [row.relation] : []))),
];
