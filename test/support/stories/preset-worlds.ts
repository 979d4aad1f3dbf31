// The worlds of which every story of faults and crashes is told: the inventories of the processes that look after one
// control plane together, and what is there that none of them makes. A story gets namespaces of its own, so that many
// are told beside each other on one API server.
import { namesOf } from '../../../lib/inventory/discover/openshift.ts';
import type { ApiLocation, Resolved, ResolvedArtefact } from '../../../lib/inventory/model.ts';
import { loadPreset } from '../../../lib/inventory/preset.ts';
import { resolve } from '../../../lib/inventory/resolve.ts';
import { generateKey } from '../../../lib/pki/key.ts';
import { signSigner } from '../../../lib/pki/sign.ts';
import { type Material } from '../../../lib/store/store.ts';
import { openshiftPresets, openshiftStatus } from '../cluster/openshift-objects.ts';
import { caBundleKey } from '../../../lib/inventory/content.ts';

export interface PresetWorld {
  readonly name: string;
  /** One process of regen each. No key pairs, nothing that is only synced. */
  readonly inventories: readonly Resolved[];
  /** Bundles that are only read here. */
  readonly given: readonly ApiLocation[];
}

export type WorldName = 'kubernetes' | 'openshift';
export const worldNames: readonly WorldName[] = ['kubernetes', 'openshift'];

/** What regen reads of them. */
export const openshiftNames = namesOf(
  { object: { status: openshiftStatus.infrastructures } },
  { object: { status: openshiftStatus.networks } },
);

/** `story`: a prefix of its namespaces. */
export function presetWorld(name: WorldName, story?: string): PresetWorld {
  const inventories = inventoriesOf(name).map((one) => ourRows(story === undefined ? one : moved(one, story)));
  const made = new Set(inventories.flatMap(({ artefacts }) => artefacts.filter(isMade).map(placeOf)));
  const given = new Map<string, ApiLocation>();
  for (const row of inventories.flatMap(({ artefacts }) => artefacts)) {
    if ('namespace' in row.location && !made.has(placeOf(row))) given.set(placeOf(row), row.location);
  }
  return { name, inventories, given: [...given.values()] };
}

/** Every namespace in which the world has an object. */
export function namespacesOf({ inventories }: Pick<PresetWorld, 'inventories'>): string[] {
  const rows = inventories.flatMap(({ artefacts }) => artefacts);
  return [...new Set(rows.flatMap(({ location }) => ('namespace' in location ? [location.namespace] : [])))];
}

const tenYears = 3650 * 24 * 3_600_000;

/** What others keep at such a place: a CA of none of the inventories. */
export async function externalBundle({ name }: ApiLocation, now: Date): Promise<Material> {
  return { entries: { [caBundleKey]: Buffer.from(await externalAuthority(name, now)) }, annotations: {} };
}

/** PEM of a CA. */
export async function externalAuthority(commonName: string, now: Date): Promise<string> {
  const { key } = await generateKey({ name: 'ECDSA', curve: 'P-256' });
  const notAfter = new Date(now.getTime() + tenYears);
  return (await signSigner({ commonName, key, notBefore: now, notAfter, now })).pem;
}

/** Whether it has names that only the API tells. */
export const asksForNames = ({ artefacts }: Resolved): boolean =>
  artefacts.some((row) => row.kind === 'target' && row.asks !== undefined);

export const isMade = ({ kind }: Pick<ResolvedArtefact, 'kind'>): boolean =>
  kind !== 'external' && kind !== 'keyPair' && kind !== 'opaque';

/** `secret namespace/name`: one text for one object, whatever an inventory calls it. */
export function placeOf({ location }: Pick<ResolvedArtefact, 'location'>): string {
  if (!('namespace' in location)) throw new Error('its location is a file');
  return `${location.kind} ${location.namespace}/${location.name}`;
}

function inventoriesOf(name: WorldName): Resolved[] {
  if (name === 'openshift') return openshiftPresets.map((preset) => resolve(loadPreset(preset), {}));
  return [resolve(loadPreset('kubernetes'), { parameters: { apiServerHostnames: ['api.example.org'] } })];
}

const ourRows = (resolved: Resolved): Resolved => ({
  ...resolved,
  artefacts: resolved.artefacts.filter(
    ({ location, kind }) => 'namespace' in location && kind !== 'keyPair' && kind !== 'opaque',
  ),
});

const moved = (resolved: Resolved, story: string): Resolved => ({
  ...resolved,
  artefacts: resolved.artefacts.map((row) =>
    'namespace' in row.location
      ? { ...row, location: { ...row.location, namespace: `${story}-${row.location.namespace}` } }
      : row,
  ),
});

function partsOf(row: ResolvedArtefact): readonly string[] {
  if (row.kind === 'composedBundle') return row.inputs;
  if (row.kind === 'copy') return [row.of];
  return row.kind === 'kubeconfigs' ? [row.client, row.authority] : [];
}

/**
 * Objects that were not written as often as a recovery needs: once each. Of several processes one may look while another
 * is between two of its writes, or could not read all: what is composed or copied there is written at most once for each
 * input.
 */
export function unlikeOnce(
  { inventories }: Pick<PresetWorld, 'inventories'>,
  writes: (place: string) => number,
  processes: number,
): string[] {
  return inventories.flatMap(({ artefacts }) =>
    artefacts.filter(isMade).flatMap((row) => {
      const inputs = artefacts.filter(({ name }) => partsOf(row).includes(name));
      const sum = inputs.reduce((count, input) => count + Math.max(writes(placeOf(input)), 1), 0);
      const most = processes === 1 ? 1 : Math.max(sum, 1);
      const count = writes(placeOf(row));
      return count >= 1 && count <= most ? [] : [`${placeOf(row)}: ${count} writes, not 1 to ${most}`];
    }),
  );
}
