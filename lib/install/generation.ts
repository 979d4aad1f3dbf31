// The first generation of an inventory: the material of every artefact, made in the order signer, bundle, target from
// nothing but keys and the time. What exists already is taken as it is and only completed, so an interrupted run goes
// on with the signers that it had made. Nothing is read or written here.
import { createPublicKey } from 'node:crypto';
import { RecoveryError } from '../errors.ts';
import { isOfOthers } from '../inventory/kinds.ts';
import type { KeyPair, Resolved, ResolvedArtefact } from '../inventory/model.ts';
import { readAuthority } from '../issue/ingredients.ts';
import { make } from '../issue/issue.ts';
import type { KeyAlgorithm } from '../pki/key.ts';
import { generateKey, type PrivateKey } from '../pki/key.ts';
import { verifyChain } from '../pki/verify.ts';
import { locationText, type Material } from '../store/store.ts';
import { verifyMaterial } from '../store/verify.ts';

export interface GenerationOptions {
  readonly resolved: Resolved;
  readonly now: Date;
  readonly keyAlgorithm: KeyAlgorithm;
  /** What is there already, by artefact. */
  readonly existing?: ReadonlyMap<string, Material>;
  /** What is in use and taken as it is, also when it has ended. */
  readonly inUse?: (artefact: string) => boolean;
  /** A key that lies ready for an artefact; by default one is made. */
  readonly keyFor?: (artefact: string) => PrivateKey | undefined;
}

export interface Made {
  readonly artefact: ResolvedArtefact;
  readonly material: Material;
  /** False: it was there already. */
  readonly isNew: boolean;
}

export interface Generation {
  readonly made: readonly Made[];
  /** Objects whose content is not understood here: others must make them. */
  readonly notMade: readonly ResolvedArtefact[];
}

/** Everything at once, for who wants it in memory. Throws SignFailed and MaterialInvalid. */
export async function renderGeneration(options: GenerationOptions): Promise<Generation> {
  const made: Made[] = [];
  for await (const one of makeGeneration(options)) made.push(one);
  return { made, notMade: options.resolved.artefacts.filter(isOfOthers) };
}

/** One artefact after the other, so that each can be written before the next depends on it. */
export async function* makeGeneration(options: GenerationOptions): AsyncGenerator<Made, void, undefined> {
  const done = new Map<string, Material>();
  for (const artefact of options.resolved.artefacts) {
    if (isOfOthers(artefact)) continue;
    const there = options.existing?.get(artefact.name);
    if (there !== undefined && options.inUse?.(artefact.name) !== true)
      requireUsable(artefact, there, { done, options });
    const material = there ?? (await makeOne(artefact, done, options));
    done.set(artefact.name, material);
    yield { artefact, material, isNew: there === undefined };
  }
}

async function makeOne(
  artefact: ResolvedArtefact,
  material: ReadonlyMap<string, Material>,
  { resolved, now, keyAlgorithm, keyFor }: GenerationOptions,
): Promise<Material> {
  const takeKey = async ({ name }: ResolvedArtefact): Promise<PrivateKey> =>
    keyFor?.(name) ?? generateKey(keyAlgorithm);
  if (artefact.kind === 'keyPair') return keyPair(artefact, await takeKey(artefact));
  const { entries, annotations } = await make(artefact, { resolved, material, takeKey, now });
  return { entries, annotations };
}

interface Progress {
  readonly done: ReadonlyMap<string, Material>;
  readonly options: GenerationOptions;
}

/** What is there must fit to what is made: a certificate of another CA would be refused by everybody. */
function requireUsable(
  artefact: ResolvedArtefact,
  { entries, annotations }: Material,
  { done, options }: Progress,
): void {
  verifyMaterial(artefact.location, { entries, annotations });
  if (artefact.kind !== 'signer' && artefact.kind !== 'target') return;
  const own = readAuthority(artefact.location, entries);
  const signer = options.resolved.artefacts.find(({ name }) => name === artefact.issuer);
  const above = signer && readAuthority(signer.location, done.get(signer.name)?.entries ?? {}).certificate;
  const answer = verifyChain({
    leaf: own.certificate,
    intermediates: own.chain,
    roots: [above ?? own.certificate],
    at: options.now,
  });
  if (answer.ok) return;
  const message = `Cannot complete the generation with the existing ${locationText(artefact.location)}: ${answer.reason}; move it away, then run again`;
  throw new RecoveryError('MaterialInvalid', message);
}

/** As kube-apiserver takes them: the private key, and its public half as "PUBLIC KEY". */
function keyPair({ privateKey, publicKey }: KeyPair, key: PrivateKey): Material {
  const spki = createPublicKey(key.key).export({ type: 'spki', format: 'pem' });
  return { entries: { [privateKey]: Buffer.from(key.pem), [publicKey]: Buffer.from(spki) }, annotations: {} };
}
