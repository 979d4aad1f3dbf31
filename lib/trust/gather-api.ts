// What the API knows of the trust of a cluster: what it publishes, caBundles, and what servers show at the addresses that
// it has of them. Impure: it asks the API, and makes handshakes.
import { errorText } from '../errors.ts';
import { bundleSources, caBundlesOf } from './gather-bundles.ts';
import { gatherPublished } from './gather-published.ts';
import { apiServers, kubelets, meetAll, type ServerRequest } from './gather-servers.ts';
import type { GatheredTrust } from './gather-trust.ts';
import type { TrustFacts } from './trust-facts.ts';

/** Adds it to the facts of a machine. What may not be read is a note. Never throws. */
export async function withApi(facts: TrustFacts, request: ServerRequest): Promise<GatheredTrust> {
  const notes: string[] = [];
  const read = <T>(what: string, all: Promise<readonly T[]>): Promise<readonly T[]> =>
    all.catch((err: unknown) => {
      notes.push(`Not verified: ${what}: ${errorText(err)}`);
      return [];
    });
  const published = await gatherPublished(request);
  const found = await Promise.all(
    bundleSources.map((one) => read(`caBundles of ${one.kind}s`, caBundlesOf(one, request))),
  ).then((all) => all.flat());
  const servers = [
    ...(await read('kubelets of Nodes', kubelets(facts, request))),
    ...(await read('API servers', apiServers(facts, request))),
  ];
  const bundles = found.map(({ bundle }) => bundle);
  const contents = found.map(({ bundle, content }) => [bundle.name, content] as const);
  const files = new Map([...facts.files, ...published, ...contents, ...(await meetAll(servers, request))]);
  return { facts: { ...facts, files, bundles, servers }, notes };
}
