// Rules of one signer, as the queue calls them: client certificates of kubelets in client-policy.ts, serving
// certificates in serving-policy.ts.
import type { Following } from './addresses.ts';
import type { Noted } from './record-object.ts';
import type { SigningRequest } from './request.ts';
import type { ApprovalVerdict } from './judge.ts';

export interface SignerPolicy {
  /** `spec.signerName` */
  readonly signer: string;
  /** Takes note of any request for the signer as the API has it now. */
  see(request: SigningRequest): void;
  /** Called after each list, event and bookmark: nothing has gone unseen up to now. */
  followed?(): void;
  /** Whether its requests are judged here, by the requester; other requests are left to other controllers. */
  concerns(request: SigningRequest): boolean;
  /** The node that the request concerns; undefined: it names none, or cannot be read. */
  nodeOf(request: SigningRequest): string | undefined;
  /** Gathers the facts and applies the rules. Throws when the API refuses. */
  judge(request: SigningRequest): Promise<Judged>;
  /**
   * Records the verdict before the approval. `conflict`: another approver has written since; the request must be judged
   * again.
   */
  note?(request: SigningRequest, verdict: Approve, now: Date): Promise<Noted>;
  /** Called before the watch brings the approval: the next request of the same node may be the next to be judged. */
  approved?(node: string, request: SigningRequest, now: Date): void;
  /** Called when a pass begins. */
  begin?(): void;
  /** Records certificates that it has seen: once, or until the signal aborts. Never rejects. */
  remember?(how: 'once' | 'follow'): Promise<void>;
  /** Watches sources of its rules other than requests, until the process stops. Never rejects. */
  follow?(following: Following): Promise<void>;
}

/** `isKnown`: there is a Node of the name that the verdict names. */
export type Judged = ApprovalVerdict & { readonly isKnown?: boolean };

export type Approve = Extract<ApprovalVerdict, { action: 'approve' }>;
