// Which reaction a change of an artefact's files asks for. Pure.
import type { Reader } from '../inventory/model.ts';

/** The files of one artefact taken together, as they lie on disk now. */
export type FilesState =
  | 'complete'
  /** All gone. */
  | 'absent'
  /** One half of a pair, or one of several files, is not there. */
  | 'partial'
  /** A certificate and a key that do not belong together, or that cannot be parsed: the writer is between the two. */
  | 'mismatched'
  | 'unreadable';

export interface Situation {
  readonly files: FilesState;
  /** `found`: they were there when we started, so whoever needs a restart may well have started after them. */
  readonly since: 'found' | 'changed';
  readonly readers: readonly Reader[];
  /** Whether somebody looks at the processes before a restart: then files that were found are told, too. */
  readonly canRestart: boolean;
}

export type Reaction =
  | { readonly kind: 'none'; readonly reason: 'NoReader' | 'FilesGone' | 'NothingToSee' }
  | { readonly kind: 'wait'; readonly reason: 'PairIncomplete' | 'PairMismatched' | 'FilesUnreadable' }
  | { readonly kind: 'react'; readonly prove: readonly Reader[]; readonly restart: readonly Reader[] };

export function decide({ files, since, readers, canRestart }: Situation): Reaction {
  if (readers.length === 0) return { kind: 'none', reason: 'NoReader' };
  switch (files) {
    case 'absent':
      return { kind: 'none', reason: 'FilesGone' };
    case 'partial':
      return { kind: 'wait', reason: 'PairIncomplete' };
    case 'mismatched':
      return { kind: 'wait', reason: 'PairMismatched' };
    case 'unreadable':
      return { kind: 'wait', reason: 'FilesUnreadable' };
    case 'complete':
      break;
  }
  const prove = readers.filter(({ needs, proof }) => needs === 'nothing' && proof.kind !== 'none');
  const restart = since === 'changed' || canRestart ? readers.filter(({ needs }) => needs === 'restart') : [];
  if (prove.length + restart.length === 0) return { kind: 'none', reason: 'NothingToSee' };
  return { kind: 'react', prove, restart };
}
