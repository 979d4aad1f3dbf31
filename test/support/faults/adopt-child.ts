// A machine that loses its power in the middle of its adoption: `init adopt` on the files of a kubeadm machine, which
// kills itself just before its nth write of one sort. Usage: node adopt-child.ts <root> <kubeconfig> <sort> <n>.
// Without dying it prints how many writes of each sort it made.
import { runAdopt } from '../../../lib/adopt/adopt.ts';
import { systemClock } from '../../../lib/clock.ts';
import { realDisk } from '../../../lib/disk/disk.ts';
import { openConnection } from '../../../lib/kube/connection.ts';
import type { KubeRequest } from '../../../lib/kube/kube.ts';
import { adoptOptions } from '../cluster/adopt-world.ts';
import '../cluster/health-ports.ts';
import { KubeadmMachine } from '../cluster/kubeadm-machine.ts';

export type Sort = 'files' | 'objects' | 'rights';

const [root = '', kubeconfigFile = '', sort = '', nth = ''] = process.argv.slice(2);
const counts: Record<Sort, number> = { files: 0, objects: 0, rights: 0 };

function count(write: Sort): void {
  if (write === sort && counts[write] === Number(nth)) process.kill(process.pid, 'SIGKILL');
  counts[write] += 1;
}

// A file takes its place by a rename, so before it the new one is complete beside it.
const { rename } = realDisk;
realDisk.rename = (from, to) => {
  count('files');
  return rename(from, to);
};

const connection = await openConnection({ kubeconfigFile, clock: systemClock, userAgent: 'test' });
const request = connection.request.bind(connection);
const counted = Object.create(connection, {
  request: {
    value: (asked: KubeRequest) => {
      if (asked.method !== 'GET') count(isCreation(asked.body) ? 'objects' : 'rights');
      return request(asked);
    },
  },
}) as typeof connection;

/** Certificates' own objects are created only where there is none, which their resourceVersion says. */
function isCreation(body: unknown): boolean {
  return (body as { metadata?: { resourceVersion?: string } } | undefined)?.metadata?.resourceVersion === '1';
}

const { signal } = new AbortController();
await runAdopt(await adoptOptions(await KubeadmMachine.at(root), { connection: counted, signal }));
await connection.close();
process.stdout.write(`${JSON.stringify(counts)}\n`);
