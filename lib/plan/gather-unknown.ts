// Adds to the facts of each signer in files the evidence that another CA has replaced it. Its backup is read only then.
import type { Resolved } from '../inventory/model.ts';
import { isFile, isMadeHere } from '../inventory/places.ts';
import type { Found, Store } from '../store/store.ts';
import type { Facts } from './facts.ts';
import type { FaultKeeper } from './faults.ts';
import { readableBackup } from './signer-copies.ts';
import { strangersTo, unknownAuthority } from './unknown-authority.ts';

interface UnknownSources {
  readonly resolved: Resolved;
  readonly found: ReadonlyMap<string, Found>;
  readonly store: Pick<Store, 'backup'>;
  readonly now: Date;
}

/** Keeps the facts of a signer whose evidence cannot be judged. */
export async function withUnknownAuthorities(
  facts: Facts,
  sources: UnknownSources,
  onFault: FaultKeeper['keep'],
): Promise<Facts> {
  const judged = new Map(facts);
  for (const signer of sources.resolved.artefacts) {
    const fact = facts.get(signer.name);
    if (signer.kind !== 'signer' || fact?.state !== 'present') continue;
    if (!isFile(signer.location) || isMadeHere(signer)) continue; // it is made again with all that it signs
    try {
      const strangers = strangersTo(signer, sources);
      if (strangers === undefined) continue;
      const unknownTo = unknownAuthority(strangers, await readableBackup(signer, sources.store), sources);
      judged.set(signer.name, { ...fact, unknownTo });
    } catch (err) {
      onFault(signer.name, err);
    }
  }
  return judged;
}
