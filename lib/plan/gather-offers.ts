// The answers of sources, as facts for the plan: the offered pair, the present one, and the CA that must have signed
// it. Checks only that the pair is a pair.
import { bounds } from '../bounds.ts';
import { errorText, RecoveryError } from '../errors.ts';
import { certificateKey } from '../inventory/content.ts';
import type { Resolved } from '../inventory/model.ts';
import { parseCertificates, wholeCertificates } from '../pki/certificate.ts';
import { pairMatches } from '../pki/key.ts';
import type { Gathered } from './gather.ts';
import { judgeOffer } from './judge-authority.ts';
import type { Offer, OfferAnswer, Offers } from './facts.ts';

/** The two entries of a pair, in PEM. Holds a key: never logged. */
export interface PairBytes {
  readonly certificate: Uint8Array;
  readonly key: Uint8Array;
}

/** The source of a target and its answer: a pair, or why it has none. Undefined: it was not fetched. */
export interface Asked extends Pick<Offer, 'place' | 'askedAt'> {
  readonly answer?: PairBytes | AuthorityBytes | Extract<OfferAnswer, { problem: string }> | undefined;
}

/** CAs that the cluster publishes, in PEM: unchecked. */
export interface AuthorityBytes {
  readonly authorities: Uint8Array;
}

/** Answers by target. */
export type Sources = ReadonlyMap<string, Asked>;

type Around = Pick<Gathered, 'facts' | 'found' | 'readAt' | 'backups'> & { readonly resolved: Resolved };

/** Judged against the CAs of all files that are followed. */
function authorityOffered(authorities: Uint8Array, { facts, readAt }: Around): OfferAnswer {
  const held = [...facts.values()].flatMap((fact) => (fact.state === 'present' ? (fact.held ?? []) : []));
  const judgement = judgeOffer(authorities, held, readAt);
  if (judgement.state === 'successor') return { successor: judgement.certificate };
  return judgement.state === 'none' ? { none: true } : { problem: judgement.reason };
}

export function understandOffers(sources: Sources | undefined, around: Around): Offers | undefined {
  if (sources === undefined || sources.size === 0) return undefined;
  return new Map(
    [...sources].map(([name, { answer, ...asked }]): [string, Offer] => {
      if (answer === undefined) return [name, asked];
      if ('problem' in answer) return [name, { ...asked, answer }];
      const known =
        'authorities' in answer ? authorityOffered(answer.authorities, around) : understood(name, answer, around);
      return [name, { ...asked, answer: known }];
    }),
  );
}

function understood(name: string, offered: PairBytes, { resolved, facts, found, backups }: Around): OfferAnswer {
  const target = resolved.artefacts.find((one) => one.name === name);
  const issuer = target?.kind === 'target' ? target.issuer : undefined;
  const certificatesOfEntry = (of: string) => wholeCertificates(found.get(of)?.entries[certificateKey]);
  const [earlier] = wholeCertificates(backups.get(name)?.entries[certificateKey]);
  try {
    return {
      offered: leafOfPair(offered, 'what it has'),
      present: facts.get(name)?.state === 'present' ? (certificatesOfEntry(name)[0] ?? earlier) : undefined,
      authorities: issuer === undefined ? [] : certificatesOfEntry(issuer),
    };
  } catch (err) {
    return { problem: errorText(err) };
  }
}

const longestChain = bounds.offer.most.certificates;

/** Throws MaterialInvalid. */
export function leafOfPair({ certificate, key }: PairBytes, what: string) {
  const certificates = parseCertificates(certificate, what, 'skipped');
  const [leaf] = certificates;
  if (leaf === undefined) throw new RecoveryError('MaterialInvalid', `Cannot use ${what}: it has no certificate`);
  if (certificates.length > longestChain) {
    const state = `it has ${certificates.length} certificates, at most ${longestChain} are a chain`;
    throw new RecoveryError('MaterialInvalid', `Cannot use ${what}: ${state}`);
  }
  if (pairMatches(leaf, key, what)) return leaf;
  throw new RecoveryError('MaterialInvalid', `Cannot use ${what}: its key does not belong to its certificate`);
}
