// Kubeconfigs of the components and of people, which name files that the syncer writes. Pure.
import type { Resolved, ResolvedArtefact } from '../inventory/model.ts';
import { caBundleKey, certificateKey, privateKeyKey } from '../store/store.ts';
import { kubeconfigClients, localServing, serverBundle } from './component-flags.ts';
import { kubeconfigYaml } from './kubeconfig.ts';
import { fileOf, kubeconfigFile, type Layout } from './layout.ts';

export interface ComponentKubeconfig {
  readonly component: string;
  readonly path: string;
  readonly content: string;
}

/** Of every client whose certificate and whose CA bundle are published below this layout. */
export function componentKubeconfigs(
  { artefacts }: Resolved,
  layout: Layout,
  server: string,
  /** For people. */
  adminServer = server,
): readonly ComponentKubeconfig[] {
  const named = new Map<string, ResolvedArtefact>(artefacts.map((artefact) => [artefact.name, artefact]));
  const file = (name: string, key: string): string | undefined => {
    const artefact = named.get(name);
    return artefact && fileOf(artefact, key, layout);
  };
  const certificateAuthority = file(serverBundle, caBundleKey);
  if (certificateAuthority === undefined) return [];
  return kubeconfigClients.flatMap(([component, name]) => {
    const [certFile, keyFile] = [file(name, certificateKey), file(name, privateKeyKey)];
    if (certFile === undefined || keyFile === undefined) return [];
    const isLocal = component !== 'admin' && named.has(localServing.artefact);
    const content = kubeconfigYaml({
      server: component === 'admin' ? adminServer : server,
      certificateAuthority,
      ...(isLocal && { tlsServerName: localServing.serverName }),
      user: { name: component, certFile, keyFile },
    });
    return [{ component, path: kubeconfigFile(layout, component), content }];
  });
}
