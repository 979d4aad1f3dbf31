// Mode syncer as this program runs it: publishes objects as files, observes the files, proves that they are in use.
import type { SyncerConfig } from '../lib/config/config.ts';
import { readBy } from '../lib/inventory/resolve.ts';
import { runFileObserver } from '../lib/fileobserver/run.ts';
import { createEventRecorder } from '../lib/kube/events.ts';
import { createProver } from '../lib/proof/prove.ts';
import { runSyncer } from '../lib/syncer/run.ts';
import { addressOf, connect, keepConnection } from './connections.ts';
import { createPodRestarts } from './restarts.ts';
import { instanceOf, type Shared } from './shared.ts';
import type { UnmetCondition } from './unmet.ts';

export async function syncer(mode: SyncerConfig, shared: Shared): Promise<readonly UnmetCondition[]> {
  const { config, clock, signal, hostName, health, metrics } = shared;
  const resolved = mode.components === undefined ? shared.resolved : readBy(shared.resolved, mode.components);
  const log = shared.log.with({ mode: 'syncer' });
  const connection = await connect(mode.kubeconfig, shared);
  const events = createEventRecorder({ connection, clock, log, instance: instanceOf(shared) });
  const { destinationDir, cachesSyncedFile } = mode;
  try {
    const { once, dryRun } = config;
    const own = { resolved, connection, destinationDir, cachesSyncedFile };
    const told = { log, health, metrics, events };
    const run = runSyncer({ ...own, once, dryRun, clock, ...told, signal });
    if (once || dryRun) {
      const report = await run;
      await events.flush(AbortSignal.timeout(2000));
      return once && !report.ok ? [{ message: 'not every object is on disk' }] : [];
    }
    const prove = createProver({
      connection,
      apiServer: addressOf(config, connection),
      destinationDir,
      clock,
      signal,
      hostName,
    });
    const restarts = createPodRestarts(mode, { connection, resolved, hostName, clock, log, signal });
    const { restart } = restarts;
    await Promise.all([
      run,
      runFileObserver({ resolved, destinationDir, prove, clock, log, signal, health, restart }),
      restarts.run(),
      keepConnection(connection, shared),
      events.run(signal),
    ]);
    return [];
  } finally {
    await connection.close();
  }
}
