// The first generation of a cluster that kubeadm has made: what the API has already, else what kubeadm's files hold, else
// made anew with the cluster's CAs. Written create-only, each artefact before those that need it, so a killed run is
// completed by the next and two machines that adopt at once come to one generation.
import type { Clock } from '../clock.ts';
import { RecoveryError } from '../errors.ts';
import type { KeyPair, Resolved, ResolvedArtefact } from '../inventory/model.ts';
import { annotationsOf } from '../issue/annotations.ts';
import { parseCertificates } from '../pki/certificate.ts';
import { dnsNameCovers } from '../pki/hostname.ts';
import { createDiskStore } from '../store/disk.ts';
import { certificateKey, locationText, type Material, privateKeyKey, type Store } from '../store/store.ts';
import { accountKeyFiles, type KubeadmDirectories, sourceOf } from './adopt-sources.ts';
import { readRegularIfPresent } from './files.ts';
import { makeGeneration } from './generation.ts';

export interface AdoptMaterial {
  /** Artefacts in the API alone. */
  readonly resolved: Resolved;
  readonly directories: KubeadmDirectories;
  /** Of the API. */
  readonly store: Store;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

export interface AdoptedMaterial {
  /** As the API has it now, by artefact. */
  readonly material: ReadonlyMap<string, Material>;
  /** Objects that were made, and where what they hold comes from: the path of kubeadm's file, or undefined. */
  readonly created: readonly { readonly what: string; readonly from?: string }[];
}

const defaultKeyAlgorithm = { name: 'RSA', bits: 2048 } as const;

/** Throws MaterialInvalid, ReadFailed, SignFailed, KubeConflict, and what the API refuses. */
export async function adoptMaterial(options: AdoptMaterial): Promise<AdoptedMaterial> {
  const { resolved, store, clock, signal } = options;
  const existing = new Map<string, Material>();
  const sources = new Map<string, string>();
  const isThere = new Set<string>();
  for (const artefact of resolved.artefacts) {
    const found = await store.read(artefact.truth, signal);
    if (found !== undefined) {
      existing.set(artefact.name, found);
      isThere.add(artefact.name);
      continue;
    }
    const taken = await takeOver(artefact, options);
    if (taken === undefined) continue;
    existing.set(artefact.name, taken.material);
    sources.set(artefact.name, taken.from);
  }
  const made = new Map<string, Material>();
  const created: { what: string; from?: string }[] = [];
  const now = clock.now();
  for await (const one of makeGeneration({
    resolved,
    now,
    keyAlgorithm: defaultKeyAlgorithm,
    existing,
    inUse: (name) => isThere.has(name),
  })) {
    const { name, truth } = one.artefact;
    made.set(name, one.material);
    if (isThere.has(name)) continue;
    const what = locationText(truth);
    if ((await store.write(truth, one.material, 'absent', signal)) === 'conflict') {
      const message = `Cannot create ${what}: somebody else has just made it, perhaps another machine that is adopted; run this again`;
      throw new RecoveryError('KubeConflict', message);
    }
    const from = sources.get(name);
    created.push({ what, ...(from !== undefined && { from }) });
  }
  return { material: made, created };
}

interface TakenOver {
  readonly material: Material;
  readonly from: string;
}

async function takeOver(artefact: ResolvedArtefact, options: AdoptMaterial): Promise<TakenOver | undefined> {
  const { directories, clock, signal } = options;
  if (artefact.kind === 'keyPair') return accountKeys(artefact, directories);
  const source = sourceOf(artefact, directories);
  if (source === undefined) return undefined;
  const from = locationText(source);
  const found = await createDiskStore().read(source, signal);
  const { [certificateKey]: certificate, [privateKeyKey]: key } = found?.entries ?? {};
  if (certificate === undefined || key === undefined) {
    if (artefact.kind === 'target') return undefined; // made anew
    const missing = certificate === undefined ? 'is not there' : 'has no key on this machine';
    const message = `Cannot adopt ${from}: it ${missing}; what the cluster trusts cannot be kept without it; bring it here, it becomes a Secret, or leave this cluster to kubeadm`;
    throw new RecoveryError('MaterialInvalid', message);
  }
  const [leaf] = parseCertificates(certificate, from, 'skipped');
  if (leaf === undefined || leaf.facts.notAfter <= clock.now()) {
    if (artefact.kind === 'target') return undefined;
    throw new RecoveryError('MaterialInvalid', `Cannot adopt ${from}: it has expired; renew the CA first`);
  }
  if (artefact.kind === 'target' && !holdsAll(leaf.facts.hostnames, artefact.hostnames)) return undefined;
  const entries = { [certificateKey]: certificate, [privateKeyKey]: key };
  return { material: { entries, annotations: annotationsOf(artefact.truth, leaf) }, from };
}

const holdsAll = (held: readonly string[], wanted: readonly string[]): boolean =>
  wanted.every((name) => held.some((one) => one === name || dnsNameCovers(one, name)));

async function accountKeys(
  { truth, privateKey, publicKey }: KeyPair,
  directories: KubeadmDirectories,
): Promise<TakenOver> {
  const files = accountKeyFiles(directories);
  const [own, open] = [
    await readRegularIfPresent(files.private, 'key'),
    await readRegularIfPresent(files.public, 'key'),
  ];
  if (own === undefined || open === undefined) {
    const message = `Cannot adopt ${locationText(truth)}: "${files.private}" and "${files.public}" must both be there; without them every token would become invalid`;
    throw new RecoveryError('MaterialInvalid', message);
  }
  return { material: { entries: { [privateKey]: own, [publicKey]: open }, annotations: {} }, from: files.private };
}
