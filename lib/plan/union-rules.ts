// The CAs that a file holds next to those of its inputs (`inputs` of followed CAs): a union. A valid CA of an input is
// added. A certificate leaves the file only once it has expired, or once its removal was asked for by name and the CAs
// of the inputs have been in the file for the overlap: nodes that are off, or were made from an older image, catch up
// later, and credentials of the former CA may be in use until then. A CA without which a certificate in use on this
// node could not be verified stays, even if it is named. An input that is absent, empty or damaged changes nothing.
// Pure.
import { bounds } from '../bounds.ts';
import type { External, ResolvedArtefact } from '../inventory/model.ts';
import { type Certificate, distinct, hasEnded, isSame } from '../pki/certificate.ts';
import { isDamaged } from '../pki/damage.ts';
import { verifyChain } from '../pki/verify.ts';
import { locationText } from '../store/store.ts';
import { listed } from '../summary.ts';
import {
  bring,
  type Case,
  earliest,
  type Fault,
  idleMs,
  keep,
  laterMs,
  lookAgainMs,
  type Verdict,
} from './decision.ts';
import type { ArtefactFacts, OfferedAuthorities, UsedChain } from './facts.ts';
import { followedBy } from './judge-authority.ts';

/** Annotation of an input that names CAs for removal from the files that follow it: fingerprints, `SHA256:...`. */
export const retiredAnnotation = 'kube-cert-recovery/retired-cas';

export const defaultOverlapMs = 86_400_000;

export interface United {
  /** All certificates of the file then; the same list where nothing changes. */
  readonly becomes: readonly Certificate[];
  readonly fault: Fault | undefined;
  /** When a CA that was named for removal leaves the file, where nothing else changes before; in the future. */
  readonly removesAt: Date | undefined;
  /** Why CAs of the inputs are not added. */
  readonly full?: string | undefined;
  /** Why CAs that were named stay. */
  readonly kept?: string | undefined;
}

const { 'CAs in a file': mostCas } = bounds.nodeTrust.most;

/** `held`: certificates of the file, with those that have been succeeded replaced. `name`: of the file in a directory. */
export function unitedWith(held: readonly Certificate[], at: Case<External>, name?: string): United {
  const { fact, policy, clock, now } = at;
  const offers = offersTo(at, name);
  const offered = usableOf(offers, now);
  // A CA whose successor has come in its place (judgeFollowed) would come and go at each run.
  const wanted = offered.filter((one) => !isIn(held, one) && followedBy([one], held, now) === undefined);
  const isFull = wanted.length > 0 && held.length + wanted.length > mostCas;
  const lacking = isFull ? [] : wanted;
  const isNamed = ({ facts: { fingerprint } }: Certificate): boolean =>
    offers.some(({ retired }) => retired.includes(fingerprint));
  // A CA that is still offered is in use, even if it is named as retired.
  const named = offered.length === 0 ? [] : held.filter((one) => isNamed(one) && !isIn(offered, one));
  const since = fact.state === 'present' ? fact.changedAt : undefined;
  const overlapMs = policy.caOverlapMs ?? defaultOverlapMs;
  const removesAt = named.length === 0 || lacking.length > 0 ? undefined : since && laterMs(since, overlapMs);
  // Nothing is removed by a clock that may be wrong.
  const ended = clock.synchronised ? held.filter((one) => hasEnded(one.facts, now)) : [];
  const isOver = removesAt !== undefined && now >= removesAt;
  const due = clock.synchronised && isOver ? named : [];
  // CAs by name are those of registries.
  const { needed, kept } = name === undefined ? stillUsed(due, held, at) : { needed: [] };
  const rest = held.filter((one) => !ended.includes(one) && (!due.includes(one) || needed.includes(one)));
  // No file is emptied: where nothing can be added, the last ones stay.
  const stays = offered.length > 0 && rest.length + lacking.length > 0 ? rest : held;
  const becomes = [...stays, ...lacking];
  const gone = held.filter((one) => !stays.includes(one));
  const fault = faultOf(lacking, gone);
  const state = `it lacks ${wanted.length} CAs of the cluster, and holds ${held.length}`;
  const full = isFull ? `${state}: more than ${mostCas} are not added` : undefined;
  return {
    becomes: fault === undefined ? held : becomes,
    fault,
    removesAt: isOver ? undefined : removesAt,
    full,
    kept,
  };
}

type Used = { readonly needed: readonly Certificate[]; readonly kept?: string };

/** Those of the named CAs that verify a certificate in use here which no other CA of the file verifies. */
function stillUsed(named: readonly Certificate[], held: readonly Certificate[], { inUse, now }: Case): Used {
  if (named.length === 0) return { needed: [] };
  if (inUse === undefined || 'problem' in inUse) {
    const why = inUse?.problem ?? 'they were not read';
    const stays = `${listed(named.map(nameOf))} was named for removal, and stays`;
    return { needed: named, kept: `${stays} until the certificates in use here are known: ${why}` };
  }
  const isVerified = ({ chain: [leaf, ...intermediates] }: UsedChain, roots: readonly Certificate[]): boolean =>
    verifyChain({ leaf, intermediates, roots, at: now }).ok;
  const others = held.filter((one) => !named.includes(one));
  const open = inUse.chains.filter((used) => !isVerified(used, others));
  const uses = named.map((ca) => ({ ca, of: open.filter((used) => isVerified(used, [ca])) }));
  const needed = uses.filter(({ of }) => of.length > 0);
  if (needed.length === 0) return { needed: [] };
  const texts = needed.map(
    ({ ca, of }) => `${nameOf(ca)} stays while it verifies ${listed(of.map(({ what }) => what))}`,
  );
  return { needed: needed.map(({ ca }) => ca), kept: `named for removal: ${texts.join('; ')}` };
}

type Offered = Pick<Case<External>, 'artefact' | 'facts' | 'now'>;

/** `name`: of bundles by name, that one alone. */
export const offersTo = ({ artefact: { inputs = [] }, facts }: Offered, name?: string): readonly OfferedAuthorities[] =>
  inputs
    .flatMap((input) => offerOf(facts.get(input)) ?? [])
    .map((offer) => (name === undefined ? offer : { ...offer, whole: offer.each?.get(name) ?? [] }));

/** The CAs of its inputs that can be added. */
export const offeredTo = (at: Offered): readonly Certificate[] => usableOf(offersTo(at), at.now);

function faultOf(lacking: readonly Certificate[], gone: readonly Certificate[]): Fault | undefined {
  const names = (all: readonly Certificate[]): string => listed(all.map(nameOf));
  const parts = [
    ...(lacking.length === 0 ? [] : [`it lacks ${names(lacking)} of the cluster`]),
    ...(gone.length === 0 ? [] : [`${names(gone)} leaves it`]),
  ];
  if (parts.length === 0) return undefined;
  return { reason: lacking.length > 0 ? 'InputsDiffer' : 'ExpiredInBundle', message: parts.join('; ') };
}

const nameOf = ({ facts: { subject, fingerprint } }: Certificate): string =>
  `"${subject}" (sha256 ${fingerprint.slice(0, 16)})`;

const isIn = (all: readonly Certificate[], one: Certificate): boolean => all.some((other) => isSame(other, one));

/** Whether it is a CA that has not expired. One that is valid later only can be trusted ahead of that. */
const isUsable = ({ facts: { isCa, notAfter }, fields }: Certificate, now: Date): boolean =>
  isCa && fields.keyUsage?.certSign !== false && now < notAfter;

const usableOf = (offers: readonly OfferedAuthorities[], now: Date): readonly Certificate[] =>
  distinct(offers.flatMap(({ whole }) => whole.filter((one) => isUsable(one, now) && !isDamaged(one, whole))));

const offerOf = (fact: ArtefactFacts | undefined): OfferedAuthorities | undefined =>
  fact?.state === 'present' || fact?.state === 'broken' ? fact.offer : undefined;

/** Whether files follow it. */
export const isInput = (name: string, artefacts: readonly ResolvedArtefact[]): boolean =>
  artefacts.some((one) => one.kind === 'external' && one.inputs?.includes(name) === true);

export const isOptionalInput = (name: string, artefacts: readonly ResolvedArtefact[]): boolean =>
  artefacts.some((one) => one.name === name && one.kind === 'external' && one.presence === 'optional');

/** Reports an input that files follow, where nothing, or not all of it, can be added to them. */
export function judgeInput({ artefact, fact, now }: Case<External>): Verdict {
  const what = locationText(artefact.location);
  const wanted = 'the files that follow it keep what they hold';
  const problem = (text: string): Verdict => bring('NotOurs', `${text}; ${wanted}`, laterMs(now, lookAgainMs));
  const offer = offerOf(fact) ?? { whole: [], retired: [] };
  if (offer.problems !== undefined && offer.problems.length > 0)
    return problem(`${listed(offer.problems)}; its other CAs are used`);
  const isEmpty = fact.state === 'absent' || (fact.state === 'present' && fact.emptied !== undefined);
  if (isEmpty && artefact.presence === 'optional')
    return keep('Healthy', 'absent, so it counts for nothing', laterMs(now, idleMs));
  if (fact.state === 'absent') return problem(`${what} is absent`);
  const usable = usableOf([offer], now);
  if (usable.length === 0) return problem(`${what} holds no CA that is valid now`);
  if (fact.state === 'broken') return problem(`${fact.message}; its other CAs are used`);
  const others = offer.whole.filter((one) => !usable.includes(one) && now < one.facts.notAfter);
  if (others.length > 0) return problem(`${listed(others.map(nameOf))} in ${what} is no CA; its other CAs are used`);
  const ends = usable.map(({ facts: { notAfter } }) => notAfter);
  return keep('Healthy', `${usable.length} CA(s)`, earliest(laterMs(now, idleMs), ...ends));
}
