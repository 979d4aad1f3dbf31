// Files of a kubeadm cluster that hold the content of the inventory `kubernetes`, and the names and subjects in its
// files and its API. Its CAs stay the cluster's CAs, so their trust needs no redistribution: kubelets verify the API
// server by them, and the API server verifies kubelets by them. Leaves are taken over unchanged, service-account keys
// too: another key would invalidate every token.
import { join } from 'node:path';
import { canonicalHostnames } from '../pki/names.ts';
import type { Api } from '../install/apply.ts';
import { readIfPresent } from '../install/existing-files.ts';
import type { DiskLocation, Endpoints, Resolved, ResolvedArtefact } from '../inventory/model.ts';
import type { KubeConnection } from '../kube/kube.ts';
import type { PodList } from '../kube/received.ts';
import { serverAddress } from '../address.ts';
import { type Certificate, wholeCertificates } from '../pki/certificate.ts';
import { createDiskStore } from '../store/disk-store.ts';
import type { Material } from '../store/store.ts';
import type { ManifestsLocking } from './manifests-lock.ts';
import { certificateKey } from '../inventory/content.ts';

export interface KubeadmDirectories {
  readonly kubernetesDir: string;
  readonly pkiDir: string;
}

/** A control-plane machine of kubeadm that is adopted or given back. */
export interface MachineOptions extends KubeadmDirectories, ManifestsLocking {
  /** Administrator's connection. */
  readonly connection: KubeConnection;
  readonly resolved: Resolved;
  /** Absolute path of the directory for our files. */
  readonly directory: string;
  readonly nodeName: string;
  readonly signal: AbortSignal;
  /** Writes nothing, and prints what would be written. */
  readonly dryRun: boolean;
  /** Called with a line for each completed step. */
  readonly print: (line: string) => void;
}

/** Certificate and key on disk that an artefact of the API starts from; undefined where kubeadm has none. */
export function sourceOf(
  { kind, adoptedFrom }: ResolvedArtefact,
  { kubernetesDir, pkiDir }: KubeadmDirectories,
): DiskLocation | undefined {
  if (adoptedFrom === undefined || (kind !== 'signer' && kind !== 'target')) return undefined;
  if (adoptedFrom.endsWith('.conf'))
    return { kind: 'kubeconfig', file: join(kubernetesDir, adoptedFrom), endpoint: 'local' };
  return { kind: 'pemPair', certFile: join(pkiDir, `${adoptedFrom}.crt`), keyFile: join(pkiDir, `${adoptedFrom}.key`) };
}

/** Whether the artefact starts from an administrator's file: kubeadm's own components run without it. */
export const isForPeople = ({ readers }: ResolvedArtefact): boolean =>
  readers.some(({ component }) => component === 'admin');

/** Key pair without a certificate (service-account keys). */
export function keyFiles(name: string, pkiDir: string): { readonly private: string; readonly public: string } {
  return { private: join(pkiDir, `${name}.key`), public: join(pkiDir, `${name}.pub`) };
}

// Names and subjects in the certificates of a kubeadm machine that the inventory does not declare. An adoption takes
// nothing away and grants nothing: clients reach the API server by the same names as before, and an administrator keeps
// the rights of the certificate on the machine, not those of the declaration.

/** Adds the names of the existing serving certificate to the declarations, and subjects that must be kept. */
export async function asPresent(
  resolved: Resolved,
  directories: KubeadmDirectories,
  signal: AbortSignal,
): Promise<Resolved> {
  const artefacts: ResolvedArtefact[] = [];
  for (const artefact of resolved.artefacts) {
    const isWanted = artefact.kind === 'target' && (artefact.usage !== 'client' || artefact.keepsSubject === true);
    const source = isWanted ? sourceOf(artefact, directories) : undefined;
    const leaf = source && leafOf(await createDiskStore().read(source, signal));
    artefacts.push(leaf === undefined ? withoutFile(artefact) : declaredLike(artefact, leaf));
  }
  return { ...resolved, artefacts };
}

/** Accepts an expired certificate, and one without its key: its names and subject are still right. */
export function leafOf(found: Pick<Material, 'entries'> | undefined): Certificate | undefined {
  return wholeCertificates(found?.entries[certificateKey])[0];
}

/** kubeadm's own group since 1.29 (constants.ClusterAdminsGroupAndClusterRoleBinding): its rights can be revoked. */
const administrators = 'kubeadm:cluster-admins';

/** A machine without the administrator's kubeconfig gets no more rights by an adoption than it had. */
function withoutFile(artefact: ResolvedArtefact): ResolvedArtefact {
  if (artefact.kind !== 'target' || !isForPeople(artefact)) return artefact;
  return { ...artefact, organizations: [administrators] };
}

function declaredLike(artefact: ResolvedArtefact, { facts, fields }: Certificate): ResolvedArtefact {
  if (artefact.kind !== 'target') return artefact;
  if (artefact.usage !== 'client') {
    return { ...artefact, hostnames: canonicalHostnames([...artefact.hostnames, ...facts.hostnames]) };
  }
  const { commonName, organizations } = fields.subject;
  return { ...artefact, commonName, organizations };
}

/** Bundles of the API, each with the kubeadm file that `field` names. */
export function bundlesWith(
  { artefacts }: Pick<Resolved, 'artefacts'>,
  field: 'adoptedFrom' | 'givenBackTo',
): readonly { readonly name: string; readonly file: string }[] {
  return artefacts.flatMap((artefact) => {
    const { name, kind, [field]: authority } = artefact;
    const isBundle = kind === 'caBundle' || kind === 'composedBundle';
    return isBundle && authority !== undefined ? [{ name, file: `${authority}.crt` }] : [];
  });
}

/** CAs in PEM that readers on the machine trust, by file below pkiDir; empty for absent files. Throws ReadFailed. */
export async function readAuthorities(resolved: Resolved, pkiDir: string): Promise<ReadonlyMap<string, Uint8Array>> {
  const named = [...bundlesWith(resolved, 'adoptedFrom'), ...bundlesWith(resolved, 'givenBackTo')];
  const read = [...new Set(named.map(({ file }) => file))].map(async (file) => {
    const bytes = await readIfPresent(join(pkiDir, file), 'CA');
    return [file, bytes ?? new Uint8Array()] as const;
  });
  return new Map(await Promise.all(read));
}

// Names by which clients reach the API servers of a kubeadm cluster: those in the certificate served now, and those of
// the control planes that the API lists. The one certificate that all API servers will share holds all of them.

/** Node names and addresses of every control plane whose kube-apiserver is a static pod made by kubeadm. */
export async function controlPlaneNames({ connection, signal }: Api): Promise<readonly string[]> {
  const selector = encodeURIComponent('component=kube-apiserver,tier=control-plane');
  const path = `/api/v1/namespaces/kube-system/pods?labelSelector=${selector}`;
  const { items } = await connection.request<PodList>({ method: 'GET', path, signal });
  return (items ?? []).flatMap(({ spec, status }) => [spec?.nodeName ?? [], status?.hostIP ?? []].flat());
}

/** Names in the certificate that kubeadm made for kube-apiserver; none where the file is absent. */
export async function servedNames(pkiDir: string): Promise<readonly string[]> {
  const path = join(pkiDir, 'apiserver.crt');
  const bytes = await readIfPresent(path, 'certificate');
  return wholeCertificates(bytes)[0]?.facts.hostnames ?? [];
}

/** One list, each name once in its canonical spelling, without names that the inventory declares itself. */
export function joinNames(declared: readonly string[], ...found: readonly (readonly string[])[]): readonly string[] {
  return canonicalHostnames(found.flat()).filter((name) => !declared.includes(name));
}

/** API server of this machine for components on the same machine; an address needs no resolver. */
export function localServer({ local = '' }: Endpoints): string {
  const url = URL.parse(local);
  const host = url?.hostname.startsWith('[') === true ? '[::1]' : '127.0.0.1';
  const port = url === null ? 6443 : serverAddress(url).port;
  return `https://${host}:${port}`;
}
