// First generation of an inventory: the material of every artefact, in the order signer, bundle, target, from nothing
// but keys and the time. Existing material is used unchanged and only completed, so an interrupted run goes on with the
// signers that it had made. Until `init` has uploaded the objects, they lie in the staging directory.
import { createPublicKey } from 'node:crypto';
import { join } from 'node:path';
import { make } from '../issue/issue.ts';
import { readAuthority } from '../issue/ingredients.ts';
import { ensurePrivateDirectory, replaceFile } from '../disk/files.ts';
import { RecoveryError } from '../errors.ts';
import { isObject, isOfOthers } from '../inventory/places.ts';
import type { ApiLocation, KeyPair, Resolved, ResolvedArtefact } from '../inventory/model.ts';
import { generateKey, type KeyAlgorithm, type PrivateKey } from '../pki/key.ts';
import { verifyChain } from '../pki/verify.ts';
import { type NewObject, objectOf } from '../store/api-store.ts';
import { locationText, type Material, verifyMaterial } from '../store/store.ts';
import { readIfPresent } from './existing-files.ts';
import type { HostLayout } from './layout.ts';

interface GenerationOptions {
  readonly resolved: Resolved;
  readonly now: Date;
  readonly keyAlgorithm: KeyAlgorithm;
  /** Existing material by artefact. */
  readonly existing?: ReadonlyMap<string, Material>;
  /** Whether an artefact is in use and kept unchanged, also when it has expired. */
  readonly inUse?: (artefact: string) => boolean;
  /** Existing key for an artefact; by default one is generated. */
  readonly keyFor?: (artefact: string) => PrivateKey | undefined;
}

interface Made {
  readonly artefact: ResolvedArtefact;
  readonly material: Material;
  /** False: it existed already. */
  readonly isNew: boolean;
}

/** Yields one artefact after the other, so that each can be written before the next depends on it. */
export async function* makeGeneration(options: GenerationOptions): AsyncGenerator<Made, void, undefined> {
  const done = new Map<string, Material>();
  for (const artefact of options.resolved.artefacts) {
    if (isOfOthers(artefact)) continue;
    const there = options.existing?.get(artefact.name);
    if (there !== undefined && options.inUse?.(artefact.name) !== true) requireUsable(artefact, there, done, options);
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
  const made = { entries, annotations };
  verifyMaterial(artefact.location, made);
  return made;
}

/** Existing material must match the new one: every client would refuse a certificate of another CA. */
function requireUsable(
  artefact: ResolvedArtefact,
  { entries, annotations }: Material,
  done: ReadonlyMap<string, Material>,
  { resolved, now }: GenerationOptions,
): void {
  verifyMaterial(artefact.location, { entries, annotations });
  if (artefact.kind !== 'signer' && artefact.kind !== 'target') return;
  const own = readAuthority(artefact.location, entries);
  const signer = resolved.artefacts.find(({ name }) => name === artefact.issuer);
  const above = signer && readAuthority(signer.location, done.get(signer.name)?.entries ?? {}).certificate;
  const answer = verifyChain({
    leaf: own.certificate,
    intermediates: own.chain,
    roots: [above ?? own.certificate],
    at: now,
  });
  if (answer.ok) return;
  const message = `Cannot complete the generation with the existing ${locationText(artefact.location)}: ${answer.reason}; move it away, then run again`;
  throw new RecoveryError('MaterialInvalid', message);
}

/** Formats that kube-apiserver reads: the private key, and its public half as "PUBLIC KEY". */
function keyPair({ privateKey, publicKey }: KeyPair, key: PrivateKey): Material {
  const spki = createPublicKey(key.key).export({ type: 'spki', format: 'pem' });
  return { entries: { [privateKey]: Buffer.from(key.pem), [publicKey]: Buffer.from(spki) }, annotations: {} };
}

// Staging directory: every object of the first generation as one JSON manifest, mode 0600 in a 0700 directory, because
// it holds signers' keys. It is the record of an interrupted `init render`, and the source of `init`'s uploads.

type ObjectManifest = NewObject & { readonly metadata: Partial<Pick<Material, 'annotations'>> };

export function objectManifest(location: ApiLocation, { entries, annotations }: Material): ObjectManifest {
  const object = objectOf(location, entries);
  return { ...object, metadata: { ...object.metadata, annotations } };
}

function stagedFile({ staging }: HostLayout, { kind, namespace, name }: ApiLocation): string {
  return join(staging, `${kind === 'secret' ? 'secret' : 'configmap'}.${namespace}.${name}.json`);
}

export async function stage(layout: HostLayout, location: ApiLocation, material: Material): Promise<void> {
  await ensurePrivateDirectory(layout.staging);
  const content = `${JSON.stringify(objectManifest(location, material), null, 2)}\n`;
  const what = `staged ${locationText(location)}`;
  await replaceFile({ path: stagedFile(layout, location), content, mode: 0o600, what });
}

/** Staged objects by artefact. Throws ReadFailed and MaterialInvalid. */
export async function readStaged(layout: HostLayout, { artefacts }: Resolved): Promise<Map<string, Material>> {
  const found = new Map<string, Material>();
  for (const { name, location } of artefacts) {
    if (!isObject(location)) continue;
    const path = stagedFile(layout, location);
    const bytes = await readIfPresent(path, `staged ${locationText(location)}`);
    if (bytes !== undefined) found.set(name, materialOf(location, bytes, path));
  }
  return found;
}

function materialOf(location: ApiLocation, bytes: Buffer, path: string): Material {
  try {
    const { data, metadata } = JSON.parse(bytes.toString()) as ObjectManifest;
    const encoding = location.kind === 'secret' ? 'base64' : 'utf8';
    const entries = Object.entries(data).map(([key, value]) => [key, Buffer.from(value, encoding)] as const);
    return { entries: Object.fromEntries(entries), annotations: metadata.annotations ?? {} };
  } catch {
    // The parser's own error may quote the text, which holds keys.
    const message = `Cannot read staged ${locationText(location)}: "${path}" is not a manifest of ours; remove it`;
    throw new RecoveryError('MaterialInvalid', message, { details: { path } });
  }
}
