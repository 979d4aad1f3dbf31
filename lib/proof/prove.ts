// Whether an artefact is in use by its readers: one proof for each, by the kind that the inventory declares. Shared by
// the observer of files, status and a run on the host. A prover only queries; it changes nothing.
import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Address } from '../address.ts';
import type { Clock } from '../clock.ts';
import { type ErrorDetails, errorText, RecoveryError, systemCode } from '../errors.ts';
import { certificateKey, privateKeyKey } from '../inventory/content.ts';
import { fileOf, inKubeconfig, isFileOfItsOwn } from '../inventory/places.ts';
import type { Proof, Reader, Resolved, ResolvedArtefact } from '../inventory/model.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { readLease } from '../kube/leases.ts';
import { pollUntil } from '../retry.ts';
import type { Store } from '../store/store.ts';
import { nodePrefix } from '../well-known.ts';
import { type ApiProof, judgeRenewal, proveProxied, proveSignsCsr } from './api-proofs.ts';
import { askEtcdMembers, type EtcdHealthOptions, judgeQuorum, proveEtcdHealth } from './etcd-health.ts';
import { combineProofs, type ProofResult } from './result.ts';
import { fingerprintOf, proveServed, type ServedResult } from './served.ts';
import { trustOfReaders } from './trust-of-readers.ts';

interface AskOptions {
  /** Connects to the API, for the kinds that query it. */
  readonly connect?: () => Promise<KubeConnection>;
  /** The local API server's secure port, for `served`. */
  readonly apiServer?: Address | undefined;
  /** Directory that the syncer publishes to; files of this host need none. */
  readonly destinationDir?: string;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Inventory, which gives the CAs of the readers of a serving certificate. */
  readonly resolved?: Resolved;
  /** This node's host name: then a Lease held by another node is reported as such and proves nothing. */
  readonly hostName?: string | undefined;
}

interface ProofQuestion {
  readonly artefact: ResolvedArtefact;
  readonly proof: Proof;
  /** Time at which its files were put in place; anything before the boot of this machine proves nothing. */
  readonly publishedAt: Date;
}

type Unproven = ProofResult & { readonly state: 'unproven' };

/** Never rejects: a failed query is unproven, with the reason. */
function orUnproven<T extends ProofResult>(asked: Promise<T>): Promise<T | Unproven> {
  return asked.catch((err: unknown): Unproven => ({ state: 'unproven', message: errorText(err) }));
}

async function ask({ artefact, proof, publishedAt }: ProofQuestion, options: AskOptions): Promise<ProofResult> {
  const { connect, apiServer, destinationDir, resolved, clock, signal, hostName } = options;
  const api = async (): Promise<ApiProof> => {
    const connection = await connect?.();
    if (connection === undefined) throw cannotProve(artefact, 'no connection to the API server is known');
    return { connection, signal };
  };
  switch (proof.kind) {
    case 'served': {
      if (apiServer === undefined) throw cannotProve(artefact, 'the address of the API server is not known');
      const expected = fingerprintOf(await certificateOnDisk(artefact, destinationDir));
      const { serverName } = proof;
      const trust = resolved && (await trustOfReaders(artefact, { resolved, destinationDir, serverName }));
      return proveServed({ ...apiServer, serverName, expected, trust, clock, signal });
    }
    case 'lease': {
      const { namespace, name } = proof;
      // A holder that renewed its Lease before the boot has not read a file since: its process terminated with the
      // boot.
      const bootedMs = clock.now().getTime() - (clock.uptimeSeconds() ?? Infinity) * 1000;
      const since = new Date(Math.max(publishedAt.getTime(), bootedMs));
      const { connection } = await api();
      const lease = await readLease({ connection, lease: { namespace, name }, signal });
      return judgeRenewal({ lease, publishedAt: since, now: clock.now(), hostName });
    }
    case 'signsCsr':
      return proveSignsCsr((await certificateOnDisk(artefact, destinationDir)).toString(), await api());
    case 'proxied':
      return proveProxied(await api());
    case 'none':
      return { state: 'notApplicable', message: 'Use cannot be seen from outside' };
  }
}

const cannotProve = ({ name }: ResolvedArtefact, state: string, more: ErrorDetails = {}): RecoveryError =>
  new RecoveryError('ProofFailed', `Cannot prove use of "${name}": ${state}`, more);

export interface ProverOptions extends Omit<AskOptions, 'connect'> {
  readonly connection: KubeConnection;
}

/** Proves use by all readers of the artefact, or by the given readers. See ProofQuestion. Never rejects. */
export type Prove = (
  artefact: ResolvedArtefact,
  publishedAt: Date,
  readers?: readonly Reader[],
) => Promise<ProofResult>;

export function createProver({ connection, ...more }: ProverOptions): Prove {
  const options = { ...more, connect: async () => connection };
  const { clock, destinationDir } = options;

  /** Expiry of an expired certificate: use of it is no proof. Undefined: it is valid, or no certificate. */
  const expiredOnDisk = async (artefact: ResolvedArtefact): Promise<Date | undefined> => {
    const certificate = await certificateOnDisk(artefact, destinationDir).catch(() => undefined);
    return certificate !== undefined && certificate.validToDate <= clock.now() ? certificate.validToDate : undefined;
  };

  return async (artefact, publishedAt, readers = artefact.readers) => {
    const asked = readers.map(async ({ component, proof }): Promise<ProofResult> => {
      const result = await orUnproven(ask({ artefact, proof, publishedAt }, options));
      return { ...result, message: `${component}: ${result.message}` };
    });
    const proof = { ...combineProofs(await Promise.all(asked)), at: clock.now() };
    const expired = proof.state === 'proven' ? await expiredOnDisk(artefact) : undefined;
    if (expired === undefined) return proof;
    const at = expired.toISOString();
    return { ...proof, state: 'unproven', message: `The certificate on disk expired at ${at}; ${proof.message}` };
  };
}

/** Returns the leaf of a pair as its readers find it; the first certificate of a file with several. */
async function certificateOnDisk(
  artefact: ResolvedArtefact,
  destinationDir: string | undefined,
): Promise<X509Certificate> {
  const path = fileOf(artefact, certificateKey, destinationDir);
  if (!path) throw cannotProve(artefact, 'it has no certificate of its own');
  try {
    return new X509Certificate(await readFile(path));
  } catch (err) {
    const state = systemCode(err) ?? 'it holds no certificate';
    throw cannotProve(artefact, `file "${path}": ${state}`, { cause: err, details: { path } });
  }
}

export interface HostProofs extends Pick<AskOptions, 'apiServer' | 'clock' | 'signal' | 'hostName'> {
  readonly resolved: Resolved;
  /** Store of the files of this host. */
  readonly store: Pick<Store, 'read'>;
  /** Connects with a kubeconfig as credential. */
  readonly connect: (kubeconfig: string) => Promise<KubeConnection>;
}

/**
 * Proves that the API server here serves the certificate on disk, polling for `forMs` at most: a handshake needs no
 * credential. Undefined where no such certificate is known.
 */
export async function proveServedHere(forMs: number, options: HostProofs): Promise<ServedResult | undefined> {
  const { resolved, apiServer, clock, signal } = options;
  for (const artefact of resolved.artefacts) {
    const proof = artefact.readers.map((reader) => reader.proof).find(({ kind }) => kind === 'served');
    if (proof?.kind !== 'served' || !isFileOfItsOwn(artefact.location, certificateKey) || apiServer === undefined)
      continue;
    const { serverName } = proof;
    const look = async (): Promise<ServedResult> => {
      const expected = fingerprintOf(await certificateOnDisk(artefact, undefined));
      const trust = await trustOfReaders(artefact, { resolved, serverName });
      return proveServed({ ...apiServer, serverName, expected, trust, clock, signal });
    };
    return untilProven(look, forMs, options);
  }
  return undefined;
}

/**
 * Proves that the etcd member here is healthy and has a quorum, polling for `forMs` at most. Undefined where none is
 * known.
 */
export async function proveEtcdHere(forMs: number, options: HostProofs): Promise<ProofResult | undefined> {
  const here = etcdHere(options);
  return here && untilProven(async () => proveEtcdHealth(await here()), forMs, options);
}

/**
 * Proves that etcd keeps its quorum without the member here, polling for `forMs` at most. Undefined where none is
 * known.
 */
export async function proveQuorumWithoutUs(forMs: number, options: HostProofs): Promise<ProofResult | undefined> {
  const here = etcdHere(options);
  return here && untilProven(async () => judgeQuorum(await askEtcdMembers(await here())), forMs, options);
}

/** Address and credentials for queries of the member here. */
function etcdHere({ resolved, store, signal }: HostProofs): (() => Promise<EtcdHealthOptions>) | undefined {
  const read = async (name: string | undefined, entry: string): Promise<string> => {
    const artefact = resolved.artefacts.find((one) => one.name === name);
    const material = artefact && (await store.read(artefact.location, signal));
    return Buffer.from(material?.entries[entry] ?? '').toString();
  };
  for (const artefact of resolved.artefacts) {
    const serves = artefact.readers.find(({ component }) => component === 'etcd')?.serves;
    if (artefact.kind !== 'target' || serves?.client === undefined || serves.address !== 'loopback') continue;
    const { client: name, port = etcdPort } = serves;
    return async () => {
      const client = { cert: await read(name, certificateKey), key: await read(name, privateKeyKey) };
      const ca = await read(artefact.issuer, certificateKey);
      return { host: '127.0.0.1', port, ca, client, signal };
    };
  }
  return undefined;
}

const etcdPort = 2379;

/**
 * Proves that the identity in a kubeconfig has been used after `since`, by queries with that identity, for `forMs` at
 * most; undefined where nothing shows use, because its component elects no leader.
 */
export async function proveIdentityHere(
  { kubeconfig, since }: { readonly kubeconfig: string; readonly since: Date },
  forMs: number,
  options: HostProofs,
): Promise<ProofResult | undefined> {
  const { clock, signal } = options;
  if (isWithoutLease(kubeconfig, options)) return undefined;
  let connection: KubeConnection | undefined;
  const connect = async (): Promise<KubeConnection> => (connection ??= await options.connect(kubeconfig));
  const look = async (): Promise<ProofResult> => {
    const question = { ...(await leaseOf(kubeconfig, options)), publishedAt: since };
    const hostName = question.proof.namespace === nodeLeases ? undefined : options.hostName;
    return ask(question, { connect, clock, signal, hostName });
  };
  try {
    return await untilProven(look, forMs, options);
  } finally {
    await connection?.close();
  }
}

const askAgainMs = 500;

/** Polls until proven and returns the last result. */
const untilProven = <T extends ProofResult>(
  look: () => Promise<T>,
  forMs: number,
  { clock, signal }: HostProofs,
): Promise<T | Unproven> =>
  pollUntil(
    () => orUnproven(look()),
    ({ state }) => state !== 'unproven',
    { forMs, everyMs: askAgainMs, clock, signal },
  );

/** Namespace where every kubelet renews a Lease with its own node's name (KEP-589), whatever the host is called. */
const nodeLeases = 'kube-node-lease';

/** Whether no Lease is declared and the identity is no node's. */
function isWithoutLease(kubeconfig: string, { resolved }: Pick<HostProofs, 'resolved'>): boolean {
  const artefact = inKubeconfig(resolved.artefacts, kubeconfig);
  const name = artefact?.kind === 'target' ? artefact.commonName : undefined;
  if (artefact === undefined || name === undefined || name.startsWith(nodePrefix)) return false;
  return artefact.readers.every(({ proof }) => proof.kind === 'none');
}

/** Lease that shows the use of a kubeconfig. Throws ProofFailed and the store's errors. */
async function leaseOf(
  kubeconfig: string,
  { resolved, store, signal }: HostProofs,
): Promise<{ readonly artefact: ResolvedArtefact; readonly proof: Proof & { readonly kind: 'lease' } }> {
  const artefact = inKubeconfig(resolved.artefacts, kubeconfig);
  if (artefact !== undefined) {
    const declared = artefact.readers.flatMap(({ proof }) => (proof.kind === 'lease' ? [proof] : []))[0];
    if (declared !== undefined) return { artefact, proof: declared };
    const name = await nodeNameIn(artefact, { store, signal });
    if (name !== undefined) return { artefact, proof: { kind: 'lease', namespace: nodeLeases, name } };
  }
  const state = 'its certificate names no node, wanted system:node:NAME';
  throw new RecoveryError('ProofFailed', `Cannot prove use of kubeconfig "${kubeconfig}": ${state}`);
}

/** Name of the Node object, from the credentials of its kubelet; undefined where these are no kubelet's. */
export async function nodeNameIn(
  { location }: Pick<ResolvedArtefact, 'location'>,
  { store, signal }: Pick<HostProofs, 'store' | 'signal'>,
): Promise<string | undefined> {
  const pem = (await store.read(location, signal))?.entries[certificateKey];
  return pem && /^CN=system:node:(.+)$/m.exec(new X509Certificate(pem).subject)?.[1];
}
