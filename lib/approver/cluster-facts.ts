// Names of the cluster itself, for cluster-names.ts: the certificates that kube-apiserver serves now, the ranges of
// Services, and whether a requested name is a Service's. Throws when a query fails: then the request waits.
import { serverAddress } from '../address.ts';
import { steadyMs } from '../clock.ts';
import { errorText, isCode, RecoveryError } from '../errors.ts';
import { list } from '../kube/list.ts';
import { getIfPresent } from '../kube/objects.ts';
import { collectionPath, resourcePath } from '../kube/resources.ts';
import { parseCertificates } from '../pki/certificate.ts';
import { servedChain } from '../proof/served.ts';
import { checkedHostname } from '../inventory/values.ts';
import { type ClusterNames, serviceNameOf } from './cluster-names.ts';
import type { SourceOptions } from './addresses.ts';
import type { AskedName } from './serving-request.ts';

/** The API server's names change when it is set up again. */
const staysMs = 10 * 60_000;
/** Long, because the API server is slow after an outage. */
const timeoutMs = 10_000;

type Lasting = Pick<ClusterNames, 'served' | 'serviceRanges'>;

/** networking.k8s.io/v1, since Kubernetes 1.33. */
interface ServiceCidr {
  readonly spec?: { readonly cidrs?: readonly string[] };
}

export class ClusterFacts {
  readonly #options: SourceOptions;
  #lasting: { readonly atMs: number; readonly read: Promise<Lasting> } | undefined;

  constructor(options: SourceOptions) {
    this.#options = options;
  }

  /**
   * Facts that may be ten minutes old, enough for a refusal. Throws ProofFailed where the API server does not show its
   * certificate, and errors of the other queries.
   */
  async namesFor(asked: readonly AskedName[]): Promise<ClusterNames> {
    const [lasting, services] = await Promise.all([this.#read(), this.#servicesOf(asked)]);
    return { ...lasting, services };
  }

  /**
   * Facts of now, for an approval: also the certificate that the API server serves to clients of each requested name,
   * as it may have one of its own (`--tls-sni-cert-key`). Throws as namesFor does.
   */
  async namesNow(asked: readonly AskedName[]): Promise<ClusterNames> {
    const serverNames = asked.flatMap(({ kind, value }) => (kind === 'DNS' ? [value] : []));
    const [lasting, services] = await Promise.all([this.#readNow(serverNames), this.#servicesOf(asked)]);
    return { ...lasting, services };
  }

  #read(): Promise<Lasting> {
    const nowMs = steadyMs(this.#options.clock);
    if (this.#lasting !== undefined && nowMs - this.#lasting.atMs < staysMs) return this.#lasting.read;
    return this.#readNow();
  }

  #readNow(serverNames: readonly string[] = []): Promise<Lasting> {
    const read = Promise.all([this.#served(serverNames), this.#serviceRanges()]).then(([served, serviceRanges]) => ({
      served,
      serviceRanges,
    }));
    const lasting = { atMs: steadyMs(this.#options.clock), read };
    this.#lasting = lasting;
    read.catch(() => {
      if (this.#lasting === lasting) this.#lasting = undefined;
    });
    return read;
  }

  /**
   * Names of the certificates that the API server serves, wildcards too. Without SNI it shows its default certificate;
   * with the name that pods use, or one of `serverNames`, another one where SNI certificates are configured.
   */
  async #served(serverNames: readonly string[]): Promise<ReadonlySet<string>> {
    const { connection, clock, signal } = this.#options;
    const cannot = (problem: string, cause?: unknown): RecoveryError => {
      const message = `Cannot ask the API server at ${connection.server} which names are its own: ${problem}`;
      return new RecoveryError('ProofFailed', message, { cause });
    };
    const url = URL.parse(connection.server);
    if (url === null) throw cannot('that is no address');
    const { host, port } = serverAddress(url);
    const names = await Promise.all(
      [...new Set(['127.0.0.1', 'kubernetes.default.svc', host, ...serverNames])].map(async (serverName) => {
        const asking = { host, port, serverName, timeoutMs, clock, signal };
        const pem = await servedChain(asking).catch((err: unknown) => {
          throw cannot(errorText(err), err);
        });
        const [leaf] = parseCertificates(Buffer.from(pem), `the API server at ${connection.server}`);
        return leaf?.facts.hostnames ?? [];
      }),
    );
    return new Set(names.flat().flatMap(canonicalPattern));
  }

  async #serviceRanges(): Promise<readonly string[]> {
    const { connection, signal } = this.#options;
    const path = collectionPath('ServiceCIDR');
    try {
      const { objects } = await list<ServiceCidr>({ connection, path, signal });
      return objects.flatMap(({ spec }) => spec?.cidrs ?? []);
    } catch (err) {
      if (isCode(err, 'KubeNotFound')) return []; // an older API server has no such kind
      throw err;
    }
  }

  async #servicesOf(asked: readonly AskedName[]): Promise<ReadonlySet<string>> {
    const found = await Promise.all(
      [...servicesAsked(asked)].map(async ([path, names]) =>
        (await getIfPresent(this.#options, path)) === undefined ? [] : names.map(({ value }) => value),
      ),
    );
    return new Set(found.flat());
  }
}

/** `*.example.com` as well, unlike in a request. */
function canonicalPattern(name: string): readonly string[] {
  const wildcard = name.startsWith('*.') ? '*.' : '';
  const rest = checkedHostname(name.slice(wildcard.length));
  return rest === undefined ? [] : [`${wildcard}${rest}`];
}

/** Requested names that may be those of Services, by the path of the Service: each is one read. */
export function servicesAsked(asked: readonly AskedName[]): ReadonlyMap<string, readonly AskedName[]> {
  const paths = new Map<string, AskedName[]>();
  for (const one of asked) {
    const service = serviceNameOf(one);
    if (service === undefined) continue;
    const path = resourcePath('Service', service);
    paths.set(path, [...(paths.get(path) ?? []), one]);
  }
  return paths;
}
