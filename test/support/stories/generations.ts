// Counts the generations of every object of an inventory from now on, the present one included: different contents seen
// by one watch of the whole namespace, which goes on over a restart of the API server.
import { createHash } from 'node:crypto';
import { systemClock } from '../../../lib/clock.ts';
import { openConnection } from '../../../lib/kube/connection.ts';
import { listWatch } from '../../../lib/kube/list-watch.ts';
import { namedListPath } from '../../../lib/kube/objects.ts';
import type { ConfigMap, Secret } from '../../../lib/kube/kube.ts';
import { createLog } from '../../../lib/log.ts';
import { eventually } from '../eventually.ts';
import type { RecoveryWorld } from '../cluster/recovery-world.ts';

export interface Generations {
  /** Ends the watches; how many contents each artefact has had, by name. */
  close(): Promise<Record<string, number>>;
}

export async function watchGenerations({ resolved, controlPlane }: RecoveryWorld): Promise<Generations> {
  const kubeconfigFile = controlPlane.recoveryKubeconfig;
  const connection = await openConnection({ kubeconfigFile, clock: systemClock, userAgent: 'generations' });
  const stop = new AbortController();
  const seen = new Map<string, Set<string>>();
  const watches: Promise<void>[] = [];
  for (const { name, location, kind } of resolved.artefacts) {
    if (!('namespace' in location) || kind === 'keyPair') continue;
    const contents = new Set<string>();
    seen.set(name, contents);
    const add = ({ data = {} }: Secret | ConfigMap): void => void contents.add(digest(data));
    watches.push(
      listWatch<Secret | ConfigMap>({
        connection,
        path: namedListPath(location),
        onList: (objects) => objects.forEach(add),
        onEvent: (type, object) => type !== 'DELETED' && add(object),
        clock: systemClock,
        log: createLog({ write: () => undefined }),
        signal: stop.signal,
      }),
    );
  }
  await eventually(() => {
    const unseen = [...seen].filter(([, contents]) => contents.size === 0).map(([name]) => name);
    if (unseen.length > 0) throw new Error(`not seen yet: ${unseen.join(', ')}`);
  });
  return {
    async close() {
      stop.abort();
      await Promise.all(watches);
      await connection.close();
      return Object.fromEntries([...seen].map(([name, contents]) => [name, contents.size]));
    },
  };
}

function digest(data: Readonly<Record<string, string>>): string {
  return createHash('sha256')
    .update(JSON.stringify(Object.entries(data).toSorted(([a], [b]) => (a < b ? -1 : 1))))
    .digest('hex');
}
