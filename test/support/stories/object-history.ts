// Every version of every Secret and ConfigMap in some namespaces, from now on, as the API tells it by watches: none is
// missed, and what is there now needs no request.
import type { X509Certificate } from 'node:crypto';
import { systemClock } from '../../../lib/clock.ts';
import type { Resolved } from '../../../lib/inventory/model.ts';
import { openConnection } from '../../../lib/kube/connection.ts';
import type { KubeConnection } from '../../../lib/kube/kube.ts';
import type { ControlPlane } from '../cluster/control-plane.ts';
import { placeOf } from './preset-worlds.ts';
import { certificatesIn, type Contents } from './soundness.ts';

interface ApiObject {
  readonly metadata: { readonly namespace: string; readonly name: string; readonly resourceVersion: string };
  readonly data?: Readonly<Record<string, string>>;
}

type Entries = Readonly<Record<string, string>>;

const resources = { secret: 'secrets', configMap: 'configmaps' } as const;
type Kind = keyof typeof resources;

export class ObjectHistory {
  /** By place: what was there at the beginning, if anything, then what each write has made of it. */
  readonly #states = new Map<string, Entries[]>();
  readonly #absent = new Set<string>();
  readonly #connection: KubeConnection;
  readonly #stop = new AbortController();
  readonly #watches: Promise<void>[] = [];
  readonly #lists: string[] = [];
  static #count = 0;
  #isClosed = false;
  #told = 0;

  private constructor(connection: KubeConnection) {
    this.#connection = connection;
  }

  static async start(
    { recoveryKubeconfig }: Pick<ControlPlane, 'recoveryKubeconfig'>,
    namespaces: readonly string[],
  ): Promise<ObjectHistory> {
    const userAgent = 'history';
    const connection = await openConnection({ kubeconfigFile: recoveryKubeconfig, clock: systemClock, userAgent });
    const history = new ObjectHistory(connection);
    for (const namespace of namespaces) {
      await history.#follow('secret', namespace);
      await history.#follow('configMap', namespace);
    }
    return history;
  }

  /** How often that object has been written since the beginning. */
  writes(place: string): number {
    const states = this.#states.get(place) ?? [];
    return this.#absent.has(place) ? states.length : Math.max(states.length - 1, 0);
  }

  /** How many objects have been written. */
  get written(): number {
    return [...this.#states.keys()].filter((place) => this.writes(place) > 0).length;
  }

  /** When nothing has been written for so long. */
  async still(ms: number): Promise<void> {
    for (let before = -1; before !== this.#told;) {
      before = this.#told;
      await systemClock.sleep(ms);
    }
  }

  /** What is there now, by the names of that inventory. */
  contents({ artefacts }: Resolved): Contents {
    return new Map(
      artefacts.flatMap((row) => {
        const last = this.#states.get(placeOf(row))?.at(-1);
        return last === undefined ? [] : [[row.name, last] as const];
      }),
    );
  }

  /** Certificates that were in a bundle, are valid, and were taken out again. */
  lostTrust(now: Date): string[] {
    const isValid = ({ validFromDate, validToDate }: X509Certificate): boolean =>
      validFromDate <= now && now < validToDate;
    const prints = ({ 'ca-bundle.crt': pem = '' }: Entries): string[] =>
      certificatesIn(pem)
        .filter(isValid)
        .map(({ fingerprint256 }) => fingerprint256);
    return [...this.#states].flatMap(([place, states]) => {
      const sets = states.map(prints);
      const lost = sets.slice(0, -1).flatMap((set, i) => set.filter((print) => sets[i + 1]?.includes(print) !== true));
      return lost.length === 0 ? [] : [`${place}: ${lost.length} certificate(s)`];
    });
  }

  /** Ends the watches when they have shown everything that was written before this call. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const { signal } = this.#stop;
    const marker = `marker-${(ObjectHistory.#count += 1)}`;
    const body = { metadata: { name: marker } };
    await Promise.all(this.#lists.map((path) => this.#connection.request({ method: 'POST', path, body, signal })));
    const shown = (): number => [...this.#states.keys()].filter((place) => place.endsWith(`/${marker}`)).length;
    while (shown() < this.#lists.length) await systemClock.sleep(10);
    for (const place of this.#states.keys()) if (place.endsWith(`/${marker}`)) this.#states.delete(place);
    this.#stop.abort();
    await Promise.all(this.#watches);
    await this.#connection.close();
  }

  async #follow(kind: Kind, namespace: string): Promise<void> {
    const { signal } = this.#stop;
    const path = `/api/v1/namespaces/${namespace}/${resources[kind]}`;
    this.#lists.push(path);
    const { metadata, items } = await this.#connection.request<{
      readonly metadata: { readonly resourceVersion: string };
      readonly items: readonly ApiObject[];
    }>({ method: 'GET', path, signal });
    for (const item of items) this.#states.set(placeIn(kind, item), [entriesOf(kind, item)]);
    const query = `${path}?watch=true&resourceVersion=${metadata.resourceVersion}`;
    this.#watches.push(this.#watch(kind, query));
  }

  async #watch(kind: Kind, path: string): Promise<void> {
    const { signal } = this.#stop;
    try {
      for await (const { object } of this.#connection.watch(path, { silenceMs: 120_000, signal })) {
        this.#told += 1;
        const place = placeIn(kind, object as ApiObject);
        const states = this.#states.get(place) ?? [];
        if (states.length === 0) this.#absent.add(place);
        this.#states.set(place, [...states, entriesOf(kind, object as ApiObject)]);
      }
    } catch (err) {
      if (!signal.aborted) throw err;
    }
  }
}

const placeIn = (kind: Kind, { metadata }: ApiObject): string => `${kind} ${metadata.namespace}/${metadata.name}`;

function entriesOf(kind: Kind, { data = {} }: ApiObject): Entries {
  const text = (value: string): string => (kind === 'secret' ? Buffer.from(value, 'base64').toString() : value);
  return Object.fromEntries(Object.entries(data).map(([key, value]) => [key, text(value)]));
}
