// What a kubelet does with the static pods of a machine, as far as the API shows it: for each manifest in its directory
// a mirror pod with the manifest's annotations, whose containers run; and the health of our container, on the address
// that its manifest names. Nothing is run. A test says what is not ready.
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { containerName } from '../../../lib/install/own-container.ts';
import { type PodManifest } from '../../../lib/adopt/static-pods.ts';
import { systemClock } from '../../../lib/clock.ts';
import { Health, type HealthServer, serveHealth } from '../../../lib/health.ts';
import { parseYaml } from '../../../lib/yaml.ts';
import type { ControlPlane } from './control-plane.ts';
import './health-ports.ts';

const pods = '/api/v1/namespaces/kube-system/pods';
const nodes = '/api/v1/nodes';

export interface KubeletMachine {
  readonly manifestsDir: string;
  readonly nodeName: string;
  /** Whether it answers for the health of our containers. Two machines here would answer on the same ports. Default: true. */
  readonly answers?: boolean;
}

export class FakeKubelet implements AsyncDisposable {
  readonly #health = new Map<string, Health>();
  readonly #answers: boolean;
  /** Names of containers that are not ready; also shown where that changes, and the manifest does not. */
  readonly unready = new Set<string>();
  /** Names of containers that wait, and why; also told while they do. They are not ready. */
  readonly waiting = new Map<string, string>();
  /** Whether it looks at no manifest. */
  isAsleep = false;
  readonly #plane: ControlPlane;
  readonly #manifestsDir: string;
  readonly #nodeName: string;
  readonly #seen = new Map<string, string>();
  readonly #servers = new Map<string, { readonly end: AbortController; readonly server: HealthServer }>();
  readonly #end = new AbortController();
  readonly #loop: Promise<void>;

  constructor(plane: ControlPlane, { manifestsDir, nodeName, answers = true }: KubeletMachine) {
    this.#plane = plane;
    this.#manifestsDir = manifestsDir;
    this.#nodeName = nodeName;
    this.#answers = answers;
    this.#loop = this.#run().catch((err: unknown) => console.error('the played kubelet:', err));
  }

  /** What our container in this pod says of its health. */
  healthOf(pod: string): Health {
    const health = this.#health.get(pod) ?? new Health();
    this.#health.set(pod, health);
    return health;
  }

  async #run(): Promise<void> {
    await this.#register();
    while (!this.#end.signal.aborted) {
      for (const name of this.isAsleep ? [] : await readdir(this.#manifestsDir)) {
        if (name.startsWith('.')) continue;
        const text = await readFile(join(this.#manifestsDir, name), 'utf8');
        if (this.isAsleep) break; // since it was told so, this may have been written
        if (text === '') continue; // it is being written in place, as kubeadm does
        const shown = JSON.stringify([text, [...this.waiting], [...this.unready]]);
        if (this.#seen.get(name) === shown) continue;
        await this.#show(parseYaml(text) as PodManifest);
        this.#seen.set(name, shown);
      }
      await delay(30);
    }
  }

  /** kube-controller-manager deletes the pods of a node that it has not known for a minute (its pod garbage collector). */
  async #register(): Promise<void> {
    const body = { apiVersion: 'v1', kind: 'Node', metadata: { name: this.#nodeName } };
    const { status, body: said } = await this.#plane.admin(nodes, { method: 'POST', body });
    if (status !== 201 && status !== 409) throw new Error(`No Node ${this.#nodeName}: ${JSON.stringify(said)}`);
  }

  async #show({ metadata, spec }: PodManifest, manifest = { metadata, spec } as PodManifest): Promise<void> {
    const name = `${metadata.name}-${this.#nodeName}`;
    await this.#plane.admin(`${pods}/${name}?gracePeriodSeconds=0`, { method: 'DELETE' });
    await this.#answer(metadata.name, manifest);
    const hash = createHash('md5').update(JSON.stringify(manifest)).digest('hex');
    const body = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: {
        name,
        labels: metadata['labels'],
        annotations: {
          ...metadata.annotations,
          'kubernetes.io/config.mirror': hash,
          'kubernetes.io/config.hash': hash,
        },
      },
      spec: {
        nodeName: this.#nodeName,
        hostNetwork: true,
        tolerations: [{ operator: 'Exists', effect: 'NoExecute' }],
        volumes: spec.volumes,
        containers: spec.containers.map(({ name: container, command, args, volumeMounts }) => {
          return { name: container, image: 'played', command, args, volumeMounts };
        }),
      },
    };
    const made = await this.#plane.admin(pods, { method: 'POST', body });
    if (made.status !== 201) throw new Error(`No mirror pod ${name}: ${JSON.stringify(made.body)}`);
    const containerStatuses = spec.containers.map((one) => ({
      name: one.name,
      image: 'played',
      imageID: '',
      restartCount: 0,
      ready: !this.unready.has(one.name) && !this.waiting.has(one.name),
      state: this.waiting.has(one.name) ? { waiting: { reason: this.waiting.get(one.name) } } : { running: {} },
    }));
    const status = { phase: 'Running', hostIP: '192.0.2.10', hostIPs: [{ ip: '192.0.2.10' }], containerStatuses };
    const contentType = 'application/merge-patch+json';
    await this.#plane.admin(`${pods}/${name}/status`, { method: 'PATCH', contentType, body: { status } });
  }

  async #answer(pod: string, manifest: PodManifest): Promise<void> {
    const before = this.#servers.get(pod);
    before?.end.abort();
    await before?.server.closed;
    this.#servers.delete(pod);
    const own = manifest.spec.containers.find(({ name }) => name === containerName);
    const probe = own?.['livenessProbe'] as { readonly httpGet: { readonly host: string; readonly port: number } };
    if (own === undefined || !this.#answers) return;
    const address = probe.httpGet;
    const health = this.healthOf(pod);
    const end = new AbortController();
    this.#servers.set(pod, {
      end,
      server: await serveHealth({ address, health, clock: systemClock, signal: end.signal }),
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#end.abort();
    await this.#loop;
    for (const { end, server } of this.#servers.values()) {
      end.abort();
      await server.closed;
    }
    for (const name of this.#seen.keys()) {
      const path = `${pods}/${name.replace(/\.yaml$/, '')}-${this.#nodeName}`;
      await this.#plane.admin(`${path}?gracePeriodSeconds=0`, { method: 'DELETE' });
    }
  }
}
