// Metrics of runs on a host, as a file that node_exporter's textfile collector reads: whole at any time. Counters go on
// where the former run of this boot has left them.
import { statSync } from 'node:fs';
import { dirname } from 'node:path';
import { steadyMs } from '../clock.ts';
import { replaceFile } from '../disk/files.ts';
import { errorText, RecoveryError } from '../errors.ts';
import { RunState } from '../host/state.ts';
import { armingOf } from '../install/arming.ts';
import { lookAtUnits } from '../install/unit-facts.ts';
import type { Totals } from '../metrics.ts';
import { usualServices } from '../well-known.ts';
import { isWithoutKey, type RegenRun } from './regen-run.ts';

const noteName = 'metrics';

/** Ours: written by nobody else, for root alone. */
const asTotals = (value: unknown): Totals | undefined =>
  typeof value === 'object' && value !== null ? (value as Totals) : undefined;

/**
 * Never rejects: a directory that is not there is said once an hour, and no repair fails for it. It is not made, because
 * nobody would notice a wrong name.
 */
export async function writeMetrics(run: RegenRun, signal: AbortSignal): Promise<void> {
  const { mode, runtime, unproven, beganMs } = run;
  const { metricsFile: path = '', lockDir } = mode;
  const { metrics, clock, log, isRepeated = false } = runtime;
  const state = new RunState(lockDir);
  const former = isRepeated ? undefined : await state.get(noteName, asTotals);
  try {
    if (statSync(dirname(path), { throwIfNoEntry: false })?.isDirectory() !== true)
      throw new RecoveryError('WriteFailed', noDirectory(path));
    metrics.resume(former?.value ?? {});
    metrics.set('kube_cert_recovery_unproven', unproven.length);
    metrics.set('kube_cert_recovery_run_duration_seconds', (steadyMs(clock) - beganMs) / 1000);
    const loaded = await unitsLoaded(run, signal);
    if (loaded !== undefined) metrics.set('kube_cert_recovery_units_loaded', Number(loaded));
    const content = await metrics.render();
    await replaceFile({ path, content, mode: 0o644, what: 'metrics file', isShared: true, isForOthers: true });
    if (!isRepeated) await state.keep(noteName, await metrics.totals());
  } catch (err) {
    const text = errorText(err);
    if (await state.isNews('metrics-failure', text, clock.now())) log.warn('metrics.failed', { path, err: text });
  }
}

const noDirectory = (path: string): string =>
  `Cannot write metrics file "${path}": there is no directory "${dirname(path)}"; wanted that of node_exporter (--collector.textfile.directory)`;

/** Whether the units are there and loaded; undefined where a kubelet waits for this run, or systemd does not answer. */
export async function unitsLoaded(
  run: RegenRun,
  signal: AbortSignal,
  show?: Parameters<typeof lookAtUnits>[0]['show'],
): Promise<boolean | undefined> {
  if (!run.mode.restart) return undefined;
  const { loaded, ...facts } = await lookAtUnits({
    isWorker: isWithoutKey(run),
    before: run.runtime.config.inventory.repairsBefore ?? usualServices,
    rendered: () => Promise.resolve([]),
    tryProgram: () => Promise.resolve(undefined),
    signal,
    show,
  });
  if (typeof loaded === 'string') return undefined;
  return armingOf({ ...facts, loaded, hasRights: true, hasClock: true }, '').isInstalled;
}
