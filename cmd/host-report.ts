// Output of `init host`, on a control-plane node and on a worker: lines for people, or one document for programs.
import { isCode } from '../lib/errors.ts';
import { type HostMachine, readText } from '../lib/install/host-apply.ts';
import { removeMetrics } from '../lib/install/former-metrics.ts';
import type { UnitFile } from '../lib/install/host.ts';
import { isInUse } from '../lib/install/program-copy.ts';
import type { UnitProgram } from '../lib/install/program-install.ts';
import { installedLines, nextDate, type UnitChange, unitLines } from '../lib/status/installed-text.ts';
import type { NodeStatus } from '../lib/status/node-report.ts';
import { structured } from '../lib/status/structured.ts';
import { apiVersion } from '../lib/well-known.ts';
import { exitCodes } from './exit-codes.ts';
import type { Io } from './io.ts';
import type { installFormats } from './read-config.ts';
import type { lookAtNode } from './status.ts';

export interface Installation {
  readonly here: HostMachine;
  readonly program: UnitProgram;
  readonly files: readonly UnitFile[];
  readonly format: (typeof installFormats)[number];
  /** Settings of the units, for people. */
  readonly settings: readonly string[];
  /** Changes of the command that the units run. */
  readonly changes: readonly string[];
  /** File of metrics that the units used to write; undefined: none is left behind. */
  readonly formerMetrics: string | undefined;
  readonly lookHere: () => ReturnType<typeof lookAtNode>;
}

/** Changes nothing: exit code 1 where the command without --check would change something. */
export async function checkInstallation(installation: Installation, io: Io): Promise<number> {
  const { here, files, settings, program, lookHere } = installation;
  const { status, isInstalled } = await lookHere();
  const outcomes = files.map(({ path, does, content }) => ({ path, does, isChanged: readText(path) !== content }));
  const { executable, copied } = program;
  const wouldCopy =
    copied !== undefined && here.systemctl !== undefined && !(await isInUse(copied.source, copied.places));
  const copy = wouldCopy ? [`Would copy ${copied.source} to ${executable}`] : [];
  const { formerMetrics } = installation;
  const gone = formerMetrics === undefined ? [] : [`Would remove ${formerMetrics}`];
  printLines(installation, [...copy, ...unitLines(outcomes, true), ...settings, ...gone], io);
  const isChanged = printEnd(
    installation,
    { examined: { isChanged: wouldCopy, lines: copy }, outcomes, status, isInstalled },
    io,
  );
  return isChanged ? exitCodes.failed : exitCodes.done;
}

/** Lines for people. */
export function printLines({ format }: Pick<Installation, 'format'>, lines: readonly string[], io: Io): void {
  if (format === 'text' && lines.length > 0) io.stdout.write(`${lines.join('\n')}\n`);
}

/** Removes the file of metrics that the units no longer write; its path where it was there. One that stays is warned of. */
export async function withoutFormerMetrics(
  { here, formerMetrics }: Pick<Installation, 'here' | 'formerMetrics'>,
  { stderr }: Pick<Io, 'stderr'>,
  by: 'start' | 'stop' = 'start',
): Promise<readonly string[]> {
  if (formerMetrics === undefined) return [];
  try {
    await removeMetrics(formerMetrics, here, by);
    return [formerMetrics];
  } catch (err) {
    // The units are changed by now, and no later command would find the file.
    if (!isCode(err, 'WriteFailed')) throw err;
    stderr.write(`${err.message}; remove it yourself: its metrics are no longer renewed\n`);
    return [];
  }
}

interface InstallationEnd {
  /** Outcome for the program that the units start. */
  readonly examined: { readonly isChanged: boolean; readonly lines: readonly string[] };
  readonly outcomes: readonly UnitChange[];
  readonly status: NodeStatus;
  /** Whether systemd has loaded what is on disk. Default: it has. */
  readonly isInstalled?: boolean;
}

/** Whether anything is changed. */
export function printEnd(installation: Installation, end: InstallationEnd, io: Io): boolean {
  const { examined, outcomes, status, isInstalled = true } = end;
  const { class: state, isArmed: armed, reasons } = status;
  const changed = !isInstalled || examined.isChanged || outcomes.some((one) => one.isChanged);
  const changes = [...(examined.isChanged ? examined.lines : []), ...installation.changes];
  const installed = { apiVersion, kind: 'HostInstallation', changed, units: outcomes, changes };
  const info = { ...installed, status: state, armed, reasons, nextAt: nextDate(status)?.at };
  if (installation.format === 'json') io.stdout.write(structured(info, 'json', 2));
  printLines(installation, installedLines(status), io);
  return changed;
}
