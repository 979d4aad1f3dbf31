// A real control plane for tests and the demo: etcd and kube-apiserver, on request also kube-controller-manager,
// kube-scheduler and sample-apiserver, as child processes on 127.0.0.1. It stays where it is when it is stopped
// (same directory, same ports) and goes away, processes and files, when it is disposed of.
//
// The API server also serves the name localhost-recovery, with a certificate of its own CA, so that admin requests work
// whatever state the other certificates are in.
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { apiRequest, type ApiRequest, type ApiResponse } from './api-client.ts';
import { findBinaries } from './binaries.ts';
import { flagArguments, portNames, type BinaryName, type ComponentName, type Flags, type Ports } from './components.ts';
import { prepare, type Prepared } from './preparation.ts';
import { SupervisedProcess } from './process.ts';

export interface ControlPlaneOptions {
  /** Default: etcd and kube-apiserver. They are started in the order of componentNames. */
  readonly components?: readonly ComponentName[];
  /** Added to, or in place of, the library's flags. undefined removes a flag. */
  readonly flags?: Partial<Readonly<Record<ComponentName, Flags>>>;
  /**
   * false: no certificate is made, `flags` name them all and `trust` says what to trust. Default: true.
   */
  readonly ownPki?: boolean;
  /** With `ownPki: false`: CA files for the API server's usual names and for localhost-recovery. */
  readonly trust?: { readonly servingCa: string; readonly recoveryCa: string };
  /** An existing or new directory, kept at the end; a control plane that lived there goes on. Default: a temporary one. */
  readonly directory?: string;
  /** From choosePorts(), for who must know them before the start. */
  readonly ports?: Ports;
  /** How often a component that ends by itself is started again, like a kubelet does. Default: never. */
  readonly restarts?: number;
  /**
   * etcd without fsync: what a machine does only where the power never goes. A disk that others write to holds it up for
   * seconds, and who leads ends by that. Default: true.
   */
  readonly unsafeNoFsync?: boolean;
  /** kube-apiserver notes every request, its sender and its answer (see audit.ts). */
  readonly audit?: boolean;
  /** Start it at once and wait until it is ready. Default: true. */
  readonly start?: boolean;
}

const readyWithinMs = 300_000;

const isServer = (name: ComponentName): boolean => name === 'etcd' || name === 'kube-apiserver';

export class ControlPlane implements AsyncDisposable {
  readonly #prepared: Prepared;
  readonly #options: ControlPlaneOptions;
  readonly #binaries: ReadonlyMap<BinaryName, string>;
  readonly #processes = new Map<ComponentName, SupervisedProcess>();

  constructor(prepared: Prepared, options: ControlPlaneOptions, binaries: ReadonlyMap<BinaryName, string>) {
    this.#prepared = prepared;
    this.#options = options;
    this.#binaries = binaries;
  }

  get directory(): string {
    return this.#prepared.directory;
  }

  get ports(): Ports {
    return this.#prepared.ports;
  }

  /** Port of kube-apiserver. */
  get port(): number {
    return this.ports.apiserver;
  }

  get url(): string {
    return `https://127.0.0.1:${this.port}`;
  }

  /** Token of a member of system:masters, good as long as the API server knows --token-auth-file. */
  get adminToken(): string {
    return this.#prepared.adminToken;
  }

  /** Verifies the usual serving certificate: fails when that has expired. */
  get adminKubeconfig(): string {
    return this.#prepared.adminKubeconfig;
  }

  /** The same admin by the name localhost-recovery. */
  get recoveryKubeconfig(): string {
    return this.#prepared.recoveryKubeconfig;
  }

  /** CA file for the API server's usual names. */
  get servingCa(): string {
    return this.#prepared.servingCa;
  }

  /** CA file for the name localhost-recovery. */
  get recoveryCa(): string {
    return this.#prepared.recoveryCa;
  }

  /** The library's own certificates; throws when it was told not to make any. */
  get pki(): NonNullable<Prepared['pki']> {
    if (this.#prepared.pki === undefined) throw new Error('This control plane was started with ownPki: false');
    return this.#prepared.pki;
  }

  get components(): readonly ComponentName[] {
    return this.#prepared.components;
  }

  /** The flags a component is started with. */
  flags(name: ComponentName): Flags {
    return this.#prepared.flags[name];
  }

  logFile(name: ComponentName): string {
    return join(this.directory, 'logs', `${name}.log`);
  }

  /** The running process of a component. */
  process(name: ComponentName): SupervisedProcess {
    const found = this.#processes.get(name);
    if (found === undefined) throw new Error(`${name} is not running: components are ${this.components.join(', ')}`);
    return found;
  }

  /** Ids of all running processes. */
  pids(): number[] {
    return [...this.#processes.values()].flatMap(({ pid }) => (pid === undefined ? [] : [pid]));
  }

  /**
   * Starts what is not running: clients of the API once it is ready. With `wait: false` all at once, as a machine that is
   * switched on does, without waiting for any; clients that are too early end, so ask for restarts.
   */
  async start({ wait = true }: { readonly wait?: boolean } = {}): Promise<void> {
    const absent = this.components.filter((name) => !this.#processes.has(name));
    for (const name of absent.filter(isServer)) this.startComponent(name);
    if (wait) await this.ready();
    for (const name of absent.filter((each) => !isServer(each))) this.startComponent(name);
    if (wait) await this.ready();
  }

  /** SIGTERM to all, users before what they use; SIGKILL to what does not go. Files stay. */
  async stop(): Promise<void> {
    for (const name of this.components.toReversed()) await this.stopComponent(name);
  }

  /** SIGKILL to all at once: the machine loses its power. Files stay. */
  async kill(): Promise<void> {
    await Promise.all([...this.#processes.values()].map((process) => process.kill()));
    this.#processes.clear();
  }

  async restart(): Promise<void> {
    await this.stop();
    await this.start();
  }

  startComponent(name: ComponentName): void {
    if (this.#processes.has(name)) throw new Error(`${name} is running already`);
    const command = this.#binaries.get(name);
    if (command === undefined) throw new Error(`${name} is not among the components of this control plane`);
    this.#processes.set(
      name,
      new SupervisedProcess({
        name,
        command,
        args: flagArguments(this.flags(name)),
        logFile: this.logFile(name),
        cwd: this.directory,
        restarts: this.#options.restarts ?? 0,
      }),
    );
  }

  async stopComponent(name: ComponentName): Promise<void> {
    await this.#processes.get(name)?.stop();
    this.#processes.delete(name);
  }

  async restartComponent(name: ComponentName): Promise<void> {
    await this.stopComponent(name);
    this.startComponent(name);
    await this.ready();
  }

  /** Resolves when every component that runs answers; rejects with the log of one that does not. */
  async ready(): Promise<void> {
    const deadline = performance.now() + readyWithinMs;
    for (const [name, process] of this.#processes) {
      while (!(await this.#isReady(name))) {
        for (const each of this.#processes.values()) {
          if (each.failure !== undefined) throw new Error(`${each.name} ended: ${each.failure}\n${each.logTail()}`);
        }
        if (performance.now() > deadline)
          throw new Error(`${name} is not ready after five minutes:\n${process.logTail()}`);
        await delay(25);
      }
    }
  }

  async #isReady(name: ComponentName): Promise<boolean> {
    if (name !== 'kube-apiserver') return isListening(this.ports[portNames[name]]);
    return this.admin('/readyz', { timeoutMs: 2000 }).then(
      ({ status }) => status === 200,
      () => false,
    );
  }

  /** A request as admin, by the name localhost-recovery. `admin('/api/v1/namespaces', { method: 'POST', body })`. */
  admin(path: string, request: ApiRequest = {}): Promise<ApiResponse> {
    const { adminToken: token, port, recoveryCa: caFile } = this;
    return apiRequest({ port, caFile, serverName: 'localhost-recovery', token }, path, request);
  }

  /** Standard output of kubectl as admin, by the name localhost-recovery. Rejects when it fails. */
  kubectl(...args: string[]): Promise<string> {
    return this.#kubectl(args);
  }

  /** kubectl apply -f - of a manifest (YAML or JSON). */
  apply(manifest: string): Promise<string> {
    return this.#kubectl(['apply', '-f', '-'], manifest);
  }

  get kubectlCommand(): string {
    return this.#binaries.get('kubectl') ?? 'kubectl';
  }

  #kubectl(args: readonly string[], input = ''): Promise<string> {
    const command = this.kubectlCommand;
    const env = { ...process.env, KUBECONFIG: this.recoveryKubeconfig, KUBECACHEDIR: join(this.directory, 'kubectl') };
    return new Promise((resolve, reject) => {
      const child = execFile(command, args, { env, timeout: 120_000, maxBuffer: 2 ** 26 }, (err, stdout, stderr) => {
        if (err === null) resolve(stdout);
        else reject(new Error(`kubectl ${args.join(' ')}: ${stderr.trim() || err.message}`));
      });
      child.stdin?.on('error', () => undefined); // it may end without reading
      child.stdin?.end(input);
    });
  }

  /** Ends all processes; removes the directory if it was the library's own. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    if (this.#options.directory === undefined)
      await rm(this.directory, { recursive: true, force: true, maxRetries: 5 });
  }
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' });
    const end = (answer: boolean): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.once('connect', () => end(true)).once('error', () => end(false));
  });
}

/** Starts a control plane and waits until it answers. Use it with `await using`, or dispose of it yourself. */
export async function startControlPlane(options: ControlPlaneOptions = {}): Promise<ControlPlane> {
  const components = options.components ?? ['etcd', 'kube-apiserver'];
  const binaries = await findBinaries([...components, 'kubectl']);
  const directory = options.directory ?? (await mkdtemp(join(tmpdir(), 'control-plane-')));
  await mkdir(join(directory, 'logs'), { recursive: true });
  const controlPlane = new ControlPlane(await prepare(directory, { ...options, components }), options, binaries);
  await writeFile(join(directory, 'ports.json'), JSON.stringify(controlPlane.ports));
  try {
    if (options.start !== false) await controlPlane.start();
  } catch (err) {
    await controlPlane[Symbol.asyncDispose]();
    throw err;
  }
  return controlPlane;
}
