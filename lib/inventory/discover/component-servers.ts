// The URLs at which the components of this machine reach its API server: a load balancer on this machine, which no
// other file names. Impure: it reads files, and nothing else. Never fails because of a file.
import { isComponent } from '../../components.ts';
import { signatureMatches } from '../../pki/verify.ts';
import { pathHere, type PlacesHere } from '../places.ts';
import type { Artefact } from '../model.ts';
import { certificatesIn, heldByKubeconfig, type MachineFiles } from './machine-files.ts';

export interface ComponentServer {
  readonly url: string;
  /** Endpoint of its kubeconfig in the inventory. */
  readonly endpoint: Extract<Artefact['location'], { readonly kind: 'kubeconfig' }>['endpoint'];
  /** Whether it verifies the host of the URL against the names of the server's certificate. */
  readonly checksHost: boolean;
}

/**
 * Returns the servers of components, from the current context of their kubeconfigs, whatever its names are. A server is
 * this machine's where the CA of this machine has signed the kubeconfig's certificate: another cluster's kubeconfig has
 * a certificate of that cluster's CA.
 */
export async function componentServers(
  artefacts: readonly Artefact[],
  places: PlacesHere,
  text: MachineFiles['text'],
): Promise<readonly ComponentServer[]> {
  const found = artefacts.map(async (artefact): Promise<readonly ComponentServer[]> => {
    const { kind, location, readers } = artefact;
    if (kind !== 'target' || location.kind !== 'kubeconfig') return [];
    if (!readers.some(({ component }) => isComponent(component))) return [];
    const file = pathHere(location.file, places);
    const { server, leaf, checksHost = true } = (await heldByKubeconfig(file, text)) ?? {};
    if (server === undefined || leaf === undefined) return [];
    const signer = artefacts.find(({ name }) => name === artefact.issuer)?.location;
    const authorities = signer?.kind === 'pemPair' ? await certificatesIn(pathHere(signer.certFile, places), text) : [];
    return authorities.some((authority) => signatureMatches(leaf, authority))
      ? [{ url: server, endpoint: location.endpoint, checksHost }]
      : [];
  });
  return (await Promise.all(found)).flat();
}
