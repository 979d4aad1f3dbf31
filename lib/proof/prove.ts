// Whether an artefact is in use by its readers: one proof for each, by the kind that the inventory declares. Shared by
// fileobserver, status and the demo. A prover asks; it changes nothing.
import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../clock.ts';
import { RecoveryError, errorText, systemCode } from '../errors.ts';
import type { Proof, Reader, ResolvedArtefact } from '../inventory/model.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { certificateKey } from '../store/store.ts';
import { proveLease } from './lease.ts';
import { publishedDirectory } from './published.ts';
import { proveProxied } from './proxied.ts';
import { combineProofs, type ProofResult } from './result.ts';
import { proveServed } from './served.ts';
import { proveSignsCsr } from './signs-csr.ts';

export interface ProverOptions {
  readonly connection: KubeConnection;
  /** The local API server's secure port, for `served`. */
  readonly apiServer: { readonly host: string; readonly port: number };
  /** Where the syncer publishes. */
  readonly destinationDir: string;
  readonly clock: Clock;
  readonly signal?: AbortSignal;
  /** This node's host name: then a Lease held by another node says so instead of proving something. */
  readonly hostName?: string;
}

/**
 * Proves use by all readers of the artefact, or by those given. `publishedAt`: when its files came into their place; what
 * was before the boot of this machine proves nothing.
 * Never rejects: what cannot be asked is unproven, with the reason.
 */
export type Prove = (
  artefact: ResolvedArtefact,
  publishedAt: Date,
  readers?: readonly Reader[],
) => Promise<ProofResult>;

export function createProver({ connection, apiServer, destinationDir, clock, signal, hostName }: ProverOptions): Prove {
  const stop = signal ?? new AbortController().signal;
  const now = (): Date => clock.now();
  /** Whoever renewed a Lease before this machine's boot has not read a file since: its process has ended with it. */
  const sinceBoot = (publishedAt: Date): Date => {
    const uptimeMs = (clock.uptimeSeconds() ?? Infinity) * 1000;
    return new Date(Math.max(publishedAt.getTime(), now().getTime() - uptimeMs));
  };

  const served = async (artefact: ResolvedArtefact, serverName: string): Promise<ProofResult> => {
    const certificate = await certificateOnDisk(artefact, destinationDir);
    const expected = certificate.fingerprint256.replaceAll(':', '').toLowerCase();
    return proveServed({ ...apiServer, serverName, expected, clock, signal: stop });
  };
  const signsCsr = async (artefact: ResolvedArtefact): Promise<ProofResult> => {
    const signer = (await certificateOnDisk(artefact, destinationDir)).toString();
    return proveSignsCsr({ connection, signer, now, signal: stop });
  };

  /** What has ended is not what readers are to use, although they do. Undefined: it is valid, or no certificate. */
  const endedOnDisk = async (artefact: ResolvedArtefact): Promise<Date | undefined> => {
    const certificate = await certificateOnDisk(artefact, destinationDir).catch(() => undefined);
    return certificate !== undefined && certificate.validToDate <= now() ? certificate.validToDate : undefined;
  };

  const proveOne = (artefact: ResolvedArtefact, publishedAt: Date, proof: Proof): Promise<ProofResult> => {
    switch (proof.kind) {
      case 'served':
        return served(artefact, proof.serverName);
      case 'lease':
        return proveLease({ connection, ...proof, publishedAt: sinceBoot(publishedAt), hostName, now, signal: stop });
      case 'signsCsr':
        return signsCsr(artefact);
      case 'proxied':
        return proveProxied({ connection, now, signal: stop });
      case 'none':
        break;
    }
    return Promise.resolve({ state: 'notApplicable', message: 'Use cannot be seen from outside', at: now() });
  };

  return async (artefact, publishedAt, readers = artefact.readers) => {
    const results = await Promise.all(
      readers.map(async ({ component, proof }): Promise<ProofResult> => {
        try {
          const result = await proveOne(artefact, publishedAt, proof);
          return { ...result, message: `${component}: ${result.message}` };
        } catch (err) {
          return { state: 'unproven', message: `${component}: ${errorText(err)}`, at: now() };
        }
      }),
    );
    const proof = combineProofs(results, now());
    const ended = proof.state === 'proven' ? await endedOnDisk(artefact) : undefined;
    if (ended === undefined) return proof;
    const at = ended.toISOString();
    return { ...proof, state: 'unproven', message: `The certificate on disk expired at ${at}; ${proof.message}` };
  };
}

/** The leaf of a pair as its readers find it; of a file with several certificates the first. */
async function certificateOnDisk(
  { name, location }: ResolvedArtefact,
  destinationDir: string,
): Promise<X509Certificate> {
  const cannot = `Cannot prove use of "${name}"`;
  const directory = publishedDirectory(location, destinationDir);
  const path = location.kind === 'pemPair' ? location.certFile : directory && join(directory, certificateKey);
  if (path === undefined) throw new RecoveryError('ProofFailed', `${cannot}: it has no certificate of its own`);
  try {
    return new X509Certificate(await readFile(path));
  } catch (err) {
    const state = systemCode(err) ?? 'it holds no certificate';
    throw new RecoveryError('ProofFailed', `${cannot}: file "${path}": ${state}`, { cause: err, details: { path } });
  }
}
