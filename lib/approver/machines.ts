// Machines as a source of addresses: Machines of Cluster API or of OpenShift. An infrastructure provider writes them, a
// kubelet cannot. They are watched, so that waiting requests are judged again as soon as a Machine gets its addresses
// or its Node; a single pass lists them.
import { type AddressSettings, machineApis, type MachineSettings } from '../config/address-settings.ts';
import { errorText, isCode } from '../errors.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { list } from '../kube/list.ts';
import { listWatch } from '../kube/list-watch.ts';
import type { ReceivedObject } from '../kube/received.ts';
import { backoffMs } from '../retry.ts';
import {
  type AddressQuestion,
  type AddressSource,
  answerOf,
  canonicalAddresses,
  type Following,
  type SourceAnswer,
  type SourceOptions,
} from './addresses.ts';

interface MachineObject extends ReceivedObject {
  readonly status?: {
    readonly nodeRef?: { readonly name?: string } | null;
    readonly addresses?: readonly { readonly address?: string }[] | null;
  } | null;
}

/** Cached fields of a Machine with a Node. */
interface Machine {
  /** `namespace/name` */
  readonly id: string;
  readonly node: string;
  readonly addresses: readonly string[];
  /** It is being deleted. */
  readonly isLeaving: boolean;
}

const pageSize = 50;

export class Machines implements AddressSource {
  readonly #source: string;
  readonly #settings: MachineSettings;
  readonly #options: SourceOptions;
  #connection: Promise<KubeConnection> | undefined;
  /** Watched Machines by id; undefined: not listed. */
  #followed: Map<string, Machine> | undefined;
  /** Listed for one pass, while no watch runs. */
  #listed: Promise<readonly Machine[]> | undefined;

  constructor(source: string, settings: Extract<AddressSettings, { kind: 'machines' }>, options: SourceOptions) {
    this.#source = source;
    this.#settings = settings;
    this.#options = options;
  }

  begin(): void {
    this.#listed = undefined;
  }

  async answer(question: AddressQuestion): Promise<SourceAnswer> {
    const { node } = question;
    const machines = this.#followed === undefined ? await (this.#listed ??= this.#list()) : this.#followed.values();
    const byNode = Map.groupBy(machines, (machine) => machine.node);
    const own = remaining(byNode.get(node) ?? []);
    if (own.length > 0) byNode.set(node, [...own]);
    const whose = [...byNode].map(([name, all]) => [name, all.flatMap(({ addresses }) => addresses)] as const);
    const answer = answerOf(question, this.#source, Object.fromEntries(whose));
    if (own.length < 2) return answer;
    const ids = own.map(({ id }) => `"${id}"`).join(', ');
    const ambiguity = `several Machines have the nodeRef "${node}": ${ids} (${this.#source}); delete those that are gone`;
    return { ...answer, ambiguity };
  }

  async follow({ changed, onStatus }: Following): Promise<void> {
    const { clock, log, signal } = this.#options;
    const what = `the Machines of ${this.#source}`;
    const found = await this.#waitForApi((message) =>
      onStatus(what, { phase: 'waiting', lastProgress: undefined, message }),
    );
    if (found === undefined) return;
    await listWatch<MachineObject, Machine>({
      ...found,
      pages: { size: pageSize, keep },
      clock,
      log,
      signal,
      onList: (machines) => {
        this.#followed = new Map(machines.map((machine) => [machine.id, machine]));
        changed();
      },
      onEvent: (type, object) => {
        const machine = type === 'DELETED' ? undefined : keep(object);
        const before = this.#followed?.get(idOf(object));
        if (JSON.stringify(machine) === JSON.stringify(before)) return; // only labels or conditions changed
        if (machine === undefined) this.#followed?.delete(idOf(object));
        else this.#followed?.set(machine.id, machine);
        changed();
      },
      onStatus: (status) => {
        // Addresses of an unwatched Machine may belong to another Machine since: each judgement lists until the watch
        // is back, and waits while it cannot.
        if (status.phase === 'waiting') this.#followed = undefined;
        onStatus(what, status);
      },
    });
  }

  /** Returns undefined when the process stops. */
  async #waitForApi(
    onFailure: (message: string) => void,
  ): Promise<{ connection: KubeConnection; path: string } | undefined> {
    const { clock, signal, log } = this.#options;
    for (let attempt = 1; !signal.aborted; attempt += 1) {
      try {
        return await this.#api();
      } catch (err) {
        const message = errorText(err);
        if (!signal.aborted && attempt === 1) log.warn('watch.failed', { err: message, attempt });
        onFailure(message);
        await clock.sleep(backoffMs(attempt, { firstMs: 1000, longestMs: 30_000, random: Math.random }), signal);
      }
    }
    return undefined;
  }

  async #list(): Promise<readonly Machine[]> {
    const { signal } = this.#options;
    return (await list<MachineObject, Machine>({ ...(await this.#api()), pages: { size: pageSize, keep }, signal }))
      .objects;
  }

  /** Connection and path of the Machines, in the newest version that is served and known here. */
  async #api(): Promise<{ connection: KubeConnection; path: string }> {
    const { signal } = this.#options;
    const { group, versions } = machineApis[this.#settings.api];
    const connection = await this.#connect();
    const path = `/apis/${group}`;
    const served = await connection.request<{ readonly versions?: readonly { readonly version?: string }[] }>({
      method: 'GET',
      path,
      signal,
    });
    const isServed = (wanted: string): boolean => (served.versions ?? []).some(({ version }) => version === wanted);
    const version = versions.find(isServed) ?? versions.at(-1) ?? '';
    const { namespace } = this.#settings;
    const inNamespace = namespace === undefined ? '' : `namespaces/${namespace}/`;
    return { connection, path: `${path}/${version}/${inNamespace}machines` };
  }

  async #connect(): Promise<KubeConnection> {
    const { kubeconfig } = this.#settings;
    const { connection, connect } = this.#options;
    if (kubeconfig === undefined || connect === undefined) return connection;
    this.#connection ??= connect(kubeconfig);
    try {
      return await this.#connection;
    } catch (err) {
      if (isCode(err, 'ConfigInvalid', 'KubeUnavailable', 'ReadFailed')) this.#connection = undefined;
      throw err;
    }
  }
}

/** Machines that are not being deleted, else all: a replaced node has two Machines for a while. */
const remaining = (machines: readonly Machine[]): readonly Machine[] => {
  const staying = machines.filter(({ isLeaving }) => !isLeaving);
  return staying.length > 0 ? staying : machines;
};

const idOf = ({ metadata }: MachineObject): string => `${metadata?.namespace ?? ''}/${metadata?.name ?? ''}`;

/** Undefined: the Machine has no Node yet. */
function keep(object: MachineObject): Machine | undefined {
  const { nodeRef, addresses } = object.status ?? {};
  const node = nodeRef?.name ?? '';
  const isLeaving = object.metadata?.deletionTimestamp !== undefined;
  return node === '' ? undefined : { id: idOf(object), node, addresses: canonicalAddresses(addresses), isLeaving };
}
