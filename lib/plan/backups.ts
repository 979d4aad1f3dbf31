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
    lost.map(async (artefact) => {
      try {
        // A backup is a better template than a declaration, no more: without it the declaration serves.
        const backup = await readableBackup(artefact, store);
        if (backup !== undefined) backups.set(artefact.name, backup);
      } catch (err) {
        onFault(artefact.name, err);
      }
    }),
  );
  return backups;
}

/** The newest backup; undefined where there is none that can be read. */
export async function readableBackup(
  { location }: Pick<ResolvedArtefact, 'location'>,
  store: Pick<Store, 'backup'>,
): Promise<Found | undefined> {
  try {
    return await store.backup?.(location);
  } catch (err) {
    if (isCode(err, 'ReadFailed', 'MaterialInvalid')) return undefined;
    throw err;
  }
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
  if (artefact?.location.kind !== 'kubeconfig' || !isTemplateLost(artefact, fact) || backups.has(name)) return false;
  const there = found.get(name);
  return there === undefined || (there.problem !== undefined && Object.keys(there.entries).length === 0);
}
