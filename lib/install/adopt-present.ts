// What the certificates on a machine of kubeadm say beyond what the inventory declares. An adoption takes nothing away
// and gives nothing: whoever reaches the API server by a name today does so tomorrow, and an administrator has the
// rights that the certificate on the machine has, not those of the declaration.
import type { DiskLocation, Resolved, ResolvedArtefact } from '../inventory/model.ts';
import { type Certificate, wholeCertificates } from '../pki/certificate.ts';
import { canonicalHostnames } from '../pki/names.ts';
import { createDiskStore } from '../store/disk.ts';
import { certificateKey } from '../store/store.ts';
import { isForPeople, type KubeadmDirectories, sourceOf } from './adopt-sources.ts';

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
    const leaf = source && (await leafAt(source, signal));
    artefacts.push(leaf === undefined ? withoutFile(artefact) : declaredLike(artefact, leaf));
  }
  return { ...resolved, artefacts };
}

/** Also one that has expired, or whose key is lost: it still says who it was for. */
async function leafAt(source: DiskLocation, signal: AbortSignal): Promise<Certificate | undefined> {
  const found = await createDiskStore().read(source, signal);
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
