// Where the template of a renewal is lost: the newest backup stands in for it, if there is one.
import { isCode } from '../errors.ts';
import type { Resolved, ResolvedArtefact } from '../inventory/model.ts';
import type { Found, Store } from '../store/store.ts';
import type { ArtefactFacts, Facts } from './facts.ts';

/** Of each target that is to be like its predecessor, where that cannot be read, the newest backup. */
export async function backupsOf(
  facts: Facts,
  { resolved, store }: { readonly resolved: Resolved; readonly store: Store },
  onFault: (artefact: string, err: unknown) => void,
): Promise<ReadonlyMap<string, Found>> {
  const backups = new Map<string, Found>();
  const lost = resolved.artefacts.filter((artefact) => isTemplateLost(artefact, facts.get(artefact.name)));
  await Promise.all(
    lost.map(async ({ name, truth }) => {
      try {
        const backup = await store.backup?.(truth);
        if (backup !== undefined) backups.set(name, backup);
      } catch (err) {
        // A backup is a better template than a declaration, no more: without it the declaration serves.
        if (!isCode(err, 'ReadFailed', 'MaterialInvalid')) onFault(name, err);
      }
    }),
  );
  return backups;
}

/** It is to be like its predecessor, and there is none that could be read. */
function isTemplateLost(artefact: ResolvedArtefact, fact: ArtefactFacts | undefined): boolean {
  if (artefact.kind !== 'target' || artefact.template !== 'present') return false;
  if (fact?.state === 'absent') return artefact.presence !== 'optional';
  return fact?.state === 'broken' && fact.problem !== 'foreign' && (fact.certificates ?? []).length === 0;
}

interface Lost {
  readonly fact: ArtefactFacts;
  readonly resolved: Resolved;
  readonly found: ReadonlyMap<string, Found>;
  readonly backups: ReadonlyMap<string, Found>;
}

/** A kubeconfig of which neither the document nor a backup can be understood. */
export function isFromNothing(name: string, { fact, resolved, found, backups }: Lost): boolean {
  const artefact = resolved.artefacts.find((row) => row.name === name);
  if (artefact?.truth.kind !== 'kubeconfig' || !isTemplateLost(artefact, fact) || backups.has(name)) return false;
  const there = found.get(name);
  return there === undefined || (there.problem !== undefined && Object.keys(there.entries).length === 0);
}
