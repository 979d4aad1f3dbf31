// Which kept copy of a file is put back, and when that is refused. Pure.
import { RecoveryError } from '../errors.ts';
import { nextCommand } from '../next-command.ts';
import type { Generation } from './restore.ts';

/** Unreadable, or unusable for its readers. */
export const isOfNoUse = ({ problem, unusable }: Generation): boolean =>
  problem !== undefined || unusable !== undefined;

/** The named generation, else the newest usable one, else the newest readable one. Throws ReadFailed. */
export function chosenCopy(kept: readonly Generation[], name: string, generation: string | undefined): Generation {
  const own = kept.filter(({ artefact }) => artefact === name);
  const found =
    generation === undefined
      ? (own.find((one) => !isOfNoUse(one)) ?? own.find(({ problem }) => problem === undefined))
      : own.find((one) => Number(one.generation) === Number(generation));
  if (found !== undefined) return found;
  const there = own.map((one) => one.generation).join(', ');
  const message = `Cannot restore artefact "${name}": ${generation === undefined ? 'no generation that can be read' : `no generation "${generation}"`} is kept`;
  throw new RecoveryError('ReadFailed', `${message}${there === '' ? '' : `; there are ${there}`}`);
}

export const isExpired = ({ notAfter }: Generation, now: Date): boolean => notAfter !== undefined && notAfter <= now;

interface Standing {
  /** Expiry of the present certificate; undefined: it is unusable. */
  readonly there: Date | undefined;
  readonly kept: readonly Generation[];
  readonly now: Date;
}

/** Refuses to replace a working certificate with an unusable copy; --force skips this check. Throws MaterialInvalid. */
export function requireNoneLost(wanted: Generation, { there, kept, now }: Standing): void {
  if ((!isExpired(wanted, now) && !isOfNoUse(wanted)) || there === undefined || there <= now) return;
  const { artefact, generation, notAfter } = wanted;
  const own = kept.filter((one) => one.artefact === artefact && !isOfNoUse(one) && !isExpired(one, now));
  const valid = own[0] && nextCommand(`restore ${artefact}`, { '--generation': own[0].generation });
  const other = own[0] === undefined ? 'no kept copy is valid' : `generation ${own[0].generation} is: ${valid}`;
  const state = isOfNoUse(wanted) ? 'is of no use to its readers' : `expired at ${notAfter?.toISOString()}`;
  const message = `Cannot restore artefact "${artefact}": generation ${generation} ${state}, and what is there is valid until ${there.toISOString()}; ${other}. --force restores it all the same`;
  throw new RecoveryError('MaterialInvalid', message);
}
