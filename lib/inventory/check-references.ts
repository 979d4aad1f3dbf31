// Checks references between artefacts: names and their kinds, cycles, signers that no bundle holds. Pure. An artefact
// whose own shape is wrong is known by its name only; nothing is concluded from its missing fields.
import { suggestion } from '../problems.ts';
import type { Problem } from '../problems.ts';
import type { Artefact } from './model.ts';
import { dependenciesOf, originalOf, topologicalOrder } from './order.ts';
import { holdsBundles } from './location-kinds.ts';
import { isFile } from './places.ts';

/** An item of the list of artefacts, as far as it could be parsed. */
export interface ArtefactEntry {
  readonly index: number;
  readonly name?: string;
  readonly artefact?: Artefact;
}

/** A problem inside an artefact. */
export interface FieldProblem extends Pick<Problem, 'kind' | 'message'> {
  readonly path: readonly PropertyKey[];
}

/** A problem inside the artefact at `index`. */
export interface InventoryFinding extends FieldProblem {
  readonly index: number;
}

const finding =
  (kind: FieldProblem['kind']) =>
  (path: FieldProblem['path'], message: string): FieldProblem => ({ path, kind, message });
export const invalid = finding('invalid');
export const required = finding('required');
export const notFound = finding('notFound');
const conflict = finding('conflict');

/** The inventory around the artefact that is checked. */
export interface Surroundings {
  /** All artefacts that could be parsed. */
  readonly all: readonly Artefact[];
  /** Whether `all` is complete: only then a missing reference is certain. */
  readonly isWhole: boolean;
  /** Entries by name; of several with the same name the first. */
  readonly byName: ReadonlyMap<string, ArtefactEntry>;
}

export function surroundingsOf(entries: readonly ArtefactEntry[]): Surroundings {
  const named = entries
    .toReversed()
    .flatMap((entry) => (entry.name === undefined ? [] : [[entry.name, entry] as const]));
  const all = entries.flatMap(({ artefact }) => artefact ?? []);
  return { all, isWhole: all.length === entries.length, byName: new Map(named) };
}

export function uniqueName({ index, name }: ArtefactEntry, { byName }: Surroundings): FieldProblem[] {
  const first = name === undefined ? index : byName.get(name)?.index;
  if (first === index) return [];
  const message = `must be unique, got "${name}" as artefacts[${first}] has`;
  return [{ path: ['name'], kind: 'duplicate', message }];
}

type Kind = Artefact['kind'];

interface Wanted {
  readonly wanted: string;
  /** Kinds that may be referenced. */
  readonly kinds: readonly Kind[];
  /** Whether a copy counts as its original. */
  readonly byCopy: boolean;
}

// An issuing signer is referenced itself, never by a copy: the copy may be the older one.
const signer: Wanted = { wanted: 'a signer', kinds: ['signer'], byCopy: false };
const target: Wanted = { wanted: 'a target', kinds: ['target'], byCopy: false };
const bundle: Wanted = {
  wanted: 'a bundle or a copy of one',
  // Never an opaque object: no check would see that the certificates in it have changed.
  kinds: ['caBundle', 'composedBundle', 'external'],
  byCopy: true,
};
/** Artefacts whose entries are known: a copy is compared by them, and made of them. */
const copied: Wanted = {
  wanted: 'a signer, a target, a bundle or a copy of one',
  kinds: ['signer', 'target', 'caBundle', 'composedBundle', 'external'],
  byCopy: true,
};

/** Kinds of artefact that each field may name. */
const wantedBy: Readonly<Record<string, Wanted>> = {
  issuer: signer,
  supersededBy: target,
  signers: signer,
  inputs: bundle,
  of: copied,
  client: { ...target, wanted: 'a client target' },
  authority: bundle,
};

interface Reference extends Wanted {
  readonly path: readonly PropertyKey[];
  readonly name: string;
}

function references(artefact: Artefact): readonly Reference[] {
  const fields = artefact as Readonly<Record<string, unknown>>;
  return Object.entries(wantedBy).flatMap(([field, wanted]) => {
    const named = fields[field] as string | readonly string[] | undefined;
    if (typeof named === 'string') return [{ path: [field], name: named, ...wanted }];
    return (named ?? []).map((name, at) => ({ path: [field, at], name, ...wanted }));
  });
}

/** References of readers to other artefacts. */
function referencesOfReaders({ readers }: Artefact): readonly Reference[] {
  return readers.flatMap(({ kubeconfig, serves }, at) => [
    ...(kubeconfig === undefined
      ? []
      : [{ path: ['readers', at, 'kubeconfig', 'authority'], name: kubeconfig.authority, ...bundle }]),
    ...(serves?.client === undefined
      ? []
      : [{ path: ['readers', at, 'serves', 'client'], name: serves.client, ...target }]),
  ]);
}

export const kindText = (kind: Kind): string => (kind === 'opaque' ? 'an opaque object' : `a ${kind}`);

export function soundReferences(artefact: Artefact, { all, byName }: Surroundings): FieldProblem[] {
  const seen = new Set<string>();
  const named = [...references(artefact), ...referencesOfReaders(artefact)];
  return named.flatMap(({ path, name, wanted, kinds, byCopy }): FieldProblem[] => {
    const found = byName.get(name);
    if (found === undefined) {
      const near = suggestion(name, byName.keys());
      const hint = near.startsWith(' (did') ? near : '';
      return [notFound(path, `must name ${wanted} of this inventory, got "${name}"${hint}`)];
    }
    if (path[0] !== 'readers' && seen.has(name))
      return [{ path, kind: 'duplicate', message: `must be named once, got "${name}" again` }];
    seen.add(name);
    if (found.artefact === undefined) return [];
    const { when } = found.artefact;
    if (when !== undefined && when !== artefact.when) {
      const got = `got "${name}", which is there only with ${when}`;
      return [conflict(path, `must name what is there wherever this is, ${got}`)];
    }
    const original = byCopy ? originalOf(all, found.artefact) : found.artefact;
    const isBundle = original !== undefined && !isFile(original.location) && holdsBundles(original.location);
    const isPair = original?.kind === 'external' && !isBundle && artefact.kind !== 'copy';
    if (original === undefined || (kinds.includes(original.kind) && !isPair)) return [];
    return [invalid(path, `must name ${wanted}, got "${name}", ${kindText(found.artefact.kind)}`)];
  });
}

/** Finds a cycle: every artefact left waits for another one left, so any path through them runs into a cycle. */
function oneCycle(left: ReadonlySet<string>, dependencies: ReadonlyMap<string, readonly string[]>): string[] {
  const walked: string[] = [];
  let at = [...left][0];
  while (at !== undefined && !walked.includes(at)) {
    walked.push(at);
    at = dependencies.get(at)?.find((name) => left.has(name));
  }
  return at === undefined ? [] : [...walked.slice(walked.indexOf(at)), at];
}

/** Reports a cycle, at an artefact that lies on it. */
export function noCycles({ all, byName }: Surroundings): InventoryFinding[] {
  const { unordered } = topologicalOrder(all);
  const cycle = oneCycle(new Set(unordered.map(({ name }) => name)), dependenciesOf(all));
  const index = byName.get(cycle[0] ?? '')?.index;
  return index === undefined ? [] : [{ index, ...conflict([], `must not wait for itself: ${cycle.join(' -> ')}`) }];
}

/**
 * Checks that a bundle holds the signer of a leaf in the API: else the leaf would be made, and trusted by no reader.
 * Readers of a signer on disk may be pointed at its own certificate file.
 */
export function heldSigner(artefact: Artefact, { all, isWhole, byName }: Surroundings): FieldProblem[] {
  if (!isWhole || (artefact.kind !== 'target' && artefact.kind !== 'signer')) return [];
  const { issuer: name } = artefact;
  const issuer = byName.get(name ?? '')?.artefact;
  if (name === undefined || issuer?.kind !== 'signer' || isFile(issuer.location)) return [];
  if (all.some((one) => one.kind === 'caBundle' && one.signers.includes(name))) return [];
  return [conflict(['issuer'], `must name a signer that a caBundle holds, got "${name}", which none holds`)];
}

/** Checks that a certificate of the inventory names the server: else every client refuses it. */
export function servedServerName({ readers }: Artefact, { all, isWhole }: Surroundings): FieldProblem[] {
  return readers.flatMap(({ kubeconfig }, at): FieldProblem[] => {
    const name = kubeconfig?.tlsServerName;
    if (!isWhole || name === undefined) return [];
    if (all.some((one) => one.kind === 'target' && one.hostnames.includes(name))) return [];
    const path = ['readers', at, 'kubeconfig', 'tlsServerName'];
    return [notFound(path, `must be a host name of a target of this inventory, got "${name}"`)];
  });
}
