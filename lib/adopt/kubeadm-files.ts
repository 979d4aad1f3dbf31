// Where a kubeadm cluster has what the inventory `kubernetes` keeps in the API, and what its files and its API say of it.
// Its CAs stay the cluster's CAs, so nobody who trusts them today has to learn of another one: kubelets verify the API
// server by them, and the API server verifies kubelets by them. Leaves are taken over as they are, service-account keys
// too: another key would make every token worthless.
import { join } from 'node:path';
import { canonicalHostnames } from '../pki/names.ts';
import type { Api } from '../install/apply.ts';
import { readIfPresent } from '../install/existing-files.ts';
import type { DiskLocation, Endpoints, Resolved, ResolvedArtefact } from '../inventory/model.ts';
import type { KubeConnection } from '../kube/kube.ts';
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

/** A control-plane machine of kubeadm that is adopted, or given back. */
export interface MachineOptions extends KubeadmDirectories, ManifestsLocking {
  /** As an administrator. */
  readonly connection: KubeConnection;
  readonly resolved: Resolved;
  /** Of our files. Absolute path. */
  readonly directory: string;
  readonly nodeName: string;
  readonly signal: AbortSignal;
  /** Writes nothing, and tells what would be written. */
  readonly dryRun: boolean;
  /** Called with a line for each step that is done. */
  readonly print: (line: string) => void;
}

/** A certificate and its key on disk that an artefact of the API begins with; undefined where kubeadm has none. */
export function sourceOf(
  { kind, adoptedFrom }: ResolvedArtefact,
  { kubernetesDir, pkiDir }: KubeadmDirectories,
): DiskLocation | undefined {
  if (adoptedFrom === undefined || (kind !== 'signer' && kind !== 'target')) return undefined;
  if (adoptedFrom.endsWith('.conf'))
    return { kind: 'kubeconfig', file: join(kubernetesDir, adoptedFrom), endpoint: 'local' };
  return { kind: 'pemPair', certFile: join(pkiDir, `${adoptedFrom}.crt`), keyFile: join(pkiDir, `${adoptedFrom}.key`) };
}

/** Whether people use what the artefact begins with: kubeadm's own components run without it. */
export const isForPeople = ({ readers }: ResolvedArtefact): boolean =>
  readers.some(({ component }) => component === 'admin');

/** A key pair without certificate (service-account keys). */
export function keyFiles(name: string, pkiDir: string): { readonly private: string; readonly public: string } {
  return { private: join(pkiDir, `${name}.key`), public: join(pkiDir, `${name}.pub`) };
}

// What the certificates on a machine of kubeadm say beyond what the inventory declares. An adoption takes nothing away
// and gives nothing: a client that reaches the API server by a name today does so tomorrow, and an administrator has the
// rights that the certificate on the machine has, not those of the declaration.

/** The declarations, with the names of the serving certificate that is there and subjects that are to be kept. */
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

/** Also one that has expired, or whose key is lost: it still says who it was for. */
export function leafOf(found: Pick<Material, 'entries'> | undefined): Certificate | undefined {
  return wholeCertificates(found?.entries[certificateKey] ?? new Uint8Array())[0];
}

/** kubeadm's own since 1.29 (constants.ClusterAdminsGroupAndClusterRoleBinding): its rights can be taken back. */
const administrators = 'kubeadm:cluster-admins';

/** Who has removed the administrator's kubeconfig gets no more rights by an adoption than it had. */
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

/** Bundles of the API, and the file of kubeadm whose every valid certificate they must hold. */
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

/** The CAs that readers on the machine trust, in PEM by name below pkiDir; empty where there is none. Throws ReadFailed. */
export async function readAuthorities(resolved: Resolved, pkiDir: string): Promise<ReadonlyMap<string, Uint8Array>> {
  const named = [...bundlesWith(resolved, 'adoptedFrom'), ...bundlesWith(resolved, 'givenBackTo')];
  const read = [...new Set(named.map(({ file }) => file))].map(async (file) => {
    const bytes = await readIfPresent(join(pkiDir, file), 'CA');
    return [file, bytes ?? new Uint8Array()] as const;
  });
  return new Map(await Promise.all(read));
}

// What the machines of a kubeadm cluster say of the names at which its API server is reached: the certificate that it
// serves now, and the control planes that the cluster knows. The one certificate that all of them will share holds all.

interface PodList {
  readonly items?: readonly {
    readonly spec?: { readonly nodeName?: string };
    readonly status?: { readonly hostIP?: string };
  }[];
}

/** Node names and addresses of every control plane whose kube-apiserver is a static pod of kubeadm's. */
export async function controlPlaneNames({ connection, signal }: Api): Promise<readonly string[]> {
  const selector = encodeURIComponent('component=kube-apiserver,tier=control-plane');
  const path = `/api/v1/namespaces/kube-system/pods?labelSelector=${selector}`;
  const { items = [] } = await connection.request<PodList>({ method: 'GET', path, signal });
  return items.flatMap(({ spec, status }) => [spec?.nodeName ?? [], status?.hostIP ?? []].flat());
}

/** Names in the certificate that kube-apiserver was given by kubeadm; none where there is none. */
export async function servedNames(pkiDir: string): Promise<readonly string[]> {
  const path = join(pkiDir, 'apiserver.crt');
  const bytes = await readIfPresent(path, 'certificate');
  return bytes === undefined ? [] : (wholeCertificates(bytes)[0]?.facts.hostnames ?? []);
}

/** One list, each name once, in its one spelling, without what the inventory declares by itself. */
export function joinNames(declared: readonly string[], ...found: readonly (readonly string[])[]): readonly string[] {
  return canonicalHostnames(found.flat()).filter((name) => !declared.includes(name));
}

/** The API server of this machine, for components on the same machine. By address: no resolver is needed then. */
export function localServer({ local = '' }: Endpoints): string {
  const url = URL.parse(local);
  const host = url?.hostname.startsWith('[') === true ? '[::1]' : '127.0.0.1';
  const port = url === null ? 6443 : serverAddress(url).port;
  return `https://${host}:${port}`;
}
