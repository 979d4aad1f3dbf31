// What one artefact says about another: names, references and their kinds, cycles, signers that nobody trusts. Pure.
// An artefact whose own shape is wrong is known by its name only; nothing is concluded from what it does not say.
import { suggestion } from '../problems.ts';
import type { Problem } from '../problems.ts';
import type { Artefact } from './model.ts';
import { dependenciesOf, originalOf, topologicalOrder } from './order.ts';
import { isFile } from './places.ts';

/** An item of the list of artefacts, as far as it could be understood. */
export interface ArtefactEntry {
  readonly index: number;
  readonly name?: string;
  readonly artefact?: Artefact;
}

/** A problem inside the artefact at `index`. */
export interface InventoryFinding extends Pick<Problem, 'kind' | 'message'> {
  readonly index: number;
  readonly path: readonly PropertyKey[];
}

type Kind = Artefact['kind'];

export function understood(entries: readonly ArtefactEntry[]): readonly Artefact[] {
  return entries.flatMap(({ artefact }) => artefact ?? []);
}

function uniqueNames(entries: readonly ArtefactEntry[]): InventoryFinding[] {
  const first = new Map<string, number>();
  return entries.flatMap(({ index, name }): InventoryFinding[] => {
    if (name === undefined) return [];
    const before = first.get(name);
    first.set(name, before ?? index);
    if (before === undefined) return [];
    return [
      {
        index,
        path: ['name'],
        kind: 'duplicate',
        message: `must be unique, got "${name}" as artefacts[${before}] has`,
      },
    ];
  });
}

interface Reference {
  readonly path: readonly PropertyKey[];
  readonly name: string;
  readonly wanted: string;
  /** Kinds that may stand there. */
  readonly kinds: readonly Kind[];
  /** Whether a copy counts as what it is a copy of. */
  readonly byCopy: boolean;
}

const target = { wanted: 'a target', kinds: ['target'], byCopy: false } as const;
const bundle = {
  wanted: 'a bundle or a copy of one',
  // Never an opaque object: nobody would see that the certificates in it have changed.
  kinds: ['caBundle', 'composedBundle', 'external'],
  byCopy: true,
} as const;

/** What readers name beside the artefact itself. */
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

function references(artefact: Artefact): readonly Reference[] {
  const signer = { wanted: 'a signer', kinds: ['signer'], byCopy: false } as const;
  if (artefact.kind === 'signer' || artefact.kind === 'target') {
    const successor = artefact.kind === 'target' ? artefact.supersededBy : undefined;
    return [
      ...(artefact.issuer === undefined ? [] : [{ path: ['issuer'], name: artefact.issuer, ...signer }]),
      ...(successor === undefined ? [] : [{ path: ['supersededBy'], name: successor, ...target }]),
    ];
  }
  if (artefact.kind === 'caBundle')
    return artefact.signers.map((name, at) => ({ path: ['signers', at], name, ...signer }));
  if (artefact.kind === 'composedBundle')
    return artefact.inputs.map((name, at) => ({ path: ['inputs', at], name, ...bundle }));
  if (artefact.kind === 'kubeconfigs') {
    const client = { wanted: 'a client target', kinds: ['target'], byCopy: false } as const;
    return [
      { path: ['client'], name: artefact.client, ...client },
      { path: ['authority'], name: artefact.authority, ...bundle },
    ];
  }
  return artefact.kind === 'copy' ? [{ path: ['of'], name: artefact.of, ...copied }] : [];
}

/** What has entries that are understood: a copy is compared by them, and made of them. */
const copied = {
  wanted: 'a signer, a target, a bundle or a copy of one',
  kinds: ['signer', 'target', 'caBundle', 'composedBundle', 'external'],
  byCopy: true,
} as const;

const kindText = (kind: Kind): string => (kind === 'opaque' ? 'an opaque object' : `a ${kind}`);

function soundReferences(
  entries: readonly ArtefactEntry[],
  byName: ReadonlyMap<string, ArtefactEntry>,
): InventoryFinding[] {
  const artefacts = understood(entries);
  return entries.flatMap(({ index, artefact }): InventoryFinding[] => {
    if (artefact === undefined) return [];
    const seen = new Set<string>();
    const named = [...references(artefact), ...referencesOfReaders(artefact)];
    return named.flatMap(({ path, name, wanted, kinds, byCopy }): InventoryFinding[] => {
      const found = byName.get(name);
      if (found === undefined) {
        const near = suggestion(name, byName.keys());
        const hint = near.startsWith(' (did') ? near : '';
        return [
          { index, path, kind: 'notFound', message: `must name ${wanted} of this inventory, got "${name}"${hint}` },
        ];
      }
      if (path[0] !== 'readers' && seen.has(name))
        return [{ index, path, kind: 'duplicate', message: `must be named once, got "${name}" again` }];
      seen.add(name);
      if (found.artefact === undefined) return [];
      // A signer that issues is named itself, never by a copy: the copy may be the older one.
      const { when } = found.artefact;
      if (when !== undefined && when !== artefact.when) {
        const message = `must name what is there wherever this is, got "${name}", which is there only with ${when}`;
        return [{ index, path, kind: 'conflict', message }];
      }
      const original = byCopy ? originalOf(artefacts, found.artefact) : found.artefact;
      const isPair =
        original?.kind === 'external' && original.location.kind !== 'configMap' && artefact.kind !== 'copy';
      if (original === undefined || (kinds.includes(original.kind) && !isPair)) return [];
      const got = `got "${name}", ${kindText(found.artefact.kind)}`;
      return [{ index, path, kind: 'invalid', message: `must name ${wanted}, ${got}` }];
    });
  });
}

/** Everything that is left waits for something else that is left, so any way through it ends in a circle. */
function oneCycle(left: ReadonlySet<string>, dependencies: ReadonlyMap<string, readonly string[]>): string[] {
  const walked: string[] = [];
  let at = [...left][0];
  while (at !== undefined && !walked.includes(at)) {
    walked.push(at);
    at = dependencies.get(at)?.find((name) => left.has(name));
  }
  return at === undefined ? [] : [...walked.slice(walked.indexOf(at)), at];
}

function noCycles(entries: readonly ArtefactEntry[], byName: ReadonlyMap<string, ArtefactEntry>): InventoryFinding[] {
  const artefacts = understood(entries);
  const { unordered } = topologicalOrder(artefacts);
  const cycle = oneCycle(new Set(unordered.map(({ name }) => name)), dependenciesOf(artefacts));
  const index = byName.get(cycle[0] ?? '')?.index;
  if (index === undefined) return [];
  return [{ index, path: [], kind: 'conflict', message: `must not wait for itself: ${cycle.join(' -> ')}` }];
}

/**
 * A leaf of a signer in the API that no bundle holds would be made, and trusted by nobody. Readers of a signer on disk
 * may be pointed at its own certificate file.
 */
function signersAreHeld(
  entries: readonly ArtefactEntry[],
  byName: ReadonlyMap<string, ArtefactEntry>,
): InventoryFinding[] {
  if (entries.some(({ artefact }) => artefact === undefined)) return [];
  const held = new Set(understood(entries).flatMap((one) => (one.kind === 'caBundle' ? one.signers : [])));
  return entries.flatMap(({ index, artefact }): InventoryFinding[] => {
    if ((artefact?.kind !== 'target' && artefact?.kind !== 'signer') || artefact.issuer === undefined) return [];
    const issuer = byName.get(artefact.issuer)?.artefact;
    if (held.has(artefact.issuer) || issuer?.kind !== 'signer' || isFile(issuer.location)) return [];
    const message = `must name a signer that a caBundle holds, got "${artefact.issuer}", which none holds`;
    return [{ index, path: ['issuer'], kind: 'conflict', message }];
  });
}

/** A server that no certificate of the inventory names is refused by every client that asks for it. */
function serverNamesAreServed(entries: readonly ArtefactEntry[]): InventoryFinding[] {
  const served = new Set(understood(entries).flatMap((one) => (one.kind === 'target' ? one.hostnames : [])));
  if (entries.some(({ artefact }) => artefact === undefined)) return [];
  return entries.flatMap(({ index, artefact }) =>
    (artefact?.readers ?? []).flatMap(({ kubeconfig }, at): InventoryFinding[] => {
      const name = kubeconfig?.tlsServerName;
      if (name === undefined || served.has(name)) return [];
      const message = `must be a host name of a target of this inventory, got "${name}"`;
      return [{ index, path: ['readers', at, 'kubeconfig', 'tlsServerName'], kind: 'notFound', message }];
    }),
  );
}

/** Trust in a bundle needs no time before it is used. */
function promotedPairs(entries: readonly ArtefactEntry[]): InventoryFinding[] {
  const artefacts = understood(entries);
  return entries.flatMap(({ index, artefact }): InventoryFinding[] => {
    if (artefact?.kind !== 'copy' || artefact.promoteAfter === undefined) return [];
    const original = originalOf(artefacts, artefact);
    if (original === undefined || original.kind === 'signer' || original.kind === 'target') return [];
    const message = `must be left out: only a signer or a target is promoted, got a copy of "${original.name}", ${kindText(original.kind)}`;
    return [{ index, path: ['promoteAfter'], kind: 'invalid', message }];
  });
}

export function checkReferences(entries: readonly ArtefactEntry[]): InventoryFinding[] {
  const byName = new Map(
    entries.toReversed().flatMap((entry) => (entry.name === undefined ? [] : [[entry.name, entry]])),
  );
  return [
    uniqueNames(entries),
    soundReferences(entries, byName),
    noCycles(entries, byName),
    signersAreHeld(entries, byName),
    serverNamesAreServed(entries),
    promotedPairs(entries),
  ].flat();
}
