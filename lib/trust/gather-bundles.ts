// caBundles of admission webhooks, of conversions and of aggregated API servers. Impure: it lists their objects.
import { bareHost } from '../address.ts';
import { list, type ListOptions } from '../kube/list.ts';
import type { VerifyingConfig, VerifyingObject } from '../kube/received.ts';
import { collectionPath } from '../kube/resources.ts';
import { entryContent } from './gather-published.ts';
import { bundleKinds } from './relations.ts';
import type { BundleOfServer, FileHere } from './trust-facts.ts';

const ids = Object.keys(bundleKinds) as readonly BundleOfServer['id'][];
export const bundleSources = ids.flatMap((id) => bundleKinds[id].of.map((kind) => ({ id, kind })));

interface Found {
  readonly bundle: BundleOfServer;
  readonly content: FileHere;
}

/** Throws errors of the API. */
export async function caBundlesOf(
  { id, kind }: (typeof bundleSources)[number],
  request: Pick<ListOptions<never, never>, 'connection' | 'signal'>,
): Promise<readonly Found[]> {
  const keep = ({ metadata, webhooks, spec }: VerifyingObject): readonly Found[] => {
    const name = `${kind} "${metadata?.name ?? ''}"`;
    return [
      ...(webhooks ?? []).flatMap((one) => foundIn(one.clientConfig, id, `${name} webhook "${one.name}"`)),
      ...foundIn(spec?.conversion?.webhook?.clientConfig ?? spec, id, name),
    ];
  };
  // A CustomResourceDefinition has its whole schema in it.
  const pages = { size: 50, keep };
  const listed = await list<VerifyingObject, readonly Found[]>({ ...request, path: collectionPath(kind), pages });
  return listed.objects.flat();
}

/** None where kube-apiserver asks no other server. */
function foundIn(config: VerifyingConfig | undefined, id: BundleOfServer['id'], name: string): readonly Found[] {
  const { service, caBundle } = config ?? {};
  const url = URL.parse(config?.url ?? '');
  if (!service && url === null) return [];
  const met = service
    ? { server: `Service "${service.namespace}/${service.name}"`, hostname: `${service.name}.${service.namespace}.svc` }
    : { server: `server "${url?.host}"`, hostname: url === null ? '' : bareHost(url) };
  const none =
    config?.insecureSkipTLSVerify === true
      ? 'insecureSkipTLSVerify is set, so kube-apiserver does not verify that server'
      : caBundle
        ? undefined
        : 'there is none, so the CAs of the operating system of kube-apiserver count';
  const content = entryContent(Buffer.from(caBundle ?? '', 'base64').toString('latin1'));
  return [{ bundle: { id, name: `${name} caBundle`, ...met, none }, content }];
}
