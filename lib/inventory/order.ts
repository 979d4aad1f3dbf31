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

/**
 * By name: the artefacts that must be right before this one is made. What has an issuer also waits for every bundle that
 * holds that issuer; not for one that holds itself too, which can only come after it.
 */
export function dependenciesOf(artefacts: readonly Node[]): ReadonlyMap<string, readonly string[]> {
  const holders = new Map<string, string[]>();
  for (const bundle of artefacts) {
    if (bundle.kind !== 'caBundle') continue;
    for (const signer of bundle.signers ?? []) holders.set(signer, [...(holders.get(signer) ?? []), bundle.name]);
  }
  return new Map(
    artefacts.map((artefact) => {
      const direct = referencesOf(artefact);
      const own = holders.get(artefact.name) ?? [];
      const above = artefact.issuer === undefined ? [] : (holders.get(artefact.issuer) ?? []);
      return [artefact.name, [...direct, ...above.filter((bundle) => !own.includes(bundle))]];
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
