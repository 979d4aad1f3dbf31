// The objects of a cluster of machines, as the program itself reads and writes them, by the tests' admin.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { systemClock } from '../../../lib/clock.ts';
import { openConnection } from '../../../lib/kube/connection.ts';
import type { KubeConnection } from '../../../lib/kube/kube.ts';
import { createApiStore } from '../../../lib/store/api-store.ts';
import type { Store } from '../../../lib/store/store.ts';
import type { Cluster } from './cluster.ts';
import { withScratch } from './node.ts';

export interface ClusterStore {
  readonly store: Store;
  readonly connection: KubeConnection;
}

export async function withStore(cluster: Cluster, work: (open: ClusterStore) => Promise<void>): Promise<void> {
  await withScratch(async (scratch) => {
    const kubeconfigFile = join(scratch, 'kubeconfig');
    await writeFile(kubeconfigFile, cluster.kubeconfig());
    const connection = await openConnection({ kubeconfigFile, userAgent: 'test', clock: systemClock });
    try {
      await work({ connection, store: createApiStore({ connection, fieldManager: 'test' }) });
    } finally {
      await connection.close();
    }
  });
}
