// The inputs of an artefact, and an order in which each artefact comes after its inputs. Pure. The order carries
// safety: a bundle is written before the leaves of the signers it holds, so that no reader ever meets a certificate
// that it does not trust yet.
import type { Artefact } from './model.ts';

type Node = Pick<Artefact, 'name' | 'kind'> &
  Partial<Record<'issuer' | 'of' | 'client' | 'authority', string>> &
  Partial<Record<'signers' | 'inputs', readonly string[]>> & { readonly promoteAfter?: number };

const rank: Readonly<Record<Artefact['kind'], number>> = {
  external: 0,
  signer: 0,
  caBundle: 1,
  composedBundle: 2,
  copy: 3,
  target: 4,
  kubeconfigs: 5,
  keyPair: 6,
  opaque: 7,
};

/** Returns the direct references of an artefact: issuer, signers, inputs, original, parts of kubeconfigs. */
function referencesOf({ issuer, of, client, authority, signers = [], inputs = [] }: Node): readonly string[] {
  return [issuer, of, client, authority].filter((name) => name !== undefined).concat(signers, inputs);
}

type Issued = Pick<Artefact, 'name'> & { readonly issuer?: string };

/**
 * Returns the bundles by which readers know the issuer of an artefact. Without a bundle that also holds the artefact
 * itself: that can only come after it.
 */
export function bundlesAbove<T extends Node>(
  artefacts: readonly T[],
  { name, issuer }: Issued,
): readonly (T & { readonly kind: 'caBundle' })[] {
  if (issuer === undefined) return [];
  return artefacts.filter(
    (artefact): artefact is T & { readonly kind: 'caBundle' } =>
      artefact.kind === 'caBundle' &&
      (artefact.signers ?? []).includes(issuer) &&
      !(artefact.signers ?? []).includes(name),
  );
}

/** Returns the bundles by which readers know the certificates of a signer, or a target. */
export function bundlesFor<T extends Node>(artefacts: readonly T[], pair: Issued & Pick<Node, 'kind'>): readonly T[] {
  if (pair.kind !== 'signer') return bundlesAbove(artefacts, pair);
  return artefacts.filter(({ kind, signers = [] }) => kind === 'caBundle' && signers.includes(pair.name));
}

/** Returns composed bundles and copies with the content of these bundles, directly or through each other. */
export function madeOf<T extends Node>(artefacts: readonly T[], bundles: readonly Pick<Node, 'name'>[]): readonly T[] {
  const names = new Set(bundles.map(({ name }) => name));
  const found = new Set<T>();
  for (let before = -1; before < found.size;) {
    before = found.size;
    for (const artefact of artefacts) {
      if (found.has(artefact)) continue;
      const { of = '', inputs = [] } = artefact;
      if (!names.has(of) && !inputs.some((input) => names.has(input))) continue;
      found.add(artefact);
      names.add(artefact.name);
    }
  }
  return artefacts.filter((artefact) => found.has(artefact));
}

/** Returns the first original of a chain of copies, or the artefact itself; undefined where the chain is broken. */
export function originalOf<T extends Node>(artefacts: readonly T[], artefact: T): T | undefined {
  let at: T | undefined = artefact;
  for (let hops = 0; at?.kind === 'copy' && hops <= artefacts.length; hops += 1) {
    const { of }: T = at;
    at = artefacts.find(({ name }) => name === of);
  }
  return at?.kind === 'copy' ? undefined : at;
}

/**
 * Returns the artefacts that must be correct before each artefact is made, by name. An artefact with an issuer also
 * waits for every bundle above it; a promoted copy for every bundle by which readers know its original.
 */
export function dependenciesOf(artefacts: readonly Node[]): ReadonlyMap<string, readonly string[]> {
  return new Map(
    artefacts.map((artefact) => {
      const above = [...bundlesAbove(artefacts, artefact), ...trustOfPromoted(artefacts, artefact)];
      return [artefact.name, [...referencesOf(artefact), ...above.map(({ name }) => name)]];
    }),
  );
}

function trustOfPromoted(artefacts: readonly Node[], artefact: Node): readonly Node[] {
  const original = artefact.promoteAfter === undefined ? undefined : originalOf(artefacts, artefact);
  if (original === undefined) return [];
  const bundles = bundlesFor(artefacts, original);
  return [...bundles, ...madeOf(artefacts, bundles)];
}

interface Order<T> {
  readonly ordered: readonly T[];
  /** Artefacts that lie on a cycle or behind one; empty in a sound inventory. */
  readonly unordered: readonly T[];
}

/** Orders artefacts after their dependencies; among equals signers first, then bundles, then targets, as declared. */
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
