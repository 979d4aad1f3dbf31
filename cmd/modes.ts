// The composition root: makes what the modes of a configuration share, and runs them until the signal aborts. A mode
// that fails ends the process.
import { hostname } from 'node:os';
import type { Config } from '../lib/config-types.ts';
import { createHealth, serveHealth } from '../lib/health.ts';
import { createMetrics, noMetrics } from '../lib/metrics.ts';
import { regen } from './regen-mode.ts';
import { resolveHere } from './resolve-here.ts';
import type { Runtime, Shared } from './shared.ts';
import type { Shortfall } from './shortfalls.ts';
import { version } from './version.ts';

/** Resolves when all modes have stopped: after one pass with `once`, otherwise when the signal aborts. */
export async function runModes(config: Config, runtime: Runtime): Promise<readonly Shortfall[]> {
  const failed = new AbortController();
  const signal = AbortSignal.any([runtime.signal, failed.signal]);
  const resolved = await resolveHere(config, runtime.log);
  const health = createHealth();
  const { healthProbeBindAddress: address } = config;
  const modes = config.modes.map(({ mode }) => mode);
  const metrics = address === undefined ? noMetrics : await createMetrics({ version, modes });
  const shared: Shared = { ...runtime, signal, config, resolved, health, metrics, hostName: hostname() };
  const server =
    address === undefined
      ? undefined
      : await serveHealth({ address: { host: address.host ?? '::', port: address.port }, health, metrics, signal });
  try {
    const shortfalls = await Promise.all(
      config.modes.map(async (mode) => {
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
      }),
    );
    return shortfalls.flat();
  } finally {
    failed.abort();
    await server?.closed;
  }
}
