// Facts about a signer that its own bytes do not give: copies of its certificate, leaves that it should have signed, its
// successor, its backup.
import { isCode } from '../errors.ts';
import type { Resolved, ResolvedArtefact, ResolvedSigner } from '../inventory/model.ts';
import type { Found, Store } from '../store/store.ts';
import type { ArtefactFacts, Facts } from './facts.ts';
import type { FaultKeeper } from './faults.ts';

export interface SignerSources {
  readonly resolved: Resolved;
  readonly store: Pick<Store, 'backup'>;
  readonly found: ReadonlyMap<string, Found>;
  readonly now: Date;
}

/** Returns the fact with the evidence; undefined where there is none. */
type JudgeSigner = (signer: ResolvedSigner, fact: ArtefactFacts) => Promise<ArtefactFacts | undefined>;

/** Adds evidence to the facts of signers. A signer whose evidence cannot be judged keeps its facts. */
export async function judgeSigners(
  facts: Facts,
  { resolved }: Pick<SignerSources, 'resolved'>,
  onFault: FaultKeeper['keep'],
  judge: JudgeSigner,
): Promise<Facts> {
  const judged = new Map(facts);
  for (const signer of resolved.artefacts) {
    const fact = facts.get(signer.name);
    if (signer.kind !== 'signer' || fact === undefined) continue;
    try {
      judged.set(signer.name, (await judge(signer, fact)) ?? fact);
    } catch (err) {
      onFault(signer.name, err);
    }
  }
  return judged;
}

/** Returns the newest backup; undefined where none can be read. */
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
