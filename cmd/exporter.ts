// `exporter`: serves the file of metrics of this machine, with the settings of the modes.
import { systemClock as clock } from '../lib/clock.ts';
import { parseRunConfig } from '../lib/config/load.ts';
import { preferSmallHeap } from '../lib/engine.ts';
import { type Problem, problemsError } from '../lib/problems.ts';
import { version } from '../lib/program.ts';
import { exportMetricsFile } from '../lib/run/metrics-exporter.ts';
import { processLog } from '../lib/run/process-log.ts';
import { exitCodes, exitOfFailure } from './exit-codes.ts';
import type { Io } from './io.ts';
import { type CommandLine, configInput, orKubeadm } from './read-config.ts';

export async function exporterCommand(line: CommandLine, io: Io): Promise<number> {
  const { config } = parseRunConfig(configInput({ ...orKubeadm(line), mode: 'regen', locations: 'disk' }, io));
  const { healthProbeBindAddress: address, metrics: secured, modes } = config;
  const [file] = modes.flatMap((mode) => (mode.mode === 'regen' ? (mode.metricsFile ?? []) : []));
  const required = (path: string): Problem => ({ path, kind: 'required', message: 'is required' });
  if (file === undefined || address === undefined) {
    const missing = [...(file ? [] : ['--metrics-file']), ...(address ? [] : ['--health-probe-bind-address'])];
    throw problemsError('ConfigInvalid', 'Cannot use the configuration', missing.map(required));
  }
  const log = processLog(io, config.log);
  log.info('process.started', { version });
  try {
    preferSmallHeap();
    await exportMetricsFile({ file, address, secured, clock, log, signal: io.signal });
    log.info('process.stopped');
    return exitCodes.done;
  } catch (err) {
    return exitOfFailure(err, log);
  }
}
