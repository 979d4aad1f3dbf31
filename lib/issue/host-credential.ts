// The identity with which a control-plane host uses the API rights that `init host` grants its group by name (hostRules
// in lib/install/rules.ts), and no other rights. The key of the cluster's CA is on this machine, so it needs no lasting
// credential: a client certificate for some minutes replaces the administrator's.
import { RecoveryError } from '../errors.ts';
import type { Resolved, Signer } from '../inventory/model.ts';
import { inKubeconfig } from '../inventory/places.ts';
import { type Credentials, readKubeconfig } from '../kubeconfig/credentials.ts';
import type { Store } from '../store/store.ts';
import { hostsGroup, hostUser } from '../well-known.ts';
import { makeClientPair } from './client-pair.ts';
import { readAuthority } from './ingredients.ts';

interface WantedHostCredential {
  readonly resolved: Pick<Resolved, 'artefacts'>;
  /** Store of this host's files. */
  readonly store: Pick<Store, 'read'>;
  /** Kubeconfig of a component of this host: server and CA are taken from it, and its signer signs. Absolute path. */
  readonly kubeconfig: string;
  /** Node name of this machine. */
  readonly nodeName: string;
  readonly now: Date;
  readonly signal: AbortSignal;
}

const lifeMs = 10 * 60_000;

/** Never written anywhere. Throws ConfigInvalid, SignFailed, MaterialInvalid, and the errors of the store. */
export async function issueHostCredentials(wanted: WantedHostCredential): Promise<Credentials> {
  const { resolved, store, kubeconfig, nodeName, now, signal } = wanted;
  const signer = signerOf(kubeconfig, resolved);
  const material = signer && (await store.read(signer.location, signal));
  if (signer === undefined || material === undefined) {
    const state = `the CA of kubeconfig "${kubeconfig}" is not on this machine`;
    throw new RecoveryError('SignFailed', `Cannot sign certificate "${hostUser(nodeName)}": ${state}`);
  }
  const { server, serverName, ca } = await readKubeconfig(kubeconfig);
  const issuer = readAuthority(signer.location, material.entries);
  const { cert, key } = await makeClientPair(issuer, { user: hostUser(nodeName), group: hostsGroup, lifeMs }, now);
  const clientCertificate = { cert: Buffer.from(cert), key: Buffer.from(key) };
  return { server, serverName, ca, token: undefined, clientCertificate, files: [] };
}

/** Returns the CA of that kubeconfig, where it is in this inventory. */
export function signerOf(kubeconfig: string, { artefacts }: Pick<Resolved, 'artefacts'>): Signer | undefined {
  const target = inKubeconfig(artefacts, kubeconfig);
  if (target?.kind !== 'target') return undefined;
  return artefacts.find((one): one is Signer => one.kind === 'signer' && one.name === target.issuer);
}
