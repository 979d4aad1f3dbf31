// Which expected nodes have had their first certificate, in a ConfigMap: "once" must hold for every approver. The entry
// is written before the approval, so that a process that dies in between approves too little and not too much; the
// request itself can then still be approved.
import { firstApprovalsName } from '../bootstrap-identity.ts';
import { type RecordAccess, type Noted, RecordObject, recordedEntry } from './record-object.ts';

export interface FirstApproval {
  /** The entry unparsed. */
  readonly text: string;
  /** UID of the request; undefined: the entry cannot be read. */
  readonly uid?: string;
  readonly at?: Date;
}

/** `<time> <uid of the request>` */
export function parseFirstApproval(text: string): FirstApproval {
  const [, time = '', uid = ''] = /^(\S+) (\S+)$/.exec(text) ?? [];
  const at = new Date(time);
  return Number.isNaN(at.getTime()) ? { text } : { text, uid, at };
}

const objectIn = (access: RecordAccess): RecordObject =>
  new RecordObject(firstApprovalsName, 'whether an expected node has had its certificate', access);

/** Throws KubeNotFound and KubeForbidden with advice, and when the API refuses otherwise. */
export async function readFirstApproval(node: string, access: RecordAccess): Promise<FirstApproval | undefined> {
  const text = recordedEntry(await objectIn(access).read(), node);
  return text === undefined ? undefined : parseFirstApproval(text);
}

interface First {
  readonly node: string;
  readonly uid: string;
  readonly at: Date;
  /** The entry as read when the request was judged. */
  readonly seen: FirstApproval | undefined;
}

/** `conflict`: another approver has written the entry since `seen` was read. */
export function noteFirstApproval({ node, uid, at, seen }: First, access: RecordAccess): Promise<Noted> {
  return objectIn(access).write((entries) => {
    if (recordedEntry(entries, node) !== seen?.text) return 'conflict';
    return seen?.uid === uid ? undefined : { ...entries, [node]: `${at.toISOString()} ${uid}` };
  });
}
