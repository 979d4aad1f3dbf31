// The origins of new content, one entry each: how it is made in a pass, under the lock of the files; and for some of
// them, how it is obtained before that, between two passes, while no lock is held. Which origin an artefact has is
// decided by the plan. Modules that open connections are loaded when they are needed: a kubelet may wait for this run.
import type { ResolvedArtefact } from '../inventory/model.ts';
import type { Issued } from '../issue/ingredients.ts';
import { type Make, notOurs, sign, withNewAuthority } from '../issue/issue.ts';
import { signedWithOwnKey, succeeded } from '../issue/kept-keys.ts';
import { putBack } from '../issue/put-back.ts';
import type { LogEvent } from '../log.ts';
import type { Origin } from '../plan/decision.ts';
import type { Between } from './obtaining.ts';
import { identityOf, sourceText } from './other-cluster.ts';
import { asSiblingHas, putBackPair, followedAuthorities, type OriginIngredients, obtainedPair } from './taken-over.ts';

type Kind = ResolvedArtefact['kind'];
type ByKind<T> = { readonly [K in Kind]?: T };
type Makers = {
  readonly [K in Kind]?: (artefact: Extract<ResolvedArtefact, { readonly kind: K }>, from: OriginIngredients) => Issued;
};

interface OriginEntry {
  /** Makes the new material, in a pass. */
  readonly make: Make<OriginIngredients>;
  /** Log events of writes, where the kind of the artefact alone does not determine them. */
  readonly events?: ByKind<LogEvent>;
  /** Whether the log names where the content comes from: the message of the decision. */
  readonly logsMessage?: true;
  /** Obtains the answer about which the next pass decides, between two passes. */
  readonly between?: Between;
}

/** Makes artefacts of these kinds alone. */
const only =
  (makers: Makers): Make<OriginIngredients> =>
  (artefact, from) => {
    const make = makers[artefact.kind] as Make<OriginIngredients> | undefined;
    if (make === undefined) throw notOurs(artefact);
    return make(artefact, from);
  };

/** Artefacts that are obtained from the API of this cluster. */
const ofCluster =
  (isObtained: (artefact: ResolvedArtefact) => boolean): Between['places'] =>
  ({ resolved }) =>
    resolved.artefacts.filter(isObtained).map(({ name }) => ({ artefact: name, text: 'the cluster', identity: '' }));

export const origins: Readonly<Record<Origin, OriginEntry>> = {
  sign: { make: sign },
  ownKey: { make: only({ signer: signedWithOwnKey }), events: { signer: 'signer.renewed' }, logsMessage: true },
  follow: {
    make: only({ signer: succeeded, external: followedAuthorities }),
    events: { signer: 'signer.restored' },
    logsMessage: true,
    between: {
      onlyInRuns: true,
      places: ofCluster((one) => one.kind === 'external' && one.followedAs === 'serverCa'),
      obtain: async (artefact, run) => (await import('./published-ca.ts')).published(artefact, run),
    },
  },
  request: {
    make: only({ target: obtainedPair }),
    between: {
      onlyInRuns: true,
      places: ofCluster((one) => one.kind === 'target' && one.obtainedBy === 'request'),
      obtain: async (artefact, run) => (await import('./request-pair.ts')).requested(artefact, run),
    },
  },
  putBack: {
    make: only({ signer: putBack, target: putBackPair }),
    events: { signer: 'signer.restored', target: 'target.restored' },
  },
  sibling: { make: only({ signer: asSiblingHas }), events: { signer: 'signer.restored' } },
  authority: { make: only({ target: withNewAuthority }) },
  fetch: {
    make: only({ target: obtainedPair }),
    events: { target: 'pair.fetched' },
    logsMessage: true,
    between: {
      places: ({ sources }) =>
        Object.entries(sources).map(([artefact, source]) => ({
          artefact,
          text: sourceText(source),
          identity: identityOf(source),
        })),
      obtain: async (artefact, run) => (await import('./read-source.ts')).fetched(artefact, run),
    },
  },
};
