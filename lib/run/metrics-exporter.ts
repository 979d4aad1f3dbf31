// Serves the file of metrics that the runs of this machine write (metrics-file.ts), so that a pod can show them which may
// read nothing else. It is ready while runs write it.
import { constants, statSync } from 'node:fs';
import type { Address } from '../address.ts';
import type { Clock } from '../clock.ts';
import { realDisk } from '../disk/disk.ts';
import { readRegularFile } from '../disk/files.ts';
import { durationText } from '../duration.ts';
import { type CheckState, Health, keepServingHealth } from '../health.ts';
import type { Log } from '../log.ts';
import { noMetrics } from '../metrics.ts';
import type { TlsFiles } from '../metrics-tls.ts';
import { nextCommand } from '../next-command.ts';

interface MetricsExporter {
  readonly file: string;
  /** For this machine alone, with the probes. */
  readonly address: Address;
  /** For other machines. */
  readonly secured: (TlsFiles & { readonly bindAddress: Address | undefined }) | undefined;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** Resolves when the signal aborts. */
export async function exportMetricsFile({ file, address, secured, ...given }: MetricsExporter): Promise<void> {
  const health = new Health();
  health.set('runs', () => judgeRuns(statSync(file, { throwIfNoEntry: false })?.mtime, given.clock.now()));
  const contentType = 'text/plain; version=0.0.4; charset=utf-8';
  // The user of node_exporter may own the directory: no link there leads to a file of root's, which all may then read.
  const render = async () => (await readRegularFile(realDisk, file, constants.O_NOFOLLOW)).toString();
  const metrics = { ...noMetrics, contentType, render };
  const serving = { ...given, health, metrics };
  const servers = [
    await keepServingHealth({ ...serving, address }),
    secured?.bindAddress && (await keepServingHealth({ ...serving, address: secured.bindAddress, tls: secured })),
  ];
  for (const server of servers) await server?.closed;
}

/** As the alert CertRecoveryNotRunning: the timer starts a run each minute, and systemd ends one after at most seven. */
const longestAgeMs = 15 * 60_000;

/** `written`: undefined: there is no file. Pure. */
export function judgeRuns(written: Date | undefined, now: Date): CheckState {
  const state = `see "${nextCommand('status')}" on this node`;
  if (written === undefined) return { ok: false, message: `no run has written its file of metrics: ${state}` };
  const ageMs = now.getTime() - written.getTime();
  // By a clock that was set back a file stays new: the next run dates it anew.
  if (Math.abs(ageMs) <= longestAgeMs) return { ok: true };
  const text = durationText(Math.abs(ageMs) - (Math.abs(ageMs) % 60_000));
  const since = ageMs > 0 ? `for ${text}` : `since the clock was set back, by ${text} or more`;
  return { ok: false, message: `no run ${since}: ${state}` };
}
