// A control-plane node of kubeadm as files below a directory, made by the real kubeadm, which takes that directory for
// its root. Programs that look at it run in a network of their own, where nothing answers unless a test starts it there.
import { execFile, spawn, type ChildProcess } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findBinaries } from './binaries.ts';
import { guard } from './process.ts';
import { asRoot, unseen } from './namespaces.ts';

export const advertiseAddress = '192.0.2.10';

const program = fileURLToPath(new URL('../../../dist/app/main.mjs', import.meta.url));

const configuration = (version: string, more: string): string => `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: { advertiseAddress: ${advertiseAddress}, bindPort: 6443 }
nodeRegistration: { name: node1 }
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: ${version}
${more.includes('encryptionAlgorithm') ? '' : 'encryptionAlgorithm: ECDSA-P256'}
${more}
`;

export interface Outcome {
  readonly stdout: string;
  readonly stderr: string;
  readonly code: number;
}

function run(command: string, args: readonly string[]): Promise<Outcome> {
  return new Promise((resolve) => {
    execFile(command, args, { maxBuffer: 1 << 24 }, (err, stdout, stderr) => {
      const code = err === null ? 0 : typeof err.code === 'number' ? err.code : -1;
      resolve({ stdout, stderr: `${stderr}${code === -1 ? err?.message : ''}`, code });
    });
  });
}

export class KubeadmMachine implements AsyncDisposable {
  readonly root: string;
  readonly #kubeadm: string;
  /** Addresses by the interface that has them, the one with the default route first. Without any its network is down. */
  interfaces: Readonly<Record<string, string>> = {};
  #network: ChildProcess | undefined;

  private constructor(root: string, kubeadm: string) {
    this.root = root;
    this.#kubeadm = kubeadm;
  }

  static async create(more = ''): Promise<KubeadmMachine> {
    const kubeadm = (await findBinaries(['kubeadm'])).get('kubeadm');
    if (kubeadm === undefined) throw new Error('no kubeadm');
    const machine = new KubeadmMachine(await mkdtemp(join(tmpdir(), 'kubeadm-machine-')), kubeadm);
    const version = (await run('unshare', [...asRoot, ...unseen, kubeadm, 'version', '-o', 'short'])).stdout.trim();
    await mkdir(join(machine.root, 'tmp'));
    await writeFile(join(machine.root, 'config.yaml'), configuration(version, more));
    const phases = [
      'certs all',
      'kubeconfig all',
      'control-plane all',
      ...(more.includes('external') ? [] : ['etcd local']),
    ];
    for (const phase of phases) await machine.kubeadmDone('init', 'phase', ...phase.split(' '));
    return machine;
  }

  /** One whose files are there already. */
  static async at(root: string): Promise<KubeadmMachine> {
    return new KubeadmMachine(root, (await findBinaries(['kubeadm'])).get('kubeadm') ?? '');
  }

  /** Another one with the same files. */
  async copy(): Promise<KubeadmMachine> {
    const root = await mkdtemp(join(tmpdir(), 'kubeadm-machine-'));
    await cp(this.root, root, { recursive: true, verbatimSymlinks: true });
    return new KubeadmMachine(root, this.#kubeadm);
  }

  /** Below /etc/kubernetes. */
  path(...names: readonly string[]): string {
    return join(this.root, 'etc/kubernetes', ...names);
  }

  kubeadm(...args: readonly string[]): Promise<Outcome> {
    const own = [this.#kubeadm, ...args, '--config', '/config.yaml', '--rootfs', this.root];
    return run('unshare', [...asRoot, '--net', ...unseen, ...own]);
  }

  async kubeadmDone(...args: readonly string[]): Promise<string> {
    const { stdout, stderr, code } = await this.kubeadm(...args);
    if (code !== 0) throw new Error(`kubeadm ${args.join(' ')}: ${stderr}`);
    return stdout;
  }

  /** Where its directories are, for the program that looks at them from outside. */
  get directories(): Readonly<Record<string, string>> {
    return {
      kubernetesDir: this.path(),
      pkiDir: this.path('pki'),
      kubeletDir: join(this.root, 'var/lib/kubelet'),
    };
  }

  /** Path of a configuration for these files, with backups and lock below the root, which it writes. */
  async configuration(directories = this.directories): Promise<string> {
    const file = join(this.root, 'recovery.yaml');
    const regen = { backupDir: join(this.root, 'backups'), lockDir: join(this.root, 'lock') };
    await writeFile(
      file,
      'apiVersion: kube-cert-recovery/v1alpha1\nkind: Configuration\npreset: kubeadm\n' +
        `directories: ${JSON.stringify(directories)}\nregen: ${JSON.stringify(regen)}\n`,
    );
    return file;
  }

  /** `kube-cert-recovery --mode=regen --once` for these files, where no API server answers. */
  async regen(directories = this.directories): Promise<Outcome> {
    const own = [program, '--mode=regen', '--once', `--config=${await this.configuration(directories)}`];
    return run('unshare', [...asRoot, '--net', ...unseen, ...this.#withInterfaces, process.execPath, ...own]);
  }

  /** `kube-cert-recovery status` for these files. */
  status(...args: readonly string[]): Promise<Outcome> {
    const directories = Object.entries(this.directories).map(([name, path]) => `--directory=${name}=${path}`);
    const own = [process.execPath, program, 'status', '--preset=kubeadm', ...directories, ...args];
    return this.#network === undefined
      ? run('unshare', [...asRoot, '--net', ...this.#withInterfaces, ...own])
      : run('nsenter', [...this.inNetwork, ...own]);
  }

  /** A command that gives its network the interfaces; another one follows. Kernels differ in the kinds that they know. */
  get #withInterfaces(): readonly string[] {
    const all = Object.entries(this.interfaces).map(
      ([name, address]) =>
        `(ip link add ${name} type dummy || ip link add ${name} type ifb) 2>/dev/null && ip link set ${name} up && ` +
        `ip address add ${address}/24 dev ${name}`,
    );
    if (all.length === 0) return [];
    const [first = ''] = Object.keys(this.interfaces);
    const script = ['ip link set lo up', ...all, `ip route add default dev ${first}`, 'exec "$@"'].join(' && ');
    return ['sh', '-c', script, 'sh'];
  }

  /** A network of this machine's own, with its address. */
  async startNetwork(): Promise<void> {
    const ready = `ip link set lo up && ip address add ${advertiseAddress}/32 dev lo && echo ready && exec sleep 3600`;
    const network = spawn('unshare', [...asRoot, '--net', 'sh', '-c', ready], { stdio: ['ignore', 'pipe', 'inherit'] });
    const watchdog = guard(network);
    network.once('exit', () => watchdog?.kill('SIGKILL'));
    await new Promise<void>((resolve, reject) => {
      network.stdout.once('data', () => resolve());
      network.once('exit', (code) => reject(new Error(`no network of its own: exit ${code}`)));
    });
    this.#network = network;
  }

  /**
   * Arguments of nsenter; a command follows. All machines have one address, by which kubectl would know what one of them
   * serves.
   */
  get inNetwork(): readonly string[] {
    const user = asRoot.length === 0 ? [] : ['--user', '--preserve-credentials'];
    const env = ['env', `KUBECACHEDIR=${join(this.root, 'kubectl')}`];
    return [...user, '--net', '--target', String(this.#network?.pid), ...env];
  }

  /** The flags of a static pod, its paths those below this root; etcd waits for no disk that others write to. */
  async flagsOf(pod: string): Promise<readonly string[]> {
    const manifest = await readFile(this.path('manifests', `${pod}.yaml`), 'utf8');
    const flags = [...manifest.matchAll(/^ {4}- (--\S+)$/gm)].map(([, flag = '']) =>
      flag.replaceAll(/(?<==)\/(?=etc|var)/g, `${this.root}/`),
    );
    return pod === 'etcd' ? [...flags, '--unsafe-no-fsync'] : flags;
  }

  /** What counts of a kubelet: its name, its flag, and a Lease that it renews with the credential it has read. */
  kubeletStub(kubectl: string): readonly string[] {
    // To kubectl of 1.31 what begins with a brace is JSON.
    const lease = JSON.stringify({
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { name: 'node1', namespace: 'kube-node-lease' },
      spec: { holderIdentity: 'node1', renewTime: '%s' },
    }).replaceAll('"', String.raw`\"`);
    const renew = `
      own=$(mktemp -p ${this.root}); cp "\${1#--kubeconfig=}" $own
      while sleep 0.5; do
        printf "${lease}" \
          "$(date -u +%Y-%m-%dT%H:%M:%S.%6NZ)" | ${kubectl} --kubeconfig=$own apply -f -
      done`;
    const command = `exec -a kubelet bash -c '${renew}' kubelet "$0"`;
    return ['bash', '-c', command, `--kubeconfig=${this.path('kubelet.conf')}`];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#network?.kill('SIGKILL');
    await rm(this.root, { recursive: true, force: true });
  }
}
