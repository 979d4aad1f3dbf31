// Whether this machine's clock may be trusted for signing. Pure. A certificate made at a wrong time is worse than an
// expired one: made too early it cannot be used after the clock is set, made too late it lives shorter or longer than
// it should.
import { isMadeHere as isSignerMadeHere } from '../inventory/places.ts';
import { durationText } from '../duration.ts';
import type { Resolved, ResolvedArtefact } from '../inventory/model.ts';
import { backDatedMs, type CertificateFacts, clockSkewMs } from '../pki/certificate.ts';
import { certificateOf, type Facts, isClosed } from './facts.ts';
import type { Reason } from './reasons.ts';

/** Facts about this machine's clock. */
export interface ClockFacts {
  /** Build time of the program: no correct clock shows an earlier time. */
  readonly builtAt: Date;
  /** Whether a source on this machine reports that its clock is synchronised. */
  readonly synchronised: boolean;
  /** Until then nothing is signed, because the clock has just jumped. */
  readonly settlesAt?: Date;
  /**
   * Fingerprints of certificates that this process has made with an unconfirmed clock, which may have been set since:
   * they only repeat its time.
   */
  readonly made?: ReadonlySet<string>;
  /** Clocks of other machines, just read; none where none was read. */
  readonly others?: readonly OtherClock[];
}

/** Clock of another machine, which has written the time while we read it. */
export interface OtherClock {
  /** Source for messages: which machine, and where it wrote. */
  readonly of: string;
  /** Least lead of our clock over it, milliseconds; negative: our clock is behind. */
  readonly aheadMs: number;
}

interface ClockVerdict {
  readonly reason: Extract<Reason, 'ClockImplausible' | 'ClockJumped'>;
  readonly message: string;
  readonly recheckAt: Date;
}

export interface ClockInput {
  /** Artefacts whose certificates are evidence of the clock, too. */
  readonly resolved?: Resolved;
  readonly facts?: Facts;
  readonly clock: ClockFacts;
  readonly now: Date;
}

/**
 * A clock this far after the build of this program is more likely wrong than the machine was off for so long: the
 * longest-lived certificates last ten years. A synchronised clock is believed all the same.
 */
const longestOffMs = 10 * 365 * 24 * 3_600_000;

const lookAgainMs = 30_000;

/**
 * A machine whose clock is this much behind ours refuses our certificates, although they begin `backDatedMs` early, for
 * longer than machines have to tolerate (`clockSkewMs`). For one as far ahead of ours, our certificates expire early.
 */
const mostApartMs = backDatedMs + clockSkewMs;

export const clockAdvice = 'set the clock, or state that it is right (regen.clockSynchronised: true)';

/** Advice about a clock that may be right. */
export const confirmAdvice =
  'let a time service keep it, until timedatectl says that it is synchronised, or state that it is right ' +
  '(regen.clockSynchronised: true in the file of --config)';

/** Why nothing may be signed now, or undefined when the clock is good enough. */
export function judgeClock(input: ClockInput): ClockVerdict | undefined {
  const { clock, now } = input;
  const recheckAt = new Date(now.getTime() + lookAgainMs);
  const implausible = (message: string): ClockVerdict => ({ reason: 'ClockImplausible', message, recheckAt });
  const shown = now.toISOString();
  const built = clock.builtAt.toISOString();
  if (now < clock.builtAt) {
    return implausible(`the clock shows ${shown}, before this program was built (${built}); set the clock`);
  }
  if (!clock.synchronised) {
    const { confirmed, against } = hear(clock, now);
    if (against !== undefined) {
      const by = durationText(Math.floor(Math.abs(against.aheadMs) / 1000) * 1000);
      const than = `${by} ${against.aheadMs > 0 ? 'more' : 'less'} than that of ${against.of}`;
      return implausible(`the clock shows ${shown}, ${than}; ${clockAdvice}`);
    }
    if (!confirmed && now.getTime() > clock.builtAt.getTime() + longestOffMs) {
      const late = `the clock shows ${shown}, more than ten years after this program was built (${built})`;
      return implausible(`${late}, and nothing confirms it; ${clockAdvice}`);
    }
    const [one, other] = confirmed ? [] : fromTheFuture(input);
    if (one !== undefined && other !== undefined) {
      const begin = [one, other].map(({ artefact, notBefore }) => `${artefact} begins at ${notBefore.toISOString()}`);
      const message = `${begin.join(' and ')}, after this machine's time ${shown}, and nothing confirms the clock; ${clockAdvice}`;
      return implausible(message);
    }
  }
  if (clock.settlesAt !== undefined && now < clock.settlesAt) {
    return {
      reason: 'ClockJumped',
      message: `the clock has jumped; nothing is signed before ${clock.settlesAt.toISOString()}`,
      recheckAt: clock.settlesAt,
    };
  }
  return undefined;
}

/** Whether any source confirms that the clock is right. Pure. */
export const isConfirmed = (clock: ClockFacts, now: Date): boolean => clock.synchronised || hear(clock, now).confirmed;

/**
 * Why a certificate of ours that begins in the future is no reason to sign; undefined: it is wrong, and not the clock.
 * Two machines, one with a clock that is behind and one with a correct clock, would reissue it and overwrite each other
 * for ever. Pure.
 */
export function doubt({ notBefore, fingerprint }: CertificateFacts, clock: ClockFacts, now: Date): string | undefined {
  if (clock.made?.has(fingerprint) === true || isConfirmed(clock, now)) return undefined;
  const shown = `this machine's clock shows ${now.toISOString()}`;
  return `it is not valid before ${notBefore.toISOString()}, ${shown}, and nothing confirms it; ${clockAdvice}`;
}

interface Heard {
  readonly confirmed: boolean;
  /** Clock that contradicts ours, where none agrees with ours. */
  readonly against?: OtherClock;
}

/** Compares our clock with the clocks of other machines. Where these contradict each other, they prove nothing. */
function hear(clock: ClockFacts, now: Date): Heard {
  const others = (clock.others ?? []).filter((other) => isPossible(other, clock, now));
  const agrees = others.some(({ aheadMs }) => Math.abs(aheadMs) <= clockSkewMs);
  const against = others.find(({ aheadMs }) => Math.abs(aheadMs) > mostApartMs);
  if (against === undefined) return { confirmed: agrees };
  return agrees ? { confirmed: false } : { confirmed: false, against };
}

/**
 * Whether another clock can be right. A clock that shows a time before this program was built is wrong, whatever ours
 * shows, and so very likely is a clock that shows ten years after it, unless ours does, too: its machine may be the
 * leader for long, and must not keep us from recovering.
 */
function isPossible({ aheadMs }: OtherClock, { builtAt }: ClockFacts, now: Date): boolean {
  const shown = now.getTime() - aheadMs;
  const isFarAhead = aheadMs < -mostApartMs && shown > builtAt.getTime() + longestOffMs;
  return shown >= builtAt.getTime() && !isFarAhead;
}

interface Early {
  readonly artefact: string;
  readonly notBefore: Date;
}

/**
 * Certificates that were made on a clock which is ahead of ours: two, because a single one may be dated so on purpose.
 * Only those made by this inventory count: external ones may begin at any time.
 */
function fromTheFuture({ resolved, facts = new Map(), clock, now }: ClockInput): readonly Early[] {
  const found = new Map<string, Early>();
  for (const artefact of resolved?.artefacts ?? []) {
    if (!isMadeHere(artefact, facts)) continue;
    const certificate = certificateOf(facts.get(artefact.name));
    if (certificate === undefined || clock.made?.has(certificate.fingerprint) === true) continue;
    const { fingerprint, notBefore } = certificate;
    if (notBefore.getTime() > now.getTime() + clockSkewMs)
      found.set(fingerprint, { artefact: artefact.name, notBefore });
  }
  return [...found.values()];
}

function isMadeHere(artefact: ResolvedArtefact, facts: Facts): boolean {
  if (artefact.kind === 'signer') return isSignerMadeHere(artefact);
  // A self-signed certificate is not verified by any reader, and must not keep the rest from being repaired.
  if (artefact.kind !== 'target' || artefact.issuer === undefined || artefact.rotatedBy !== undefined) return false;
  return !isClosed(facts.get(artefact.issuer));
}
