// Which expected nodes have had their first certificate, in a ConfigMap that `init` makes: "once" must hold for every
// approver, after a restart, and after the API has forgotten the request, an hour later. Neither a node nor the bootstrap
// identity can write it; approvers may get and update this one object. It is written before the approval, so that a
// process that dies in between approves too little and not too much; the request itself can then still be approved.
import { objectPath } from '../kube/objects.ts';
import { firstApprovalsName } from '../bootstrap-identity.ts';
import { isCode, RecoveryError } from '../errors.ts';
import type { ConfigMap } from '../kube/kube.ts';
import { locationText } from '../store/store.ts';
import type { ApproverOptions } from './settings.ts';

export interface FirstApproval {
  /** The entry as it stands there. */
  readonly text: string;
  /** Of the request; undefined: the entry cannot be read. */
  readonly uid?: string;
  readonly at?: Date;
}

type Entries = Pick<ConfigMap, 'metadata' | 'data'>;

type Asking = Pick<ApproverOptions, 'connection' | 'namespace' | 'signal'>;

/** `<time> <uid of the request>` */
export function parseFirstApproval(text: string): FirstApproval {
  const [, time = '', uid = ''] = /^(\S+) (\S+)$/.exec(text) ?? [];
  const at = new Date(time);
  return Number.isNaN(at.getTime()) ? { text } : { text, uid, at };
}

/** Throws KubeNotFound and KubeForbidden with what to do, and what else the API refuses. */
export async function readFirstApproval(node: string, options: Asking): Promise<FirstApproval | undefined> {
  const text = entriesOf(await readEntries(options))[node];
  return text === undefined ? undefined : parseFirstApproval(text);
}

interface Noted {
  readonly node: string;
  readonly uid: string;
  readonly at: Date;
  /** What was known of it when the request was judged. */
  readonly seen: FirstApproval | undefined;
}

/** `conflict`: it was written by another since `seen` was read. */
export async function noteFirstApproval(
  { node, uid, at, seen }: Noted,
  options: Asking,
): Promise<'noted' | 'conflict'> {
  const { connection, namespace, signal } = options;
  const found = await readEntries(options);
  const entries = entriesOf(found);
  if (entries[node] !== seen?.text) return 'conflict';
  if (seen?.uid === uid) return 'noted';
  // Without a resourceVersion a PUT is unconditional.
  if (!found.metadata?.resourceVersion)
    throw new RecoveryError('KubeRejected', `${locationText(placeIn(namespace))} has no resourceVersion`);
  const body = { ...found, data: { ...entries, [node]: `${at.toISOString()} ${uid}` } };
  try {
    await connection.request({ method: 'PUT', path: objectPath(placeIn(namespace)), body, signal });
    return 'noted';
  } catch (err) {
    if (isCode(err, 'KubeConflict')) return 'conflict';
    throw err;
  }
}

async function readEntries({ connection, namespace, signal }: Asking): Promise<Entries> {
  const place = placeIn(namespace);
  try {
    return await connection.request<Entries>({ method: 'GET', path: objectPath(place), signal });
  } catch (err) {
    if (!isCode(err, 'KubeNotFound', 'KubeForbidden')) throw err;
    const state = err.code === 'KubeNotFound' ? 'is not there' : 'may not be read';
    const message = `Cannot tell whether an expected node has had its certificate: ${locationText(place)} ${state}; run "kube-cert-recovery init" again, which makes it`;
    throw new RecoveryError(err.code, message, { cause: err });
  }
}

const placeIn = (namespace: string) => ({ kind: 'configMap', namespace, name: firstApprovalsName }) as const;

const entriesOf = ({ data }: Entries): Readonly<Record<string, string>> => data ?? {};
