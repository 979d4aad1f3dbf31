// What the queue asks about the requests for one signer. Each signer has rules of its own: client certificates of kubelets
// in client-policy.ts, serving certificates in serving-policy.ts.
import type { Following } from './address-sources.ts';
import type { Noted } from './record-object.ts';
import type { SigningRequest } from './request.ts';
import type { ApprovalVerdict } from './judge.ts';

export interface SignerPolicy {
  /** `spec.signerName` */
  readonly signer: string;
  /** Takes note of any request for the signer as the API has it now. */
  see(request: SigningRequest): void;
  /** Whether its requests are judged here, by who asks; others are left to others. */
  concerns(request: SigningRequest): boolean;
  /** The node for which it is looked at; undefined: it names none, or cannot be read. */
  nodeOf(request: SigningRequest): string | undefined;
  /** Gathers the facts and applies the rules. Throws what the API refuses. */
  judge(request: SigningRequest): Promise<Judged>;
  /** `conflict`: another has written since; it must be judged again. */
  note?(request: SigningRequest, verdict: Approve, now: Date): Promise<Noted>;
  /** Before the watch brings it: the next request of the same node may be the next to be judged. */
  approved?(node: string, request: SigningRequest, now: Date): void;
  /** A pass begins. */
  begin?(): void;
  /** Writes down what it has seen: once, or until the signal aborts. Never rejects. */
  remember?(how: 'once' | 'follow'): Promise<void>;
  /** Follows what its rules read besides requests, until the process stops. Never rejects. */
  follow?(following: Following): Promise<void>;
}

/** `isKnown`: there is a Node of the name that the verdict names. */
export type Judged = ApprovalVerdict & { readonly isKnown?: boolean };

export type Approve = Extract<ApprovalVerdict, { action: 'approve' }>;
