// A machine of the real kubeadm on which etcd, kube-apiserver, kube-controller-manager and kube-scheduler run with their own
// manifests' flags, as processes in a network of its own, and runs of mode regen beside them.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import { systemClock } from '../../../lib/clock.ts';
import { hostManifests } from '../../../lib/install/rbac.ts';
import { loadPreset } from '../../../lib/inventory/preset.ts';
import { renewalLease } from '../../../lib/restart/machine-lease.ts';
import { parseYaml, toYaml } from '../../../lib/yaml.ts';
import { eventually } from '../eventually.ts';
import { findBinaries } from './binaries.ts';
import type { ComponentName } from './components.ts';
import { KubeadmMachine, type Outcome } from './kubeadm-machine.ts';
import { SupervisedProcess } from './process.ts';
import { unseen } from './namespaces.ts';

const program = fileURLToPath(new URL('../../../dist/app/main.mjs', import.meta.url));
export const componentNames: readonly ComponentName[] = [
  'etcd',
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
];

export interface Line {
  readonly event: string;
  readonly level: string;
  readonly artefact?: string;
  readonly component?: string;
  readonly lease?: string;
  readonly reason?: string;
  readonly message?: string;
}

export interface Run extends Outcome {
  readonly lines: readonly Line[];
}

export class RunningMachine implements AsyncDisposable {
  readonly machine: KubeadmMachine;
  readonly kubectl: string;
  readonly processes = new Map<string, SupervisedProcess>();
  readonly #binaries: ReadonlyMap<string, string>;
  /** Where the log of a component's present process begins: what an earlier one said is no news. */
  readonly #logBegins = new Map<string, number>();
  #lastRun = '';

  private constructor(machine: KubeadmMachine, binaries: ReadonlyMap<string, string>) {
    this.machine = machine;
    this.#binaries = binaries;
    this.kubectl = binaries.get('kubectl') ?? '';
  }

  /** Its files, with nothing that runs. `more`: of the ClusterConfiguration. */
  static async prepare(more = ''): Promise<RunningMachine> {
    const machine = await KubeadmMachine.create(more);
    await machine.startNetwork();
    const prepared = new RunningMachine(machine, await findBinaries([...componentNames, 'kubectl', 'kubeadm']));
    await prepared.configure({});
    return prepared;
  }

  static async create(more: string): Promise<RunningMachine> {
    const running = await RunningMachine.prepare(more);
    for (const name of componentNames) await running.startComponent(name);
    await running.leads('kube-controller-manager', 'kube-scheduler');
    return running;
  }

  get kubeadmFile(): string {
    return this.#binaries.get('kubeadm') ?? '';
  }

  get config(): string {
    return join(this.machine.root, 'recovery.yaml');
  }

  /** The configuration of the runs, with these settings in it. */
  async configure({
    regen = {},
    ...more
  }: {
    readonly regen?: object;
    readonly [field: string]: unknown;
  }): Promise<void> {
    const { machine } = this;
    const directories = {
      kubernetesDir: machine.path(),
      pkiDir: machine.path('pki'),
      kubeletDir: join(machine.root, 'var/lib/kubelet'),
    };
    const own = { backupDir: join(machine.root, 'backups'), lockDir: join(machine.root, 'lock'), renewBefore: '30d' };
    const whole = {
      apiVersion: 'kube-cert-recovery/v1alpha1',
      kind: 'Configuration',
      preset: 'kubeadm',
      directories,
      regen: { ...own, clockSynchronised: true, ...regen },
      ...more,
    };
    await writeFile(this.config, toYaml(whole));
  }

  start(name: string, command: readonly string[], restarts = 5): void {
    const logFile = join(this.machine.root, `${name}.log`);
    const args = [...this.machine.inNetwork, ...command];
    const again = { restarts, restartDelay: 200 };
    this.#logBegins.set(name, this.processes.get(name)?.log().length ?? 0);
    this.processes.set(name, new SupervisedProcess({ name, command: 'nsenter', args, logFile, ...again }));
  }

  async startComponent(name: ComponentName): Promise<void> {
    this.start(name, [this.#binaries.get(name) ?? '', ...(await this.machine.flagsOf(name))]);
  }

  async stop(name: ComponentName): Promise<void> {
    await this.processes.get(name)?.kill();
  }

  /** A kubelet, as far as restarts and proofs see it. */
  startKubelet(): void {
    this.start('kubelet', this.machine.kubeletStub(this.kubectl));
  }

  async leads(...names: readonly ComponentName[]): Promise<void> {
    for (const name of names) {
      const log = () => this.processes.get(name)?.log().slice(this.#logBegins.get(name));
      await eventually(() => expect(log()?.toLowerCase()).toContain('successfully acquired lease'));
    }
  }

  /** For the report of a failure: what the last run said, and how its components are. */
  explain(): string {
    const components = [...this.processes].map(([name, process]) => {
      const state = process.failure ?? `process ${process.pid ?? 'none'}`;
      const lines = process.logTail(3).split('\n');
      return [`${name}: ${state}, restarted ${process.restarted} times`, ...lines.map((line) => line.slice(0, 200))];
    });
    return [`last run: ${this.#lastRun}`, ...components.flat()].join('\n');
  }

  inNetwork(command: string, ...args: readonly string[]): Promise<Outcome> {
    return new Promise((resolve) => {
      execFile('nsenter', [...this.machine.inNetwork, command, ...args], (err, stdout, stderr) =>
        resolve({ stdout, stderr, code: err === null ? 0 : typeof err.code === 'number' ? err.code : -1 }),
      );
    });
  }

  asAdmin(...args: readonly string[]): Promise<Outcome> {
    return this.inNetwork(this.kubectl, `--kubeconfig=${this.machine.path('super-admin.conf')}`, ...args);
  }

  async apply(...manifests: readonly object[]): Promise<void> {
    const file = join(this.machine.root, 'apply.yaml');
    await writeFile(file, manifests.map((one) => toYaml(one)).join('---\n'));
    const applied = await this.asAdmin('apply', '-f', file);
    expect(applied.code, applied.stderr).toBe(0);
  }

  /** What `init host --renew-before` grants. Resolves when the API server knows it. */
  async grant(): Promise<void> {
    await this.apply(...hostManifests({ inventory: loadPreset('kubeadm'), renewsAhead: true }));
    await eventually(async () => expect(await this.mayRenew()).toContain('yes'));
  }

  /** The API server's word on whether this machine may take the Lease of renewals. */
  async mayRenew(): Promise<string> {
    const what = ['update', `leases.coordination.k8s.io/${renewalLease.name}`, '-n', renewalLease.namespace];
    const host = ['--as=node1', '--as-group=kube-cert-recovery:hosts'];
    return (await this.asAdmin('auth', 'can-i', ...what, ...host)).stdout;
  }

  /** The real kubeadm beside the running API server, below this machine's root, and unseen by runs of ours. */
  kubeadm(...args: readonly string[]): Promise<Outcome> {
    const own = [this.kubeadmFile, ...args, '--rootfs', this.machine.root];
    return this.inNetwork('unshare', ...unseen, ...own);
  }

  /**
   * Pods of the API for the static pods that run here as processes, as a kubelet shows them: by the hash of their manifest,
   * until the signal aborts.
   */
  async showStaticPods(signal: AbortSignal): Promise<{ readonly ended: Promise<void> }> {
    const manifest = (name: string): Promise<string> => readFile(this.machine.path(`manifests/${name}.yaml`), 'utf8');
    const shown = new Map<string, string>();
    const patch = (name: string, body: object, ...more: readonly string[]): Promise<Outcome> =>
      this.asAdmin(
        '-n',
        'kube-system',
        'patch',
        `pod/${name}-node1`,
        '--type=merge',
        `-p=${JSON.stringify(body)}`,
        ...more,
      );
    await this.apply({ apiVersion: 'v1', kind: 'Node', metadata: { name: 'node1' } });
    for (const name of componentNames) {
      const text = await manifest(name);
      const pod = parseYaml(text) as { readonly metadata: object; readonly spec: object };
      const metadata = { ...pod.metadata, name: `${name}-node1` };
      await eventually(() => this.apply({ ...pod, metadata, spec: { ...pod.spec, nodeName: 'node1' } }));
      await patch(name, { status: { phase: 'Running' } }, '--subresource=status');
    }
    const show = async (): Promise<void> => {
      for (const name of componentNames) {
        const hash = createHash('sha256')
          .update(await manifest(name).catch(() => ''))
          .digest('hex');
        if (shown.get(name) === hash) continue;
        const { code } = await patch(name, { metadata: { annotations: { 'kubernetes.io/config.hash': hash } } });
        if (code === 0) shown.set(name, hash);
      }
    };
    await show();
    const keep = async (): Promise<void> => {
      for (; !signal.aborted; await systemClock.sleep(200)) await show();
    };
    return { ended: keep() };
  }

  /** A run of the timer's service, whose standard error the journal reads (systemd.exec(5), JOURNAL_STREAM). */
  async run(...flags: readonly string[]): Promise<Run> {
    const began = new Date();
    const own = ['--mode=regen', '--once', `--config=${this.config}`, '--log-format=json'];
    const outcome = await this.runInJournal(...own, ...flags);
    const times = `${began.toISOString()} to ${new Date().toISOString()}`;
    this.#lastRun = `${times}, ${flags.join(' ')}: exit ${outcome.code}\n${outcome.stderr.slice(-2000)}`;
    const lines = outcome.stderr.trim().split('\n').filter(Boolean);
    return { ...outcome, lines: lines.map((line) => JSON.parse(line) as Line) };
  }

  runInJournal(...words: readonly string[]): Promise<Outcome> {
    const asUnit = 'JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2) exec "$@"';
    return this.inNetwork('sh', '-c', asUnit, 'sh', process.execPath, program, ...words);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const each of [...this.processes.values()].toReversed()) await each.kill();
    await this.machine[Symbol.asyncDispose]();
  }
}
