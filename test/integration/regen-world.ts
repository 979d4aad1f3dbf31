// What the regen tests share: one inventory whose location lies in the API of a real control plane, a way to make all of
// it expire, and a record of every generation that the API has ever shown.
import { systemClock } from '../../lib/clock.ts';
import type { Resolved, ResolvedArtefact } from '../../lib/inventory/model.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import type { KubeConnection } from '../../lib/kube/kube.ts';
import { createLog } from '../../lib/log.ts';
import { createKeyPool } from '../../lib/pki/key-pool.ts';
import { runRegen } from '../../lib/regen/run.ts';
import type { RegenOptions } from '../../lib/regen/run.ts';
import type { RegenReport } from '../../lib/regen/journal.ts';
import { createApiStore } from '../../lib/store/api-store.ts';
import type { Store } from '../../lib/store/store.ts';
import type { ControlPlane } from '../support/cluster/control-plane.ts';

const day = 24 * 3_600_000;

export const namespace = 'regen-test';

/** One signer, one bundle, one serving leaf: the thinnest slice that a kube-apiserver can serve. */
export const slice: Resolved = {
  name: 'slice',
  artefacts: [
    {
      kind: 'signer',
      name: 'serving-signer',
      location: { kind: 'secret', namespace, name: 'serving-signer' },
      readers: [],
      validity: 60 * day,
      refresh: 30 * day,
    },
    {
      kind: 'caBundle',
      name: 'serving-ca',
      location: { kind: 'configMap', namespace, name: 'serving-ca' },
      readers: [],
      signers: ['serving-signer'],
    },
    {
      kind: 'target',
      name: 'serving',
      location: { kind: 'secret', namespace, name: 'serving' },
      readers: [],
      issuer: 'serving-signer',
      usage: 'serving',
      organizations: [],
      hostnames: ['127.0.0.1', 'kubernetes', 'localhost'],
      validity: 30 * day,
      refresh: 15 * day,
    },
  ],
};

/** The rows whose location is in the API. */
export function apiRows({ name, artefacts }: Resolved): Resolved {
  return {
    name,
    artefacts: artefacts.filter(({ location }) => location.kind === 'secret' || location.kind === 'configMap'),
  };
}

export interface LogLine {
  readonly event: string;
  readonly [field: string]: unknown;
}

/** A single run by the machine's clock, unless said otherwise. */
export function regenOptions(given: Pick<RegenOptions, 'resolved' | 'store'> & Partial<RegenOptions>): RegenOptions {
  return {
    policy: { kind: 'OnlyWhenExpired', graceMs: 60_000, settleMs: 1000 },
    clockFacts: () => ({ builtAt: new Date('2025-01-01T00:00:00Z'), synchronised: true }),
    clock: systemClock,
    log: createLog({ write: () => undefined }),
    keyPool: createKeyPool({ algorithm: { name: 'RSA', bits: 2048 }, size: 32 }),
    once: true,
    dryRun: false,
    signal: AbortSignal.timeout(240_000),
    ...given,
  };
}

/** One regen process's worth: a connection and a store of its own. */
export class Actor implements AsyncDisposable {
  readonly connection: KubeConnection;
  readonly store: Store;
  readonly lines: LogLine[] = [];
  readonly #resolved: Resolved;

  constructor(connection: KubeConnection, resolved: Resolved) {
    this.connection = connection;
    this.store = createApiStore({ connection, fieldManager: 'kube-cert-recovery' });
    this.#resolved = resolved;
  }

  static async start(controlPlane: Pick<ControlPlane, 'recoveryKubeconfig'>, resolved: Resolved): Promise<Actor> {
    const kubeconfigFile = controlPlane.recoveryKubeconfig;
    return new Actor(await openConnection({ kubeconfigFile, clock: systemClock, userAgent: 'test' }), resolved);
  }

  run(more: Partial<RegenOptions> = {}): Promise<RegenReport> {
    const log = createLog({ level: 'debug', write: (line) => this.lines.push(JSON.parse(line) as LogLine) });
    return runRegen(regenOptions({ resolved: this.#resolved, store: this.store, log, ...more }));
  }

  events(event: string): string[] {
    return this.lines.filter((line) => line.event === event).map((line) => String(line['artefact']));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.connection.close();
  }
}

interface Listed {
  readonly metadata: { readonly resourceVersion: string };
}

interface Changed {
  readonly metadata: { readonly name: string; readonly resourceVersion: string };
}

/** How many generations of each object the API shows from `start` to `stop`: by watches, so none is missed. */
export class Generations {
  readonly seen = new Map<string, string[]>();
  readonly #stop = new AbortController();
  readonly #watches: Promise<void>[] = [];

  static async start({ connection }: Actor, within = namespace): Promise<Generations> {
    const generations = new Generations();
    const { signal } = generations.#stop;
    for (const resource of ['secrets', 'configmaps']) {
      const path = `/api/v1/namespaces/${within}/${resource}`;
      const { metadata } = await connection.request<Listed>({ method: 'GET', path, signal });
      const query = `${path}?watch=true&resourceVersion=${metadata.resourceVersion}`;
      generations.#watches.push(generations.#watch(connection, query));
    }
    return generations;
  }

  async #watch(connection: KubeConnection, path: string): Promise<void> {
    const { signal } = this.#stop;
    try {
      for await (const { object } of connection.watch(path, { silenceMs: 60_000, signal })) {
        const { name, resourceVersion } = (object as Changed).metadata;
        this.seen.set(name, [...(this.seen.get(name) ?? []), resourceVersion]);
      }
    } catch (err) {
      if (!signal.aborted) throw err;
    }
  }

  /** Ends the watches as they are. */
  async close(): Promise<void> {
    this.#stop.abort();
    await Promise.all(this.#watches);
  }

  /** Ends when the watches have shown what `marker` writes last. */
  async stop(marker: () => Promise<string>): Promise<ReadonlyMap<string, readonly string[]>> {
    const last = await marker();
    while (!this.seen.has(last)) await systemClock.sleep(10);
    this.seen.delete(last);
    await this.close();
    return this.seen;
  }
}

export function artefact(resolved: Resolved, name: string): ResolvedArtefact {
  const found = resolved.artefacts.find((row) => row.name === name);
  if (found === undefined) throw new Error(`no artefact ${name}`);
  return found;
}
