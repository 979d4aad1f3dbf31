// `restore`: lists the kept copies of replaced files, and puts one of them back. The file that it replaces is kept too.
// Readers that must read the file again are noted as after a renewal: the next pass with --restart restarts them.
import { systemClock } from '../lib/clock.ts';
import type { FlagsOf } from '../lib/config/flags.ts';
import { parseToolConfig } from '../lib/config/load.ts';
import { isCode, RecoveryError } from '../lib/errors.ts';
import type { Resolved, ResolvedArtefact } from '../lib/inventory/model.ts';
import { suggestion, type Problem } from '../lib/problems.ts';
import { componentsOf } from '../lib/restart/decide.ts';
import { Markers } from '../lib/restart/markers.ts';
import { restoreMarked, type RestoreOutcome } from '../lib/restart/restore-marked.ts';
import { RunState } from '../lib/host/state.ts';
import { requireReadable } from '../lib/host/own-user.ts';
import { nextCommand } from '../lib/next-command.ts';
import { chosenCopy, isExpired, isOfNoUse, requireNoneLost } from '../lib/store/restore-choice.ts';
import { type Generation, listGenerations, readPresentEnd, type RestoreOptions } from '../lib/store/restore.ts';
import { exitCodes } from './exit-codes.ts';
import type { Io } from './io.ts';
import { lockHost } from '../lib/host/sole-writer.ts';
import { configInput, type CommandLine, installFormats, orKubeadm, outputFormat, resolveHere } from './read-config.ts';
import { configHere } from './status.ts';
import { fileDirectories, isFile } from '../lib/inventory/places.ts';
import { structured } from '../lib/status/structured.ts';
import { table } from '../lib/table.ts';
import { apiVersion } from '../lib/well-known.ts';

type RestoreLine = CommandLine & FlagsOf<'restore'>;

export async function restoreCommand(name: string | undefined, line: RestoreLine, io: Io): Promise<number> {
  const { generation, force = false, output, ...flags } = line;
  const problems = flagProblems(name, generation);
  const format = outputFormat(installFormats, output, problems);
  const config = configHere(parseToolConfig({ ...configInput(orKubeadm(flags), io), problems }));
  const { backupDir, lockDir, dryRun } = config;
  await requireReadable(backupDir);
  const resolved = await resolveHere(config);
  const artefacts = resolved.artefacts.filter(({ location }) => isFile(location));
  const tell = ({ message }: { readonly message: string }): void => void io.stderr.write(`${message}\n`);
  const { artefacts: owners, endpoints } = resolved;
  const options = { backupDir, owners, endpoints, onBackupFailed: tell, onAttributesLost: tell };
  if (name === undefined) return list(artefacts, { ...options, format }, { stdout: io.stdout, tell });
  const names = artefacts.map((artefact) => artefact.name);
  if (!names.includes(name)) {
    const message = `Cannot restore artefact "${name}": there is none on this host${suggestion(name, names)}`;
    throw new RecoveryError('ConfigInvalid', message);
  }
  const own = artefacts.filter((artefact) => artefact.name === name);
  const kept = await listGenerations(own, options);
  const wanted = chosenCopy(kept, name, generation);
  const passedOver = generation === undefined ? kept.slice(0, kept.indexOf(wanted)) : [];
  for (const one of [...passedOver, wanted].filter(isOfNoUse)) tell(problemText(one));
  if (wanted.problem !== undefined)
    throw new RecoveryError('MaterialInvalid', `Cannot restore: ${problemText(wanted).message}`);
  if (wanted.unusable !== undefined) tell(asItWasWarning(wanted));
  const allow = (): Promise<void> => requireAllowed(wanted, { options, kept, force, tell, signal: io.signal });
  if (dryRun) {
    await allow();
    io.stdout.write(`Would restore ${name} of ${keptText(wanted)} (generation ${wanted.generation})\n`);
    return exitCodes.done;
  }
  const lock = await lockHost({
    lockDir,
    directories: fileDirectories([wanted.location]),
    once: true,
    clock: systemClock,
    signal: io.signal,
  });
  try {
    await allow(); // under the lock: no other run of ours may renew between the check and the write
    const markers = new Markers({ state: new RunState(lockDir), onFailed: tell });
    const asItWas = wanted.unusable !== undefined;
    const marking = { resolved, markers, options: { ...options, asItWas }, signal: io.signal };
    await lock.confirm();
    const outcome = await restoreMarked(wanted, marking);
    io.stdout.write(outcomeText(outcome, wanted) + (outcome === 'restored' ? restartText(wanted, resolved) : ''));
    return outcome === 'conflict' ? exitCodes.failed : exitCodes.done;
  } finally {
    await lock.release();
  }
}

interface Allowance extends Pick<Told, 'tell'> {
  readonly options: RestoreOptions;
  readonly kept: readonly Generation[];
  readonly force: boolean;
  readonly signal: AbortSignal;
}

/** Compares the present file with the wanted copy. Throws MaterialInvalid, and ReadFailed for an unreadable file. */
async function requireAllowed(wanted: Generation, { options, kept, force, tell, signal }: Allowance): Promise<void> {
  const now = systemClock.now();
  if (!force) requireNoneLost(wanted, { there: await readPresentEnd(wanted.location, options, signal), kept, now });
  if (isExpired(wanted, now)) tell(expiredWarning(wanted));
}

interface Told extends Pick<Io, 'stdout'> {
  readonly tell: (problem: { readonly message: string }) => void;
}

/** Lists all readable copies, even where copies of an artefact are unreadable. */
async function list(
  artefacts: readonly ResolvedArtefact[],
  { format, ...options }: RestoreOptions & { readonly format: 'text' | 'json' },
  { stdout, tell }: Told,
): Promise<number> {
  const kept: Generation[] = [];
  let exit: number = exitCodes.done;
  for (const artefact of artefacts) {
    try {
      kept.push(...(await listGenerations([artefact], options)));
    } catch (err) {
      if (!isCode(err, 'ReadFailed')) throw err;
      tell(err);
      exit = exitCodes.failed;
    }
  }
  const isEmpty = kept.length === 0 && exit === exitCodes.done;
  const text = isEmpty
    ? `Nothing is kept in ${options.backupDir}.\n`
    : `${listText(kept, systemClock.now())}Put the newest one back: ${nextCommand('restore NAME')}\n`;
  const info = { apiVersion, kind: 'KeptCopies', items: kept.map(keptInfo) };
  stdout.write(format === 'json' ? structured(info, 'json', 2) : text);
  for (const one of kept.filter(isOfNoUse)) tell(problemText(one));
  return exit;
}

const keptInfo = ({ artefact, generation, keptAt, notAfter, problem, unusable }: Generation): object => ({
  artefact,
  generation,
  keptAt,
  expirationDate: notAfter,
  problem: problem ?? unusable,
});

const problemText = ({ artefact, generation, problem, unusable }: Generation): { readonly message: string } => ({
  message: `Generation ${generation} of ${artefact}: ${problem ?? unusable}`,
});

const asItWasWarning = ({ artefact, generation }: Generation): { readonly message: string } => ({
  message: `Generation ${generation} of ${artefact} is put back as it was: mode regen repairs or reports it at its next pass`,
});

const keptText = ({ keptAt }: Pick<Generation, 'keptAt'>): string => keptAt?.toISOString() ?? 'unknown';

/** Components that read the file only at their start. */
function restartText({ artefact, location }: Generation, resolved: Resolved): string {
  const readers = resolved.artefacts.find(({ name }) => name === artefact)?.readers ?? [];
  const names = [...new Set(readers.filter(({ needs }) => needs === 'restart').map(({ component }) => component))];
  const marked = componentsOf(resolved).filter(({ locations }) => locations.includes(location));
  const isMarked = (name: string): boolean =>
    marked.some((component) => component.name === name && !component.isService);
  const [next, others] = [names.filter(isMarked), names.filter((name) => !isMarked(name))];
  return [
    ...(next.length === 0 ? [] : [`${next.join(', ')} must be restarted: the next pass with --restart does it.\n`]),
    ...(others.length === 0 ? [] : [`Restart ${others.join(', ')}, which read it at their start only.\n`]),
  ].join('');
}

function flagProblems(name: string | undefined, generation: string | undefined): Problem[] {
  if (generation === undefined) return [];
  const path = '--generation';
  if (name === undefined) return [{ path, kind: 'conflict', message: 'must be left out without an artefact' }];
  if (/^\d+$/.test(generation)) return [];
  return [{ path, kind: 'invalid', message: `must be a number as it is listed, got "${generation}"` }];
}

const endText = (notAfter: Date | undefined, now: Date): string =>
  notAfter === undefined ? '' : `${notAfter.toISOString()}${notAfter <= now ? ' (expired)' : ''}`;

function expiredWarning({ artefact, generation, notAfter }: Generation): { readonly message: string } {
  const message = `Generation ${generation} of ${artefact} expired at ${notAfter?.toISOString()}: mode regen renews it at its next pass`;
  return { message };
}

function outcomeText(outcome: RestoreOutcome, wanted: Generation): string {
  const { artefact, generation } = wanted;
  const what = `${artefact} of ${keptText(wanted)} (generation ${generation})`;
  if (outcome === 'unchanged') return `Unchanged: ${what} is what is there.\n`;
  if (outcome === 'conflict') return `Not restored: somebody else has changed ${artefact} meanwhile; look again.\n`;
  return `Restored ${what}; what was there is kept as a new generation.\n`;
}

/** A copy that cannot be read cannot be put back; an unusable one can, as it was. */
function stateText({ problem, unusable, notAfter }: Generation, now: Date): string {
  if (problem !== undefined) return 'unreadable';
  return unusable === undefined ? endText(notAfter, now) : 'unusable';
}

function listText(kept: readonly Generation[], now: Date): string {
  const text = table(kept, [
    ['ARTEFACT', ({ artefact }) => artefact],
    ['GENERATION', ({ generation }) => generation],
    ['KEPT AT', keptText],
    ['EXPIRES', (one) => stateText(one, now)],
  ]);
  return text.replaceAll(/ +$/gm, '');
}
