// State of a node when one of its requests is judged. Gathered by node-facts.ts and records.ts.
import type { FirstApproval } from './first-approvals.ts';
import type { RecordedCertificate } from './issued-certificates.ts';
import type { Signs, Watched } from './silence.ts';

/** The certificate of the node on whose machine this runs. */
export type OwnCertificate =
  /** Missing, or unusable for a kubelet; `problem` is the reason. */
  | { readonly state: 'absent' | 'broken'; readonly problem: string }
  /** It could not be read: nothing may be concluded. */
  | { readonly state: 'unknown'; readonly problem: string }
  | { readonly state: 'present'; readonly path: string; readonly commonName: string; readonly notAfter: Date };

/** The newest known approved request of a node. */
export interface Approval {
  readonly uid: string | undefined;
  readonly at: Date;
  readonly requestedAt: Date;
  /** Whether its certificate has been issued. */
  readonly isIssued: boolean;
  /** Time since this process learnt of it, independent of clocks. */
  readonly knownMs: number;
}

export interface NodeFacts extends Signs {
  /** Certificate of this machine's own node; undefined for another machine's node. */
  readonly own?: OwnCertificate | undefined;
  /** The Node object; undefined: there is none. */
  readonly node?: { readonly createdAt: Date; readonly uid?: string | undefined } | undefined;
  /** Nodes of other machines only: signs of life seen up to now. */
  readonly watched?: Watched;
  /** notAfter of the newest certificate that was seen to be issued to it. */
  readonly issuedUntil?: Date | undefined;
  /** A newer one may have been issued unseen: the requests were not followed since for as long as the API has them. */
  readonly issuedUnseen?: boolean;
  /** Key of that certificate (`keyHash`). */
  readonly issuedKey?: string | undefined;
  /** The newest certificate that any approver has recorded; undefined: none. */
  readonly recorded?: RecordedCertificate | undefined;
  readonly approval?: Approval | undefined;
  /** Whether a Node of this name is expected (`approver.expectedNodes`). */
  readonly isExpected: boolean;
  /** First approval, before there was a Node; read only where the node is expected and has none. */
  readonly first?: FirstApproval | undefined;
}

export type KnownNode = NodeFacts & { readonly node: NonNullable<NodeFacts['node']> };
