// Brings the program to where units start it. A copy is used only once it has run, also as a unit: until then, and if it
// never does, the former one stays in use.
import { rmdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { systemClock } from '../clock.ts';
import { replaceFile } from '../disk/files.ts';
import { RecoveryError } from '../errors.ts';
import { acquireLock } from '../host/lock.ts';
import { propertyIn, shownOf } from '../host/systemd.ts';
import { removeFile } from './existing-files.ts';
import type { HostMachine, Systemctl } from './host-apply.ts';
import { trialOf, type UnitFile } from './host.ts';
import { type Examined, examineProgram, requireProgram } from './program-check.ts';
import { copyProgram, dropCopy, flipTo, type ProgramPlaces, restoreLabels } from './program-copy.ts';

export interface UnitProgram {
  /** Path by which units start it. */
  readonly executable: string;
  /** The launcher that is copied there, and the places of copies; undefined: units start it where it lies. */
  readonly copied: { readonly source: string; readonly places: ProgramPlaces } | undefined;
}

interface Installed extends Examined {
  /** Changes that were made, for the administrator. */
  readonly lines: readonly string[];
  /** Whether another version is in use than before. */
  readonly isChanged: boolean;
}

/**
 * Before `units` are written: the first one is that of the timer. Where systemd does not run, nothing is copied, and the
 * answer may have problems. Throws ConfigInvalid, PreconditionFailed, WriteFailed.
 */
export async function installProgram(
  { executable, copied }: UnitProgram,
  [service]: readonly UnitFile[],
  { systemctl }: HostMachine,
  signal: AbortSignal,
): Promise<Installed> {
  if (systemctl === undefined || copied === undefined) {
    const examined = await examineProgram(executable, signal);
    if (systemctl !== undefined) requireProgram(examined.problems);
    return { ...examined, lines: [], isChanged: false };
  }
  requireProgram([]);
  return withCopies(copied.places, async () => installCopy({ ...copied, service, systemctl }, signal));
}

/** Holds the lock of the copies: two at once would remove what the other one tries. Runs go on meanwhile. */
export async function withCopies<T>({ home }: ProgramPlaces, work: () => Promise<T>): Promise<T> {
  const directory = join(dirname(home), `.${basename(home)}-install`);
  const lock = await acquireLock({ directory, clock: systemClock, guards: `copies of the program in "${home}"` });
  try {
    return await work();
  } finally {
    await lock.release();
    await rmdir(directory).catch(() => undefined); // another one is about to take it
  }
}

interface Copying {
  readonly source: string;
  readonly service: UnitFile | undefined;
  readonly systemctl: Systemctl;
  readonly places: ProgramPlaces;
}

async function installCopy({ source, service, systemctl, places }: Copying, signal: AbortSignal): Promise<Installed> {
  const copy = await copyProgram(source, places);
  const { launcher, inUse } = copy;
  const labels = await restoreLabels(places);
  const { problems, warnings } = await examineProgram(launcher, signal);
  const isTried = launcher === inUse || problems.length > 0;
  const [failure] = isTried ? problems : await tryAsUnit(service?.content ?? '', launcher, systemctl, signal);
  if (failure !== undefined) {
    await dropCopy(copy);
    const state = inUse === undefined ? 'no unit was written' : `"${inUse}" stays in use`;
    throw new RecoveryError('PreconditionFailed', `Cannot install this version: it ${failure}; ${state}`);
  }
  await flipTo(copy, places);
  const lines =
    launcher === inUse && !copy.isWritten
      ? [`Unchanged: ${launcher}`]
      : [
          copy.isWritten ? `Wrote ${launcher}, copied from ${source}` : `Started from now on: ${launcher}`,
          ...formerLines(launcher === inUse ? undefined : inUse),
        ];
  return { problems, lines, isChanged: copy.isWritten || launcher !== inUse, warnings: [...labels, ...warnings] };
}

const formerLines = (inUse: string | undefined): readonly string[] =>
  inUse === undefined ? [] : [`The former version stays beside it: ${inUse}`];

const trialName = 'kube-cert-recovery-trial.service';

/** Sentences as in Examined. */
async function tryAsUnit(
  service: string,
  launcher: string,
  systemctl: Systemctl,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const path = join('/run/systemd/system', trialName);
  const properties = ['Result', 'ExecMainStatus'];
  try {
    await replaceFile({ path, content: trialOf(service, launcher), mode: 0o644, what: 'unit' });
    await systemctl('daemon-reload');
    await systemctl('start', trialName);
    return [];
  } catch {
    const shown = (await shownOf([trialName], properties, signal))?.get(trialName) ?? '';
    const how = properties.map((property) => propertyIn(shown, property)).join(' ');
    return [`must be a program that runs under systemd; "${launcher} --version" failed there (${how})`];
  } finally {
    await removeFile(path, 'unit');
    await systemctl('daemon-reload');
    await systemctl('reset-failed', trialName).catch(() => undefined); // it has not failed
  }
}
