// Facts about one request: its content, and the state of the node that it names, from the disk of this machine (its own
// node) or from the API (any other). Nothing here decides.
import { readlink, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { realDisk } from '../disk/disk.ts';
import { readRegularFile } from '../disk/files.ts';
import { errorText, isCode, RecoveryError, systemCode } from '../errors.ts';
import { type Lease, leasePath } from '../kube/leases.ts';
import { list } from '../kube/list.ts';
import { getIfPresent } from '../kube/objects.ts';
import type { NodeObject } from '../kube/received.ts';
import { resourcePath } from '../kube/resources.ts';
import { parseCertificates } from '../pki/certificate.ts';
import { pairMatches } from '../pki/key.ts';
import { parseCertificateRequest } from '../pki/csr.ts';
import type { RequestSummary } from './batch.ts';
import { readFirstApproval } from './first-approvals.ts';
import type { NodeFacts, OwnCertificate } from './node-state.ts';
import { type Records, requestText } from './records.ts';
import { type Content, requestsPath, type SigningRequest } from './request.ts';
import type { ApproverOptions } from './settings.ts';
import type { Signs } from './silence.ts';

type Asking = Pick<ApproverOptions, 'connection' | 'signal'>;

type GatherOptions = Asking & Pick<ApproverOptions, 'nodeName' | 'nodeCertificate' | 'expectedNodes' | 'namespace'>;

/**
 * The request as the API has it now; undefined: it is gone. Uses a list, because the approver may list and watch, not
 * get.
 */
export async function readRequest(
  { name, signer }: Pick<RequestSummary, 'name' | 'signer'>,
  { connection, signal }: Asking,
): Promise<SigningRequest | undefined> {
  const { objects } = await list<SigningRequest>({ connection, path: requestsPath(signer, name), signal });
  return objects[0];
}

export function contentOf(request: SigningRequest): Content {
  try {
    return parseCertificateRequest(Buffer.from(request.spec.request, 'base64'), requestText(request));
  } catch (err) {
    if (isCode(err, 'MaterialInvalid')) return { problem: err.message };
    throw err;
  }
}

/** Throws when the API refuses. */
export async function gatherNode(node: string, records: Records, options: GatherOptions): Promise<NodeFacts> {
  const { nodeName, nodeCertificate, expectedNodes } = options;
  const known = { ...records.of(node), isExpected: expectedNodes.includes(node) };
  const own = node === nodeName ? await readOwnCertificate(nodeCertificate) : undefined;
  const [object, lease] = await Promise.all([
    getIfPresent<NodeObject>(options, resourcePath('Node', { name: node })),
    getIfPresent<Lease>(options, leasePath({ namespace: 'kube-node-lease', name: node })),
  ]);
  if (object !== undefined && dateOf(object.metadata?.creationTimestamp) === undefined) {
    throw new RecoveryError('MaterialInvalid', `Cannot judge Node "${node}": it does not say since when it is there`);
  }
  const isFirst = known.isExpected && object === undefined && own === undefined;
  const first = isFirst ? await readFirstApproval(node, options) : undefined;
  return records.watch(node, { ...known, own, first, ...signsOfLife(object, lease) });
}

/** Creation and signs of life of a node in the API. Pure. */
export function signsOfLife(
  object: NodeObject | undefined,
  lease: Lease | undefined,
): Pick<NodeFacts, 'node' | keyof Signs> {
  const createdAt = dateOf(object?.metadata?.creationTimestamp);
  const { renewTime, leaseDurationSeconds } = lease?.spec ?? {};
  return {
    node: createdAt && { createdAt, uid: object?.metadata?.uid },
    renewedAt: dateOf(renewTime),
    heartbeatAt: heartbeatOf(object),
    renewalMs: typeof leaseDurationSeconds === 'number' ? (leaseDurationSeconds * 1000) / 4 : undefined,
  };
}

/**
 * Undefined for a Node that never reported: kube-controller-manager dates its condition by its creation
 * (pkg/controller/nodelifecycle).
 */
function heartbeatOf(object: NodeObject | undefined): Date | undefined {
  const ready = object?.status?.conditions?.find((one) => (one as typeof one | null)?.type === 'Ready');
  return ready?.reason === 'NodeStatusNeverUpdated' ? undefined : dateOf(ready?.lastHeartbeatTime);
}

function dateOf(text: string | null | undefined): Date | undefined {
  const ms = Date.parse(text ?? '');
  return Number.isNaN(ms) ? undefined : new Date(ms);
}

/** Errors of a file that no kubelet could use either. */
const useless: ReadonlySet<string> = new Set(['EISDIR', 'ELOOP', 'EFBIG', 'ENOTREG']);

export async function readOwnCertificate(path: string): Promise<OwnCertificate> {
  let bytes: Buffer;
  try {
    bytes = await readFollowing(path);
  } catch (err) {
    return unreadable(path, systemCode(err) ?? errorText(err));
  }
  try {
    // The key is in the same file. Without it the kubelet cannot use the certificate, however long that is valid.
    const [leaf] = parseCertificates(bytes, `"${path}"`, 'skipped');
    if (leaf === undefined) throw new RangeError('it holds no certificate');
    if (!pairMatches(leaf, bytes, `"${path}"`)) throw new RangeError('its key is not that of its certificate');
    return { state: 'present', path, commonName: leaf.facts.commonName, notAfter: leaf.facts.notAfter };
  } catch (err) {
    return { state: 'broken', problem: `the kubelet cannot use "${path}": ${errorText(err)}` };
  }
}

async function unreadable(path: string, code: string): Promise<OwnCertificate> {
  if (code === 'ENOENT' && (await isDirectory(dirname(path)))) {
    return { state: 'absent', problem: `there is no certificate "${path}" on this machine` };
  }
  if (useless.has(code)) return { state: 'broken', problem: `the kubelet cannot use "${path}" (${code})` };
  // Perhaps a missing mount and no fault of the kubelet: it is no evidence.
  return { state: 'unknown', problem: `"${path}" cannot be looked at (${code}); mount its directory from the host` };
}

/**
 * `kubelet-client-current.pem` is a link with the full path of a file next to it, which dangles where the directory is
 * mounted at another path.
 */
async function readFollowing(path: string): Promise<Buffer> {
  try {
    return await readRegularFile(realDisk, path);
  } catch (err) {
    if (systemCode(err) !== 'ENOENT') throw err;
    const target = await readlink(path); // throws as well where there is no link
    return readRegularFile(realDisk, join(dirname(path), basename(target)));
  }
}

async function isDirectory(path: string): Promise<boolean> {
  return stat(path).then(
    (stats) => stats.isDirectory(),
    () => false,
  );
}
