// What the machines of a kubeadm cluster say of the names at which its API server is reached: the certificate that it
// serves now, and the control planes that the cluster knows. The one certificate that all of them will share holds all.
import { join } from 'node:path';
import type { Endpoints } from '../inventory/model.ts';
import { serverAddress } from '../kube/server-address.ts';
import { canonicalHostnames } from '../pki/names.ts';
import { wholeCertificates } from '../pki/certificate.ts';
import type { Api } from './apply.ts';
import { readIfPresent } from './files.ts';

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

/** The API server of this machine, for whoever lives beside it. By address: no resolver is needed then. */
export function localServer({ local = '' }: Endpoints): string {
  const url = URL.parse(local);
  const host = url?.hostname.startsWith('[') === true ? '[::1]' : '127.0.0.1';
  const port = url === null ? 6443 : serverAddress(url).port;
  return `https://${host}:${port}`;
}
