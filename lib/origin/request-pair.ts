// The pair of a kubelet with a certificate that it requests from the cluster, with the key of the expired one.
import { tokenAccount } from '../bootstrap-identity.ts';
import { hintOf, realDisk } from '../disk/disk.ts';
import { readRegularFile } from '../disk/files.ts';
import { RecoveryError, systemCode } from '../errors.ts';
import { privateKeyKey } from '../inventory/content.ts';
import { readKubeconfig } from '../kubeconfig/credentials.ts';
import { nextCommand } from '../next-command.ts';
import { gather } from '../plan/gather.ts';
import { askForCertificate } from './ask-certificate.ts';
import { type Expired, kubeletKubeconfig, pairIn } from './issued.ts';
import type { ObtainedAnswer, Obtaining } from './obtaining.ts';

/** The issued certificate with the key; or why there is none. */
export async function requested(artefact: string, run: Obtaining): Promise<ObtainedAnswer> {
  const { resolved, store, clock, signal } = run;
  const { facts, found, backups } = await gather({ resolved, store, now: clock.now(), signal });
  const fact = facts.get(artefact);
  const isLost = fact?.state === 'present' && fact.isLost === true;
  const entries = (isLost ? backups : found).get(artefact)?.entries ?? {};
  const pair = pairIn(entries);
  const key = entries[privateKeyKey];
  if (pair === undefined || key === undefined || clock.now() < pair.leaf.facts.notAfter)
    return { problem: 'another run has changed it' };
  try {
    return { certificate: await issuedFor(pair, run), key };
  } catch (err) {
    if (!(err instanceof RecoveryError)) throw err;
    return { problem: err.message };
  }
}

async function issuedFor(pair: Expired, run: Obtaining): Promise<Buffer> {
  const { resolved, tokenFile, tlsServerNameOverride, connect, leftMs, clock, log, signal } = run;
  const kubeconfig = kubeletKubeconfig(resolved);
  const account = await accountOf(tokenFile);
  const connection = await connect(kubeconfig, { tlsServerNameOverride, tokenFile });
  try {
    return await askForCertificate(pair, {
      connection,
      account,
      async connectAs(clientCertificate) {
        const server = await readKubeconfig(kubeconfig, { tokenFile, tlsServerNameOverride });
        const credentials = { ...server, token: undefined, clientCertificate };
        return connect(kubeconfig, { tlsServerNameOverride, credentials });
      },
      waitMs: leftMs(),
      clock,
      log,
      signal,
    });
  } finally {
    await connection.close();
  }
}

/**
 * Account of the token, where readable. Throws ConfigInvalid, which explains where a token comes from: the connection
 * would only name the field of kubelet.conf.
 */
async function accountOf(path: string): Promise<string | undefined> {
  const text = await readRegularFile(realDisk, path).catch(systemCode);
  const problem = Buffer.isBuffer(text) ? (text.toString().trim() === '' ? 'is empty' : undefined) : hintOf(text ?? '');
  if (Buffer.isBuffer(text) && problem === undefined) return tokenAccount(text.toString().trim());
  const message = `Cannot ask for a certificate: the token of this worker, "${path}": ${problem}; run here what "${nextCommand('init workers')}" prints on a control-plane node`;
  throw new RecoveryError('ConfigInvalid', message);
}
