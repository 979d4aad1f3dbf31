// The leader-election Leases of a control plane: the Leases whose renewal proves the use of an artefact. Pure.
import type { Artefact, ResolvedArtefact } from './model.ts';

/** Returns each Lease once. */
export function leaderLeases(
  artefacts: readonly (Artefact | ResolvedArtefact)[],
): readonly { readonly namespace: string; readonly name: string }[] {
  const named = artefacts.flatMap(({ readers }) =>
    readers.flatMap(({ proof }) => (proof.kind === 'lease' ? [proof] : [])),
  );
  return [...new Map(named.map(({ namespace, name }) => [`${namespace}/${name}`, { namespace, name }])).values()];
}
