// Memory of the running program: when nothing has happened for a minute, beside many objects that are not its own, and
// after a recovery. RSS holds some 35 MB of pages of the Node binary, which all processes of one image share.
import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { RecoveryWorld, Tool } from '../../test/support/cluster/recovery-world.ts';
import { Admin, memoryOf, type Memory } from './probes.ts';
import type { Measured } from './table.ts';

const samples = 10;

/** One look each second. */
export async function sampled({ pid }: Pick<Tool, 'pid'>): Promise<Memory[]> {
  const seen: Memory[] = [];
  for (let n = 0; n < samples; n += 1) {
    seen.push(memoryOf(pid));
    await delay(1000);
  }
  return seen;
}

export function memoryRows(
  what: string,
  seen: readonly Memory[],
  goals: { rss?: string; anonymous?: string },
): Measured[] {
  const row = (name: string, values: number[], goal?: string): Measured => ({
    what: `${name}, ${what}`,
    unit: 'MB',
    values,
    ...(goal !== undefined && { goal }),
  });
  return [
    row(
      'RSS',
      seen.map(({ rss }) => rss),
      goals.rss,
    ),
    row(
      'anonymous',
      seen.map(({ anonymous }) => anonymous),
      goals.anonymous,
    ),
  ];
}

export const bothGoals = { rss: '<= 75', anonymous: '<= 22' };

/** c, d: both modes in one process, and the syncer alone beside it. */
export async function steadyMemory(world: RecoveryWorld, idleMs: number, where: string): Promise<Measured[]> {
  const destination = await mkdtemp(join(world.root, 'destination-'));
  const both = world.startTool();
  const alone = world.startTool(['--mode=syncer', `--destination-dir=${destination}`]);
  await delay(idleMs);
  const [bothSeen, aloneSeen] = await Promise.all([sampled(both), sampled(alone)]);
  await both.stop();
  await alone.stop();
  return [
    ...memoryRows(`syncer and regen, ${where}`, bothSeen, bothGoals),
    ...memoryRows(`syncer alone, ${where}`, aloneSeen, {}),
  ];
}

/** 10 kB each, in the namespace of the inventory. */
export async function addUnrelatedSecrets(world: RecoveryWorld, count: number): Promise<void> {
  const atOnce = 16;
  const admin = new Admin(world.controlPlane, atOnce);
  const [first] = world.resolved.artefacts.flatMap(({ location }) =>
    'namespace' in location ? [location.namespace] : [],
  );
  const data = { payload: Buffer.alloc(10_000, 'x').toString('base64') };
  let next = 0;
  const work = async (): Promise<void> => {
    for (let n = (next += 1); n <= count; n = next += 1) {
      const body = { apiVersion: 'v1', kind: 'Secret', metadata: { name: `unrelated-${n}` }, data };
      await admin.send('POST', `/api/v1/namespaces/${first}/secrets`, body);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  admin.close();
}
