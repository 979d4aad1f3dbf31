// Files in the place of a target that are not this program's to write. Pure.
import type { ResolvedTarget } from '../inventory/model.ts';
import { bring, type Case, idleMs, keep, laterMs, lookAgainMs, type PairCase, type Verdict } from './decision.ts';

/** A sound kubeconfig whose credentials somebody else keeps. */
export function credentialsOfOthers({ fact, now }: PairCase): Verdict | undefined {
  if (fact.state !== 'broken' || fact.problem !== 'foreign') return undefined;
  return keep('NotOurs', fact.message, laterMs(now, idleMs));
}

/** Another document in the place of a kubeconfig: a person must say which of the two belongs there. */
export function fileOfOthers({ artefact, fact, now }: Case<ResolvedTarget>): Verdict | undefined {
  if (fact.state !== 'broken' || fact.problem !== 'otherDocument') return undefined;
  const optional = artefact.presence === 'optional';
  if (optional) return keep('NotOurs', fact.message, laterMs(now, idleMs));
  const message = `${fact.message}; move it away, or name the kubeconfig of its component by --kubeconfig`;
  return bring('NotOurs', message, laterMs(now, lookAgainMs));
}
