// The vocabulary shared by the rules: the case before them, the verdict they give, and small sentences. Pure.
import type { Location, Resolved, ResolvedArtefact } from '../inventory/model.ts';
import { clockSkewMs } from './clock-rules.ts';
import type { ArtefactFacts, CertificateFacts, Facts } from './facts.ts';
import type { Decision, Reason, RenewalPolicy } from './plan-types.ts';

/** What an artefact will hold once the plan is carried out, as far as others depend on it. */
export interface Expected {
  readonly renewed: boolean;
  /** A pair whose key is at hand. */
  readonly hasKey: boolean;
  /** Fingerprints of the valid certificates that will be in it. */
  readonly trusted: ReadonlySet<string>;
  /** Signers whose new certificate, not yet made, will be in it. */
  readonly newFrom: ReadonlySet<string>;
  /** Of a pair that stays: its certificate. */
  readonly certificate?: CertificateFacts;
  /** Of a pair that is renewed: when the new certificate will end. */
  readonly newNotAfter?: Date;
  /** It may be written anew then, so what is made of it now would soon be made again. */
  readonly settlesAt?: Date;
}

export interface Case<A extends ResolvedArtefact> {
  readonly artefact: A;
  readonly fact: ArtefactFacts;
  readonly facts: Facts;
  readonly expected: ReadonlyMap<string, Expected>;
  readonly resolved: Resolved;
  readonly policy: RenewalPolicy;
  readonly now: Date;
}

/** A decision without its name, with what a renewal leaves behind for the artefacts that are judged later. */
export type Verdict = Omit<Decision, 'artefact'> & { readonly leaves: Expected };

const nothing: Expected = { renewed: false, hasKey: false, trusted: new Set(), newFrom: new Set() };

export function keep(reason: Reason, message: string, recheckAt: Date): Verdict {
  return { action: 'keep', reason, message, recheckAt, after: [], leaves: nothing };
}

export function blocked(reason: Reason, message: string, recheckAt: Date): Verdict {
  return { ...keep(reason, message, recheckAt), action: 'blocked' };
}

export interface Renewal {
  readonly reason: Reason;
  readonly message: string;
  readonly now: Date;
  readonly after: readonly string[];
  readonly leaves: Omit<Expected, 'renewed' | 'hasKey'>;
}

export function renew({ reason, message, now, after, leaves }: Renewal): Verdict {
  return {
    action: 'renew',
    reason,
    message,
    recheckAt: now,
    after,
    leaves: { renewed: true, hasKey: true, ...leaves },
  };
}

export function isApi(location: Location): boolean {
  return location.kind === 'secret' || location.kind === 'configMap';
}

export function laterMs(date: Date, ms: number): Date {
  return new Date(date.getTime() + ms);
}

export function earliest(...dates: readonly (Date | undefined)[]): Date {
  const known = dates.filter((date): date is Date => date !== undefined);
  return known.reduce((first, date) => (date < first ? date : first));
}

/**
 * Two objects in the API contradict each other. Another writer may stand between its two writes, so the contradiction
 * is believed only when none of the objects has changed for a while; returns until when to wait, or undefined.
 * Files have no other writer.
 */
export function settlesAt(at: Case<ResolvedArtefact>, names: readonly string[]): Date | undefined {
  const { artefact, facts, policy, now } = at;
  if (!isApi(artefact.truth)) return undefined;
  let latest: Date | undefined;
  for (const name of names) {
    const fact = facts.get(name);
    const since = fact !== undefined && 'since' in fact ? fact.since : undefined;
    if (since !== undefined && (latest === undefined || since > latest)) latest = since;
  }
  if (latest === undefined) return undefined;
  const settled = laterMs(latest, policy.settleMs);
  return now < settled ? settled : undefined;
}

/** Fingerprints of the certificates that are valid now, give or take the difference of two machines' clocks. */
export function validNow(fact: ArtefactFacts, now: Date): ReadonlySet<string> {
  const certificates = certificatesOf(fact);
  const begun = laterMs(now, clockSkewMs);
  return new Set(
    certificates.filter(({ notBefore, notAfter }) => notBefore <= begun && now < notAfter).map((c) => c.fingerprint),
  );
}

/** What can be read, also of something broken: a certificate without its key, the whole blocks of a torn bundle. */
export function certificatesOf(fact: ArtefactFacts): readonly CertificateFacts[] {
  if (fact.state === 'present') return fact.certificates;
  return fact.state === 'broken' ? (fact.certificates ?? []) : [];
}
