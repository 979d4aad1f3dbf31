// The composition root: makes what the modes of a configuration share, and runs them until the signal aborts. A mode
// that fails ends the process.
import { hostname } from 'node:os';
import type { Config, ModeConfig } from '../lib/config/config.ts';
import { createHealth, keepServingHealth } from '../lib/health.ts';
import { Breakers } from '../lib/kube/circuit-breaker.ts';
import { createMetrics, noMetrics } from '../lib/metrics.ts';
import { regen } from './regen-mode.ts';
import { resolveHere } from './resolve-here.ts';
import type { Runtime, Shared } from './shared.ts';
import type { UnmetCondition } from './unmet.ts';
import { version } from './version.ts';

/** Resolves when all modes have stopped: after one pass with `once`, otherwise when the signal aborts. */
export async function runModes(config: Config, runtime: Runtime): Promise<readonly UnmetCondition[]> {
  const failed = new AbortController();
  const signal = AbortSignal.any([runtime.signal, failed.signal]);
  const resolved = await resolveHere(config, runtime.log);
  const health = createHealth();
  const { healthProbeBindAddress: address } = config;
  const modes = config.modes.map(({ mode }) => mode);
  const metrics = address === undefined ? noMetrics : await createMetrics({ version, modes });
  const breakers = new Breakers(runtime.clock);
  const shared: Shared = { ...runtime, signal, config, resolved, health, metrics, breakers, hostName: hostname() };
  const server =
    address === undefined
      ? undefined
      : await keepServingHealth({
          ...runtime,
          address,
          health,
          metrics,
          signal,
        });
  const run = async (mode: ModeConfig): Promise<readonly UnmetCondition[]> => {
    try {
      if (mode.mode === 'regen') return await regen(mode, shared);
      if (mode.mode === 'approver') {
        const { approver } = await import('./approver-mode.ts');
        return await approver(mode, shared);
      }
      const { syncer } = await import('./syncer-mode.ts');
      return await syncer(mode, shared);
    } catch (err) {
      failed.abort(); // the other mode stops in good order before the process ends
      throw err;
    }
  };
  try {
    // The others' one pass begins with what regen leaves: it makes the objects that the syncer looks for.
    const [first, others] = config.once ? partition(config.modes) : [[], config.modes];
    const before = await Promise.all(first.map(run));
    return [...before, ...(await Promise.all(others.map(run)))].flat();
  } finally {
    failed.abort();
    await server?.closed;
  }
}

function partition(modes: readonly ModeConfig[]): readonly [readonly ModeConfig[], readonly ModeConfig[]] {
  return [modes.filter(({ mode }) => mode === 'regen'), modes.filter(({ mode }) => mode !== 'regen')];
}
