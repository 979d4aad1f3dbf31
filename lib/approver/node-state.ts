// What is known of a node when one of its requests is judged. Gathered by node-facts.ts and records.ts.
import type { FirstApproval } from './first-approvals.ts';
import type { RecordedCertificate } from './issued-certificates.ts';
import type { Signs, Watched } from './silence.ts';

/** The certificate of the node on whose machine this runs. */
export type OwnCertificate =
  /** Not there, or nothing that a kubelet can use; `problem` says which. */
  | { readonly state: 'absent' | 'broken'; readonly problem: string }
  /** It could not be looked at: nothing may be concluded. */
  | { readonly state: 'unknown'; readonly problem: string }
  | { readonly state: 'present'; readonly path: string; readonly commonName: string; readonly notAfter: Date };

/** An approved request of a node: the newest that is known. */
export interface Approval {
  readonly uid: string | undefined;
  readonly at: Date;
  readonly requestedAt: Date;
  /** Its certificate has been issued. */
  readonly isIssued: boolean;
  /** For how long this process has known of it, whatever clocks have shown. */
  readonly knownMs: number;
}

export interface NodeFacts extends Signs {
  /** Undefined: it is another machine's node. */
  readonly own?: OwnCertificate | undefined;
  /** Undefined: there is no Node object. */
  readonly node?: { readonly createdAt: Date; readonly uid?: string | undefined } | undefined;
  /** Of another machine's node: what this look and those before have seen of its signs of life. */
  readonly watched?: Watched;
  /** The end of the newest certificate that was seen to be issued to it. */
  readonly issuedUntil?: Date | undefined;
  /** Whose key is this (`keyHash`). */
  readonly issuedKey?: string | undefined;
  /** The newest that any approver has recorded; undefined: none. */
  readonly recorded?: RecordedCertificate | undefined;
  readonly approval?: Approval | undefined;
  /** Whether a Node of this name is to come. */
  readonly isExpected: boolean;
  /** Its certificate before there was a Node; asked only where it is expected and has none. */
  readonly first?: FirstApproval | undefined;
}

export type KnownNode = NodeFacts & { readonly node: NonNullable<NodeFacts['node']> };
