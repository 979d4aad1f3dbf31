// A worker's client certificate made with the key of the cluster's CA, on a control-plane node, for a worker without
// this program when its certificate expired. A new key: the file is carried over whole.
import { dirname } from 'node:path';
import { attempt, realDisk } from '../disk/disk.ts';
import { readRegularFile } from '../disk/files.ts';
import { RecoveryError } from '../errors.ts';
import { shellWord } from '../next-command.ts';
import { dnsSubdomain } from '../inventory/values.ts';
import { makeClientPair } from '../issue/client-pair.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { type Lease, leasePath } from '../kube/leases.ts';
import { getIfPresent } from '../kube/objects.ts';
import type { NodeObject } from '../kube/received.ts';
import { resourcePath } from '../kube/resources.ts';
import { clockSkewMs, parseCertificates } from '../pki/certificate.ts';
import type { Issuer } from '../pki/encode.ts';
import { parsePrivateKey } from '../pki/key.ts';
import { ownFirst } from '../pki/signer-certificate.ts';
import { nodePrefix, nodesGroup } from '../well-known.ts';

interface LookAtNode {
  readonly connection: KubeConnection;
  readonly signal: AbortSignal;
  readonly now: Date;
}

const cannotMake = (node: string, problem: string): RecoveryError =>
  new RecoveryError('PreconditionFailed', `Cannot make a certificate of node "${node}": ${problem}`);

/** Throws PreconditionFailed for a Node that does not exist or is alive, and errors of the API. */
export async function requireDeadNode(node: string, { connection, signal, now }: LookAtNode): Promise<void> {
  if (!dnsSubdomain.test(node)) throw cannotMake(node, 'that is no name of a Node');
  const object = await getIfPresent<NodeObject>({ connection, signal }, resourcePath('Node', { name: node }));
  const lease = await getIfPresent<Lease>(
    { connection, signal },
    leasePath({ namespace: 'kube-node-lease', name: node }),
  );
  const problem = lifeProblem({ name: node, object, lease, now });
  if (problem !== undefined) throw cannotMake(node, problem);
}

interface Life {
  /** Name of the node. */
  readonly name: string;
  readonly object: NodeObject | undefined;
  readonly lease: Lease | undefined;
  readonly now: Date;
}

/** Pure. A Lease renewed lately shows a kubelet whose certificate is good. */
export function lifeProblem({ name, object, lease, now }: Life): string | undefined {
  if (object === undefined) {
    return 'there is no Node of that name; a machine that was never in the cluster, or was removed from it, is joined (kubeadm join)';
  }
  const heartbeat = object.status?.conditions?.find(({ type }) => type === 'Ready')?.lastHeartbeatTime;
  const latest = now.getTime() + clockSkewMs;
  const renewed = Date.parse(lease?.spec?.renewTime ?? '');
  if (renewed > latest) {
    const ahead = `its Lease was renewed at ${new Date(renewed).toISOString()}, which is still to come: by a clock that is wrong`;
    return `${ahead}; where its kubelet is dead, delete that: kubectl -n kube-node-lease delete lease ${shellWord(name)}. A live one makes it again`;
  }
  // A heartbeat in the future was written by such a clock, and shows no life; a live kubelet renews its Lease as well.
  const last = Math.max(...[renewed, Date.parse(heartbeat ?? '')].filter((ms) => ms <= latest));
  // Clocks of machines may differ by as much.
  if (now.getTime() - last >= clockSkewMs) return undefined;
  const at = new Date(last).toISOString();
  return `its kubelet was heard at ${at}, so its certificate is good; where it has died since, wait five minutes`;
}

/** Lifetime of leaves that kubeadm makes (kubeadmconstants.CertificateValidityPeriod). */
const lifeMs = 365 * 86_400_000;

/** Certificate and key in one file, as a kubelet keeps them. Throws SignFailed. */
export async function makeNodeCertificate(node: string, issuer: Issuer, now: Date): Promise<string> {
  const { cert, key } = await makeClientPair(issuer, { user: `${nodePrefix}${node}`, group: nodesGroup, lifeMs }, now);
  return cert + key;
}

/** The CA of the key, at any position in the file. Throws ReadFailed, MaterialInvalid. */
export async function readSigningAuthority(certFile: string, keyFile: string): Promise<Issuer> {
  const read = async (file: string): Promise<Buffer> =>
    attempt({ code: 'ReadFailed', action: 'read', what: `CA "${file}"`, directory: dirname(file) }, () =>
      readRegularFile(realDisk, file),
    );
  const all = parseCertificates(await read(certFile), `"${certFile}"`, 'skipped');
  const keyPem = await read(keyFile);
  const key = parsePrivateKey(keyPem, `"${keyFile}"`);
  const [certificate] = ownFirst(all, keyPem);
  if (certificate === undefined) throw new RecoveryError('MaterialInvalid', `Cannot use "${certFile}": no certificate`);
  return { certificate, key };
}
