// The whole story on real components and with the built program: `init render`, a control plane started from what it
// wrote, `init`, then regen and syncer as the program runs them. It can be switched off, made to expire, and switched on.
import { spawn, execFile, type ChildProcess } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { systemClock } from '../../../lib/clock.ts';
import type { RenderOutcome } from '../../../lib/install/render.ts';
import type { Resolved, ResolvedArtefact } from '../../../lib/inventory/model.ts';
import { loadPreset } from '../../../lib/inventory/preset.ts';
import { resolve } from '../../../lib/inventory/resolve.ts';
import { openConnection } from '../../../lib/kube/connection.ts';
import type { KubeConnection } from '../../../lib/kube/kube.ts';
import { publish } from '../../../lib/publish/writer.ts';
import { createApiStore } from '../../../lib/store/api-store.ts';
import { createDiskStore } from '../../../lib/store/disk-store.ts';
import { createStore, locationText, type Material, type Store } from '../../../lib/store/store.ts';
import { createAuthority, createLeaf } from '../certificates/certificates.ts';
import { componentNames, serviceAddress, type ComponentName } from './components.ts';
import { type ControlPlane, startControlPlane } from './control-plane.ts';
import { expire } from './expire.ts';
import { choosePorts } from './preparation.ts';
import { registerSampleApi } from './sample-api.ts';

export const executable = fileURLToPath(new URL('../../../dist/kube-cert-recovery', import.meta.url));
const run = promisify(execFile);

/** One log line of the program, with the time at which it came (milliseconds, performance.now()). */
export interface Line {
  readonly at: number;
  readonly event: string;
  readonly fields: Readonly<Record<string, string | number | undefined>>;
}

/** One running program; its log lines are kept. */
export class Tool {
  readonly lines: Line[] = [];
  readonly ended: Promise<number | null>;
  readonly #child: ChildProcess;

  constructor(args: readonly string[], onLine?: (line: Line) => void) {
    this.#child = spawn(executable, args, { stdio: ['ignore', 'ignore', 'pipe'] });
    const { stderr } = this.#child;
    if (stderr === null) throw new Error('no standard error');
    createInterface(stderr).on('line', (text) => {
      const at = performance.now();
      const { event, ...fields } = parseLine(text);
      const line = { at, event, fields };
      this.lines.push(line);
      onLine?.(line);
    });
    const kill = (): void => void this.#child.kill('SIGKILL');
    process.once('exit', kill);
    this.ended = new Promise((done) => {
      this.#child.once('close', (code) => {
        process.off('exit', kill);
        done(code);
      });
    });
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> {
    this.#child.kill(signal);
    return this.ended;
  }
}

/** What is no log line is what Node says when the program crashes. */
function parseLine(text: string): { event: string } & Line['fields'] {
  if (!text.startsWith('{')) return { event: 'stderr', text };
  return JSON.parse(text) as { event: string } & Line['fields'];
}

export interface WorldOptions {
  readonly components?: readonly ComponentName[];
  /** Told what is being done, when it takes time. */
  readonly say?: (text: string) => void;
  readonly keyAlgorithm?: string;
  /** Of etcd (control-plane.ts). Default: true. */
  readonly unsafeNoFsync?: boolean;
}

export const isRecovery = ({ name }: Pick<ResolvedArtefact, 'name'>): boolean => name.startsWith('localhost-recovery');

export class RecoveryWorld implements AsyncDisposable {
  readonly root: string;
  readonly out: string;
  readonly resolved: Resolved;
  readonly rendered: RenderOutcome;
  readonly controlPlane: ControlPlane;
  readonly #connections: KubeConnection[] = [];
  readonly #tools: Tool[] = [];

  private constructor(root: string, parts: Pick<RecoveryWorld, 'resolved' | 'rendered' | 'controlPlane'>) {
    this.root = root;
    this.out = join(root, 'out');
    this.resolved = parts.resolved;
    this.rendered = parts.rendered;
    this.controlPlane = parts.controlPlane;
  }

  /** A healthy control plane, `init` done, our program not yet running. */
  static async create({
    components = componentNames,
    say = () => undefined,
    unsafeNoFsync = true,
  }: WorldOptions = {}): Promise<RecoveryWorld> {
    const root = await mkdtemp(join(tmpdir(), 'recovery-'));
    const ports = await choosePorts();
    const pkiDir = join(root, 'pki');
    const settings = join(root, 'settings.yaml');
    const inventory = [`--config=${settings}`];
    const place = [`--out=${join(root, 'out')}`, `--server=https://127.0.0.1:${ports.apiserver}`];
    say('init render: the first generation as files');
    await mkdir(join(pkiDir, 'etcd'), { recursive: true });
    await writeFile(settings, settingsYaml(root, pkiDir));
    const { stdout } = await run(executable, ['init', 'render', ...inventory, ...place, '--output=json']);
    const rendered = JSON.parse(stdout) as RenderOutcome;
    const sample = await createLeaf(
      join(root, 'sample'),
      await createAuthority(join(root, 'sample-ca'), { commonName: 'sample' }),
      {
        commonName: 'sample-apiserver.default.svc',
        dnsNames: ['sample-apiserver.default.svc'],
        usages: ['serverAuth'],
      },
    );
    const bundle = join(root, 'out/certs/configmaps/kube-apiserver-server-ca/ca-bundle.crt');
    const recovery = join(root, 'recovery.kubeconfig');
    say(`starting ${components.join(', ')}`);
    const controlPlane = await startControlPlane({
      components,
      unsafeNoFsync,
      ownPki: false,
      trust: { servingCa: bundle, recoveryCa: bundle },
      ports,
      directory: root,
      restarts: 50,
      flags: {
        ...rendered.flags,
        'sample-apiserver': {
          ...pick(rendered.flags['kube-apiserver'], 'etcd-cafile', 'etcd-certfile', 'etcd-keyfile'),
          'tls-cert-file': sample.cert,
          'tls-private-key-file': sample.key,
          kubeconfig: recovery,
          'authentication-kubeconfig': recovery,
          'authorization-kubeconfig': recovery,
        },
      },
    });
    const resolved = resolve(loadPreset('kubernetes'), {
      parameters: { apiServerHostnames: ['127.0.0.1'], serviceIP: [serviceAddress] },
      directories: { pkiDir },
    });
    const world = new RecoveryWorld(root, { resolved, rendered, controlPlane });
    say('init: objects, identities and rights into the API');
    await run(executable, ['init', ...inventory, ...place, `--kubeconfig=${controlPlane.recoveryKubeconfig}`]);
    if (components.includes('sample-apiserver')) {
      await registerSampleApi(controlPlane, join(dirname(sample.cert), '../sample-ca/tls.crt'));
    }
    return world;
  }

  get configFile(): string {
    return join(this.out, 'config.yaml');
  }

  get certs(): string {
    return join(this.out, 'certs');
  }

  /** regen and syncer in one process, as config.yaml says; or with other arguments. */
  startTool(args: readonly string[] = [], onLine?: (line: Line) => void): Tool {
    const tool = new Tool([`--config=${this.configFile}`, ...args], onLine);
    this.#tools.push(tool);
    return tool;
  }

  /** What a machine does before its control plane starts: the files that the API cannot heal. */
  async healHost(onLine?: (line: Line) => void): Promise<void> {
    const flags = ['--mode=regen', '--once', '--locations=disk', `--config=${this.configFile}`];
    const code = await new Tool(flags, onLine).ended;
    if (code !== 0) throw new Error(`regen of the host's files ended with exit code ${code}`);
  }

  /** `status` as an administrator. */
  async status(...args: readonly string[]): Promise<{ code: number; stdout: string }> {
    const all = [
      'status',
      `--config=${this.configFile}`,
      `--kubeconfig=${this.controlPlane.recoveryKubeconfig}`,
      ...args,
    ];
    return run(executable, all).then(
      ({ stdout }) => ({ code: 0, stdout }),
      (err: { code: number; stdout: string; stderr: string }) => {
        if (err.stdout === '') throw new Error(`status: ${err.stderr}`);
        return { code: err.code, stdout: err.stdout };
      },
    );
  }

  /** An administrator's view of every location. */
  async adminStore(): Promise<Store> {
    const kubeconfigFile = this.controlPlane.recoveryKubeconfig;
    const connection = await openConnection({ kubeconfigFile, clock: systemClock, userAgent: 'test' });
    this.#connections.push(connection);
    return createStore({ api: createApiStore({ connection, fieldManager: 'test' }), disk: createDiskStore() });
  }

  /** Everything but localhost-recovery has ended an hour ago, in the API and on disk. The program must not run. */
  async expireAll(except: (artefact: ResolvedArtefact) => boolean = isRecovery): Promise<void> {
    const store = await this.adminStore();
    const material = await expire({ resolved: this.resolved, store, now: systemClock.now(), except });
    await publishMaterial(this.certs, this.resolved, material);
  }

  /** The file that readers use for one entry of an artefact. */
  file(name: string, key: string): string {
    const artefact = this.resolved.artefacts.find((one) => one.name === name);
    if (artefact === undefined) throw new Error(`no artefact ${name}`);
    const { location } = artefact;
    if (location.kind === 'pemPair') return key === 'tls.crt' ? location.certFile : location.keyFile;
    if (location.kind === 'keyFiles') return location[key === 'sa.key' ? 'privateKeyFile' : 'publicKeyFile'];
    if (location.kind === 'field') throw new Error(`${name} is in no file`);
    if (location.kind !== 'secret' && location.kind !== 'configMap') return location.file;
    return join(this.certs, location.kind === 'secret' ? 'secrets' : 'configmaps', location.name, key);
  }

  read(name: string, key = 'tls.crt'): Promise<string> {
    return readFile(this.file(name, key), 'utf8');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#tools.map((tool) => tool.stop('SIGKILL')));
    await Promise.all(this.#connections.map((connection) => connection.close()));
    await this.controlPlane[Symbol.asyncDispose]();
    await rm(this.root, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** As the syncer does. */
export async function publishMaterial(
  certs: string,
  { artefacts }: Resolved,
  material: ReadonlyMap<string, Material>,
): Promise<void> {
  for (const { name, location, published } of artefacts) {
    const made = material.get(name);
    if (published === undefined || made === undefined || !('namespace' in location)) continue;
    const kind = location.kind === 'secret' ? 'secrets' : 'configmaps';
    await publish({
      directory: join(certs, kind, location.name),
      what: locationText(location),
      entries: made.entries,
      mode: location.kind === 'secret' ? 0o600 : 0o644,
      now: () => systemClock.now(),
    });
  }
}

/** What an administrator says of this cluster; nothing outside of `root` is touched. */
const settingsYaml = (root: string, pkiDir: string): string => `apiVersion: kube-cert-recovery/v1alpha1
kind: Configuration
preset: kubernetes
parameters:
  apiServerHostnames: [127.0.0.1]
  serviceIP: [${serviceAddress}]
directories: { pkiDir: ${pkiDir} }
regen: { backupDir: ${root}/backups, lockDir: ${root}/lock }
`;

function pick<T>(from: Readonly<Record<string, T>> | undefined, ...names: readonly string[]): Record<string, T> {
  return Object.fromEntries(Object.entries(from ?? {}).filter(([name]) => names.includes(name)));
}
