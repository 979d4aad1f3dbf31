// A kubeadm machine's files below a directory, healthy, with backups of all that it has: manifests, the kubelet's
// configuration, CAs, leaves and kubeconfigs. Made once; then one file at a time is damaged, looked at, and put back.
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { discoverEnvironment } from '../../../lib/inventory/discover/discover.ts';
import type { Resolved, ResolvedArtefact } from '../../../lib/inventory/model.ts';
import { loadPreset } from '../../../lib/inventory/preset.ts';
import { resolve } from '../../../lib/inventory/resolve.ts';
import { generateKey } from '../../../lib/pki/key.ts';
import { createKeyPool } from '../../../lib/pki/key-pool.ts';
import { signSigner } from '../../../lib/pki/sign.ts';
import { type Gathered, gather } from '../../../lib/plan/gather.ts';
import { plan } from '../../../lib/plan/plan.ts';
import type { Decision } from '../../../lib/plan/decision.ts';
import type { Plan } from '../../../lib/plan/plan.ts';
import { execute, type StepResult } from '../../../lib/regen/execute.ts';
import { createDiskStore } from '../../../lib/store/disk-store.ts';
import type { Store } from '../../../lib/store/store.ts';

export const p256 = { name: 'ECDSA', curve: 'P-256' } as const;
const day = 86_400_000;
const made = new Date('2026-06-01T00:00:00Z');
export const now = new Date(made.getTime() + 400 * day);

export const manifest = (name: string, ...flags: readonly string[]): string => `apiVersion: v1
kind: Pod
metadata:
  name: ${name}
  namespace: kube-system
spec:
  containers:
  - name: ${name}
    command:
    - ${name}
${flags.map((flag) => `    - --${flag}\n`).join('')}`;

export interface MachineLook {
  readonly resolved: Resolved;
  readonly gathered: Gathered;
  readonly plan: Plan;
}

export class DamagedMachine implements AsyncDisposable {
  readonly root: string;
  readonly #inventory = loadPreset('kubeadm');
  readonly #store: (resolved: Resolved) => Store;

  private constructor(root: string) {
    this.root = root;
    const backupDir = join(root, 'backup');
    this.#store = ({ endpoints }) => createDiskStore({ backupDir, ...(endpoints && { endpoints }), now: () => now });
  }

  static async create(): Promise<DamagedMachine> {
    const machine = new DamagedMachine(await mkdtemp(join(tmpdir(), 'damaged-')));
    const { kubernetesDir, pkiDir, kubeletDir } = machine.directories;
    for (const directory of [join(kubernetesDir, 'manifests'), join(pkiDir, 'etcd'), join(kubeletDir, 'pki')]) {
      await mkdir(directory, { recursive: true });
    }
    const pki = (name: string): string => join(pkiDir, name);
    const texts: Readonly<Record<string, string>> = {
      [join(kubernetesDir, 'manifests/kube-apiserver.yaml')]: manifest(
        'kube-apiserver',
        'advertise-address=192.0.2.10',
        'secure-port=6443',
        'service-cluster-ip-range=10.96.0.0/16',
        `client-ca-file=${pki('ca.crt')}`,
        `tls-cert-file=${pki('apiserver.crt')}`,
        `tls-private-key-file=${pki('apiserver.key')}`,
        `kubelet-client-certificate=${pki('apiserver-kubelet-client.crt')}`,
        `kubelet-client-key=${pki('apiserver-kubelet-client.key')}`,
        `requestheader-client-ca-file=${pki('front-proxy-ca.crt')}`,
        `proxy-client-cert-file=${pki('front-proxy-client.crt')}`,
        `proxy-client-key-file=${pki('front-proxy-client.key')}`,
        `etcd-cafile=${pki('etcd/ca.crt')}`,
        `etcd-certfile=${pki('apiserver-etcd-client.crt')}`,
        `etcd-keyfile=${pki('apiserver-etcd-client.key')}`,
        'etcd-servers=https://127.0.0.1:2379',
      ),
      [join(kubernetesDir, 'manifests/etcd.yaml')]: manifest(
        'etcd',
        'name=node-1',
        'listen-peer-urls=https://192.0.2.10:2380',
      ),
      [join(kubernetesDir, 'manifests/kube-controller-manager.yaml')]: manifest(
        'kube-controller-manager',
        'leader-elect=true',
      ),
      [join(kubernetesDir, 'manifests/kube-scheduler.yaml')]: manifest('kube-scheduler', 'leader-elect=true'),
      [join(kubeletDir, 'config.yaml')]: 'kind: KubeletConfiguration\nclusterDomain: cluster.local\n',
      [join(kubeletDir, 'kubeadm-flags.env')]: 'KUBELET_KUBEADM_ARGS="--hostname-override=node-1"\n',
    };
    for (const [file, text] of Object.entries(texts)) await writeFile(file, text);
    for (const [name, commonName] of [
      ['ca', 'kubernetes'],
      ['front-proxy-ca', 'front-proxy-ca'],
      ['etcd/ca', 'etcd-ca'],
    ] as const) {
      const key = await generateKey(p256);
      const dates = { notBefore: new Date(made.getTime() - day), notAfter: new Date(made.getTime() + 3650 * day) };
      await writeFile(pki(`${name}.key`), key.pem, { mode: 0o600 });
      const ca = await signSigner({ commonName, key: key.key, now: made, ...dates });
      await writeFile(pki(`${name}.crt`), ca.pem);
    }
    // Twice, so that there are backups of the first.
    await machine.repair(await machine.look(made), made);
    await machine.repair(await machine.look());
    return machine;
  }

  get directories(): Readonly<Record<'kubernetesDir' | 'pkiDir' | 'kubeletDir', string>> {
    const kubernetesDir = join(this.root, 'kubernetes');
    return { kubernetesDir, pkiDir: join(kubernetesDir, 'pki'), kubeletDir: join(this.root, 'kubelet') };
  }

  /** `known`: what discovery would find again, because nothing that it reads has changed. */
  async look(at = now, known?: Resolved): Promise<MachineLook> {
    const resolved = known ?? (await this.#discover());
    const gathered = await gather({
      resolved,
      store: this.#store(resolved),
      now: at,
      signal: AbortSignal.timeout(30_000),
    });
    const policy = { kind: 'OnlyWhenExpired', graceMs: 0, settleMs: 0 } as const;
    const clock = { builtAt: made, synchronised: true };
    return { resolved, gathered, plan: plan({ resolved, facts: gathered.facts, policy, clock, now: at }) };
  }

  async #discover(): Promise<Resolved> {
    const addresses = (): Record<string, string[]> => ({});
    const given = { directories: this.directories };
    const { environment } = await discoverEnvironment(this.#inventory, given, { addresses });
    return resolve(this.#inventory, environment);
  }

  /** Whether discovery reads it. */
  isDiscovered(file: string): boolean {
    return (
      /^(kubelet|kubernetes\/manifests)\/|\.conf$|\/(apiserver|ca)\.crt$/.test(file) && !file.startsWith('backup/')
    );
  }

  /** Carries out what a look has found to be done. */
  async repair(look: MachineLook, at = now): Promise<readonly StepResult[]> {
    const keys = createKeyPool({ algorithm: p256, size: 0 });
    const signal = AbortSignal.timeout(30_000);
    return execute({ ...look, store: this.#store(look.resolved), keys, keyAlgorithm: p256, now: at, signal });
  }

  /** The artefact that a file belongs to; undefined for one of the rest, and for a backup. */
  ownerOf(file: string, { artefacts }: Resolved): ResolvedArtefact | undefined {
    if (file.startsWith('kubelet/pki/')) return artefacts.find(({ name }) => name === 'kubelet.conf');
    const path = join(this.root, file);
    return artefacts.find(({ location }) =>
      location.kind === 'pemPair'
        ? location.certFile === path || location.keyFile === path
        : 'file' in location && location.file === path,
    );
  }

  /** Keeps all that is there; what is returned puts it back. */
  async keep(): Promise<() => Promise<void>> {
    const kept = `${this.root}-kept`;
    await cp(this.root, kept, { recursive: true, verbatimSymlinks: true });
    return async () => {
      await rm(this.root, { recursive: true });
      await cp(kept, this.root, { recursive: true, verbatimSymlinks: true });
    };
  }

  /** Path below the root of every file, links followed. */
  async files(): Promise<readonly string[]> {
    const all = await readdir(this.root, { recursive: true, withFileTypes: true });
    return all
      .flatMap((one) => (one.isFile() ? [join(one.parentPath, one.name).slice(this.root.length + 1)] : []))
      .toSorted();
  }

  read(file: string): Promise<Buffer> {
    return readFile(join(this.root, file));
  }

  write(file: string, bytes: Buffer): Promise<void> {
    return writeFile(join(this.root, file), bytes);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const path of [this.root, `${this.root}-kept`]) await rm(path, { recursive: true, force: true });
  }
}

/** Action and reason by artefact. */
export const decided = ({ decisions }: Plan): ReadonlyMap<string, string> =>
  new Map(decisions.map(({ artefact, action, reason }: Decision) => [artefact, `${action} ${reason}`]));
