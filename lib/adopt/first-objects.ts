// First generation of a cluster made by kubeadm: objects already in the API, else material from kubeadm's files, else
// certificates issued by the cluster's CAs. Written create-only, each artefact before its dependants, so a killed run
// is completed by the next one and two machines that adopt at the same time arrive at one generation.
import { dnsNameCovers } from '../pki/names.ts';
import { make } from '../issue/issue.ts';
import { annotationsOf } from '../issue/metadata.ts';
import { isCode, RecoveryError } from '../errors.ts';
import { readIfPresent } from '../install/existing-files.ts';
import { makeGeneration } from '../install/first-generation.ts';
import { isObject, isOfOthers } from '../inventory/places.ts';
import type { ApiLocation, KeyPair, Resolved, ResolvedArtefact, ResolvedTarget } from '../inventory/model.ts';
import { type Certificate, parseCertificates } from '../pki/certificate.ts';
import { generateKey } from '../pki/key.ts';
import { ownFirst } from '../pki/signer-certificate.ts';
import { createDiskStore } from '../store/disk-store.ts';
import { type Found, locationText, type Material, type Store } from '../store/store.ts';
import { type KubeadmDirectories, keyFiles, leafOf, type MachineOptions, sourceOf } from './kubeadm-files.ts';
import { defaultKeyAlgorithm } from '../well-known.ts';
import { certificateKey, privateKeyKey } from '../inventory/content.ts';

/** `resolved`: only artefacts in the API. */
interface FirstObjects extends KubeadmDirectories, Pick<MachineOptions, 'resolved' | 'clock' | 'signal' | 'print'> {
  /** Store of objects in the API. */
  readonly store: Store;
}

/** Existing material that the first generation is made of. */
interface Stock {
  /** Material already in the API. */
  readonly there: ReadonlyMap<string, Found>;
  /** Material from kubeadm's files. */
  readonly taken: ReadonlyMap<string, TakenOver>;
}

/** Material by artefact. */
function materialOf({ there, taken }: Stock): Map<string, Material> {
  return new Map<string, Material>([...there, ...[...taken].map(([name, one]) => [name, one.material] as const)]);
}

/** Writes nothing. Throws MaterialInvalid when something is missing that cannot be reissued, and ReadFailed. */
export async function takeStock(options: FirstObjects): Promise<Stock> {
  const there = new Map<string, Found>();
  const taken = new Map<string, TakenOver>();
  for (const artefact of options.resolved.artefacts) {
    const found = await options.store.read(artefact.location, options.signal);
    const own = found === undefined ? await takeOver(artefact, options) : undefined;
    if (found !== undefined) there.set(artefact.name, found);
    if (own !== undefined) taken.set(artefact.name, own);
  }
  return { there, taken };
}

/** Objects to create. */
export function absentIn({ there }: Stock, { artefacts }: Pick<Resolved, 'artefacts'>): readonly ApiLocation[] {
  return artefacts.flatMap(({ name, location, kind }) =>
    !isObject(location) || isOfOthers({ kind }) || there.has(name) ? [] : [location satisfies ApiLocation],
  );
}

/** Future bundles by artefact; CAs that are not made yet are missing, and will be added. Throws MaterialInvalid. */
export async function bundlesOf(
  stock: Stock,
  { resolved, clock }: FirstObjects,
): Promise<ReadonlyMap<string, Material>> {
  const material = materialOf(stock);
  const takeKey = (): Promise<never> => Promise.reject(new RecoveryError('SignFailed', 'A bundle needs no key'));
  for (const artefact of resolved.artefacts) {
    if (material.has(artefact.name) || !['caBundle', 'composedBundle'].includes(artefact.kind)) continue;
    try {
      material.set(artefact.name, await make(artefact, { resolved, material, takeKey, now: clock.now() }));
    } catch (err) {
      if (!isCode(err, 'SignFailed')) throw err; // all certificates that it will hold are yet to be made
    }
  }
  return material;
}

/**
 * All material by artefact, as the API holds it afterwards. Throws MaterialInvalid, ReadFailed, SignFailed,
 * KubeConflict, and the API's refusals.
 */
export async function createObjects(options: FirstObjects): Promise<ReadonlyMap<string, Material>> {
  // Each lost race against another machine leaves one object more, which is used unchanged.
  for (const _ of options.resolved.artefacts) {
    const material = await createMissing(await takeStock(options), options);
    if (material !== undefined) return material;
  }
  const message =
    'Cannot create the objects of this cluster: somebody else makes them at the same time, perhaps another machine that is adopted; run this again';
  throw new RecoveryError('KubeConflict', message);
}

/** Undefined when another machine has created an object first: later objects would fit our generation only. */
async function createMissing(
  stock: Stock,
  { resolved, store, clock, signal, print }: FirstObjects,
): Promise<Map<string, Material> | undefined> {
  const { there, taken } = stock;
  const made = new Map<string, Material>();
  for await (const { artefact, material } of makeGeneration({
    resolved,
    now: clock.now(),
    keyAlgorithm: defaultKeyAlgorithm,
    existing: materialOf(stock),
    inUse: (name) => there.has(name),
  })) {
    const { name, location } = artefact;
    made.set(name, material);
    if (there.has(name)) continue;
    if ((await store.write(location, material, 'absent', signal)) === 'conflict') return undefined;
    const from = taken.get(name)?.from;
    print(`Created ${locationText(location)}${from === undefined ? '' : ` from ${from}`}`);
  }
  return made;
}

interface TakenOver {
  readonly material: Material;
  readonly from: string;
}

async function takeOver(artefact: ResolvedArtefact, options: FirstObjects): Promise<TakenOver | undefined> {
  const { clock, signal } = options;
  if (artefact.kind === 'keyPair') return accountKeys(artefact, options);
  const source = sourceOf(artefact, options);
  if (source === undefined) return undefined;
  const from = locationText(source);
  const found = await createDiskStore().read(source, signal);
  const { [certificateKey]: certificate, [privateKeyKey]: key } = found?.entries ?? {};
  if (certificate === undefined || key === undefined) {
    if (artefact.kind === 'target') return undefined; // reissued
    const missing = certificate === undefined ? 'is not there' : 'has no key on this machine';
    const message = `Cannot adopt ${from}: it ${missing}; what the cluster trusts cannot be kept without it; bring it here, it becomes a Secret, or leave this cluster to kubeadm`;
    throw new RecoveryError('MaterialInvalid', message);
  }
  const all = parseCertificates(certificate, from, 'skipped');
  const [leaf] = artefact.kind === 'signer' ? ownFirst(all, key) : all;
  if (leaf === undefined || leaf.facts.notAfter <= clock.now()) {
    if (artefact.kind === 'target') return undefined;
    throw new RecoveryError('MaterialInvalid', `Cannot adopt ${from}: it has expired; renew the CA first`);
  }
  if (artefact.kind === 'target' && !fits(artefact, leaf)) return undefined;
  const entries = { [certificateKey]: certificate, [privateKeyKey]: key };
  return { material: { entries, annotations: annotationsOf(artefact.location, leaf) }, from };
}

/** Whether the existing certificate can replace the declared one: a client's name decides its rights. */
function fits({ usage, commonName, hostnames }: ResolvedTarget, { facts, fields }: Certificate): boolean {
  if (usage !== 'client') return missingNames(facts.hostnames, hostnames).length === 0;
  return commonName === undefined || fields.subject.commonName === commonName;
}

async function accountKeys(
  { location, privateKey, publicKey, adoptedFrom }: KeyPair,
  { pkiDir }: KubeadmDirectories,
): Promise<TakenOver | undefined> {
  if (adoptedFrom === undefined) return undefined;
  const files = keyFiles(adoptedFrom, pkiDir);
  const [own, open] = [await readIfPresent(files.private, 'key'), await readIfPresent(files.public, 'key')];
  if (own === undefined || open === undefined) {
    const message = `Cannot adopt ${locationText(location)}: "${files.private}" and "${files.public}" must both be there; without them every token would become invalid`;
    throw new RecoveryError('MaterialInvalid', message);
  }
  return { material: { entries: { [privateKey]: own, [publicKey]: open }, annotations: {} }, from: files.private };
}

// All API servers share one serving certificate. It must hold the names of this machine before its API server reads it:
// containers add the names that their own configuration declares, but only once they run, and containers on another
// machine declare the names of that machine. Until then clients that reach this API server by one of its names would be
// refused. Existing names stay, so machines with different names arrive at one certificate.

const attempts = 20;
const pauseMs = 250;

/** Names that no entry of `held` covers. */
function missingNames(held: readonly string[], wanted: readonly string[]): readonly string[] {
  return wanted.filter((name) => !held.some((one) => one === name || dnsNameCovers(one, name)));
}

/** Material with all names in the serving certificates. Throws SignFailed, MaterialInvalid, KubeConflict. */
export async function completeNames(
  material: ReadonlyMap<string, Material>,
  options: FirstObjects,
): Promise<ReadonlyMap<string, Material>> {
  const completed = new Map(material);
  for (const artefact of options.resolved.artefacts) {
    if (artefact.kind !== 'target' || artefact.usage === 'client') continue;
    completed.set(artefact.name, await withAllNames(artefact, material, options));
  }
  return completed;
}

async function withAllNames(
  artefact: ResolvedTarget,
  material: ReadonlyMap<string, Material>,
  { resolved, store, clock, signal, print }: FirstObjects,
): Promise<Material> {
  const { name, location } = artefact;
  const what = locationText(location);
  let missing: readonly string[] = [];
  for (let attempt = 1; attempt <= attempts && !signal.aborted; attempt += 1) {
    const found = await store.read(location, signal);
    if (found === undefined) break;
    const leaf = leafOf(found);
    missing = missingNames(leaf?.facts.hostnames ?? [], artefact.hostnames);
    if (missing.length === 0) return found;
    const next = await make(artefact, {
      resolved,
      material: new Map<string, Material>([...material, [name, found]]),
      takeKey: () => generateKey(leaf?.facts.key ?? defaultKeyAlgorithm),
      now: clock.now(),
    });
    if ((await store.write(location, next, { version: found.version }, signal)) === 'written') {
      print(`Renewed ${what}, which did not hold ${missing.join(', ')}`);
      return next;
    }
    await clock.sleep(pauseMs, signal); // a machine that runs already, or another being adopted, has just written it
  }
  const state =
    missing.length === 0 ? 'it is gone' : `it does not hold ${missing.join(', ')}, and others keep writing it`;
  throw new RecoveryError('KubeConflict', `Cannot give this machine's names to ${what}: ${state}; run this again`);
}
