// The URLs by which the components of this machine ask its API server: a load balancer on this machine, which no other file
// names. Impure: it reads files, and nothing else. Never fails because of a file.
import { isComponent } from '../../components.ts';
import { readKubeconfigView, type Source } from '../../kubeconfig/document.ts';
import { type Certificate, wholeCertificates } from '../../pki/certificate.ts';
import { signatureMatches } from '../../pki/verify.ts';
import { pathHere, type PlacesHere } from '../located.ts';
import type { Artefact } from '../model.ts';
import type { MachineFiles } from './machine-files.ts';

/**
 * A component uses the current context of its kubeconfig, whatever its names are. It is this machine's where the CA of this
 * machine has signed its certificate: the kubeconfig of another cluster has one of that cluster's CA.
 */
export async function componentServers(
  artefacts: readonly Artefact[],
  places: PlacesHere,
  text: MachineFiles['text'],
): Promise<readonly string[]> {
  const certificatesIn = async (file: string): Promise<readonly Certificate[]> =>
    wholeCertificates(Buffer.from((await text(file)) ?? ''));
  const heldBy = async (source: Source): Promise<readonly Certificate[]> =>
    source.kind === 'file'
      ? certificatesIn(source.file)
      : wholeCertificates((source.kind === 'data' && source.bytes) || Buffer.of());
  const found = artefacts.map(async (artefact): Promise<readonly string[]> => {
    const { kind, location, readers } = artefact;
    if (kind !== 'target' || location.kind !== 'kubeconfig') return [];
    if (!readers.some(({ component }) => isComponent(component))) return [];
    const file = pathHere(location.file, places);
    const view = readKubeconfigView(file, Buffer.from((await text(file)) ?? ''), {});
    if (!('user' in view) || view.server === undefined) return [];
    const signer = artefacts.find(({ name }) => name === artefact.issuer)?.location;
    const authorities = signer?.kind === 'pemPair' ? await certificatesIn(pathHere(signer.certFile, places)) : [];
    const [leaf] = await heldBy(view.certificate);
    const isOwn = leaf !== undefined && authorities.some((authority) => signatureMatches(leaf, authority));
    return isOwn ? [view.server] : [];
  });
  return [...new Set((await Promise.all(found)).flat())];
}
