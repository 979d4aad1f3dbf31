// Which artefacts an artefact is made from, and an order in which each comes after those. Pure.
// The order carries safety: a bundle is written before the leaves of the signers it holds, so that no reader ever
// meets a certificate that nobody trusts yet.
import type { Artefact } from './model.ts';

type Node = Pick<Artefact, 'name' | 'kind'> &
  Partial<Record<'issuer' | 'of', string>> &
  Partial<Record<'signers' | 'inputs', readonly string[]>>;

const rank: Readonly<Record<Artefact['kind'], number>> = {
  signer: 0,
  caBundle: 1,
  composedBundle: 2,
  copy: 3,
  target: 4,
  keyPair: 5,
  opaque: 6,
};

/** What each artefact names directly: issuer, signers, inputs, original. */
export function referencesOf({ issuer, of, signers = [], inputs = [] }: Node): readonly string[] {
  return [issuer, of].filter((name) => name !== undefined).concat(signers, inputs);
}

type Issued = Pick<Artefact, 'name'> & { readonly issuer?: string };

/**
 * The bundles by which readers know the issuer of an artefact. Not one that holds the artefact itself, too: that can
 * only come after it.
 */
export function bundlesAbove<T extends Node>(
  artefacts: readonly T[],
  { name, issuer }: Issued,
): readonly (T & { readonly kind: 'caBundle' })[] {
  if (issuer === undefined) return [];
  return artefacts.filter(
    (row): row is T & { readonly kind: 'caBundle' } =>
      row.kind === 'caBundle' && (row.signers ?? []).includes(issuer) && !(row.signers ?? []).includes(name),
  );
}

/**
 * By name: the artefacts that must be right before this one is made. What has an issuer also waits for every bundle
 * above it.
 */
export function dependenciesOf(artefacts: readonly Node[]): ReadonlyMap<string, readonly string[]> {
  return new Map(
    artefacts.map((artefact) => {
      const above = bundlesAbove(artefacts, artefact).map(({ name }) => name);
      return [artefact.name, [...referencesOf(artefact), ...above]];
    }),
  );
}

export interface Order<T> {
  readonly ordered: readonly T[];
  /** Artefacts that lie on a cycle or behind one; empty in a sound inventory. */
  readonly unordered: readonly T[];
}

/** Each after its dependencies; where that leaves a choice signers first, then bundles, then targets, as declared. */
export function topologicalOrder<T extends Node>(artefacts: readonly T[]): Order<T> {
  const known = new Set(artefacts.map(({ name }) => name));
  const dependencies = dependenciesOf(artefacts);
  const done = new Set<string>();
  const ordered: T[] = [];
  let left = artefacts.toSorted((a, b) => rank[a.kind] - rank[b.kind]);
  for (;;) {
    const next = left.find(({ name }) =>
      (dependencies.get(name) ?? []).every((one) => done.has(one) || !known.has(one)),
    );
    if (next === undefined) return { ordered, unordered: left };
    ordered.push(next);
    done.add(next.name);
    left = left.filter((one) => one !== next);
  }
}
