// The boot of a real node in a container, with the program before its kubelet: healthy and with all leaves expired in
// turn, so that whatever else happens on this machine happens to both.
import { powerCycle, type Boot } from '../../test/support/node/boot.ts';
import { Cluster } from '../../test/support/node/cluster.ts';
import { leaves, past, reissue, superAdmin } from '../../test/support/node/leaves.ts';
import { openWorkshop } from '../../test/support/node/workshop.ts';
import { algorithms } from './repair.ts';
import type { Measured } from './table.ts';

const all = [...leaves, superAdmin];

/** j */
export async function boots(count: number, say: (text: string) => void): Promise<Measured[]> {
  await using open = await openWorkshop();
  const measured: Measured[] = [];
  for (const algorithm of algorithms) {
    await using cluster = await Cluster.create(open.workshop, { encryptionAlgorithm: algorithm });
    const healthy: Boot[] = [];
    const expired: Boot[] = [];
    // The first boot of a node is not like the others.
    await powerCycle(cluster);
    for (let n = 0; n < count; n += 1) {
      healthy.push(await powerCycle(cluster));
      expired.push(await powerCycle(cluster, { whileOff: (node) => reissue(node, all, past(new Date())) }));
      say(`${algorithm}, healthy: ${healthy[n]?.timeline}; all leaves expired: ${expired[n]?.timeline}`);
    }
    measured.push(...rows(algorithm, healthy, expired));
  }
  return measured;
}

function rows(algorithm: string, healthy: readonly Boot[], expired: readonly Boot[]): Measured[] {
  const times = (of: readonly Boot[]): number[] => of.map(({ runtimeToReady }) => runtimeToReady);
  const slower = times(expired).map((value, n) => value - (times(healthy)[n] ?? Number.NaN));
  const row = (what: string, values: number[]): Measured => ({ what: `${algorithm}: ${what}`, unit: 'ms', values });
  return [
    row('boot, container runtime up to node Ready, healthy', times(healthy)),
    row('boot, container runtime up to node Ready, all leaves expired', times(expired)),
    { ...row('all leaves expired, slower than healthy before it', slower), goal: '<= 1000' },
  ];
}
