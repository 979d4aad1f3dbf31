// What others may do to one object of the API, each by the plain requests of an administrator: people, sync tools,
// controllers. Which, to what, and in which order is a seed's.
import { certificateKey, caBundleKey, privateKeyKey } from '../../../lib/inventory/content.ts';
import type { ApiLocation } from '../../../lib/inventory/model.ts';
import { objectPath } from '../../../lib/kube/objects.ts';
import { apiKinds, collectionPath } from '../../../lib/kube/resources.ts';
import type { ControlPlane } from '../cluster/control-plane.ts';
import { pick, type Random } from './interleaving.ts';

export interface LiveObject {
  readonly metadata: { readonly name: string; readonly finalizers?: readonly string[] };
  readonly data?: Readonly<Record<string, string>>;
  readonly [field: string]: unknown;
}

export interface ActedOn {
  readonly controlPlane: Pick<ControlPlane, 'admin'>;
  readonly random: Random;
  readonly location: ApiLocation;
  /** As it was at the beginning. */
  readonly first: LiveObject;
  /** Of the same kind in the same namespace. */
  readonly other: LiveObject;
  /** A CA and its key that nobody here knows, PEM. */
  readonly stranger: { readonly certificate: string; readonly key: string };
}

const finalizer = 'example.org/held';
const knownKeys = [certificateKey, privateKeyKey, caBundleKey];

/** What is there; undefined where nothing is. */
export async function liveObject({ controlPlane, location }: Pick<ActedOn, 'controlPlane' | 'location'>) {
  const { status, body } = await controlPlane.admin(objectPath(location));
  return status === 200 ? (body as LiveObject) : undefined;
}

/** Whatever the API server answers: an act may be refused, say on what is immutable. */
async function send({ controlPlane, location }: ActedOn, method: string, body?: object): Promise<void> {
  await controlPlane.admin(objectPath(location), { method, ...(body !== undefined && { body }) });
}

const patch = (at: ActedOn, body: object): Promise<void> => send(at, 'PATCH', body);

/** As the object has it: base64 in a Secret. */
const encoded = ({ location }: ActedOn, text: string): string =>
  location.kind === 'secret' ? Buffer.from(text).toString('base64') : text;

const decoded = ({ location }: ActedOn, text: string): string =>
  location.kind === 'secret' ? Buffer.from(text, 'base64').toString() : text;

/** One of its entries that are known, changed. */
async function change(at: ActedOn, to: (text: string) => string | null): Promise<void> {
  const { data = {} } = (await liveObject(at)) ?? {};
  const keys = knownKeys.filter((key) => data[key] !== undefined);
  if (keys.length === 0) return;
  const key = pick(at.random, keys);
  const text = to(decoded(at, data[key] ?? ''));
  await patch(at, { data: { [key]: text === null ? null : encoded(at, text) } });
}

async function create({ controlPlane, location, first }: ActedOn): Promise<void> {
  const { metadata, ...rest } = first;
  const body = { ...rest, metadata: { name: metadata.name, namespace: location.namespace } };
  await controlPlane.admin(collectionPath(apiKinds[location.kind], location.namespace), { method: 'POST', body });
}

/** Takes what holds it back away, so that what was deleted goes. */
export const release = (at: Pick<ActedOn, 'controlPlane' | 'location'>): Promise<unknown> =>
  at.controlPlane.admin(objectPath(at.location), { method: 'PATCH', body: { metadata: { finalizers: null } } });

export const actsOfOthers = {
  annotate: async (at) => {
    for (const time of [1, 2, 3]) await patch(at, { metadata: { annotations: { time: String(time) } } });
  },
  label,
  empty: (at) => change(at, () => ''),
  'drop an entry': (at) => change(at, () => null),
  'drop all': (at) => patch(at, { data: null }),
  garble: (at) => change(at, () => 'garbage'),
  tear: (at) => change(at, (text) => text.slice(0, text.length / 2)),
  duplicate: (at) => change(at, (text) => text + text),
  delete: (at) => send(at, 'DELETE'),
  'delete and remake': async (at) => {
    await send(at, 'DELETE');
    await create(at);
  },
  'put back': (at) => patch(at, { data: at.first.data ?? null }),
  swap: (at) => patch(at, { data: at.other.data ?? null }),
  'other key': (at) =>
    at.location.kind === 'secret' ? patch(at, { data: { [privateKeyKey]: encoded(at, at.stranger.key) } }) : label(at),
  'other content': (at) => {
    const { certificate, key } = at.stranger;
    const pair = { [certificateKey]: encoded(at, certificate), [privateKeyKey]: encoded(at, key) };
    return patch(at, { data: at.location.kind === 'secret' ? pair : { [caBundleKey]: certificate } });
  },
  'into binaryData': async (at) => {
    if (at.location.kind === 'secret') return;
    const { data = {} } = (await liveObject(at)) ?? {};
    const text = data[caBundleKey];
    if (text === undefined) return;
    const binaryData = { [caBundleKey]: Buffer.from(text).toString('base64') };
    await patch(at, { data: { [caBundleKey]: null }, binaryData });
  },
  'make immutable': (at) => patch(at, { immutable: true }),
  'hold and delete': async (at) => {
    await patch(at, { metadata: { finalizers: [finalizer] } });
    await send(at, 'DELETE');
  },
  release: async (at) => void (await release(at)),
} satisfies Readonly<Record<string, (at: ActedOn) => Promise<void>>>;

function label(at: ActedOn): Promise<void> {
  return patch(at, { metadata: { labels: { by: 'others' } } });
}

export type ActOfOthers = keyof typeof actsOfOthers;
