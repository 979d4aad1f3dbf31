// The program in its image: its start beside that of the same program on the host, its size, and its memory after a
// recovery. Runs of host and container take turns, so that whatever else happens on this machine happens to both.
import { setTimeout as delay } from 'node:timers/promises';
import { getContainerRuntimeClient } from 'testcontainers';
import { runProgram, startProgram } from '../../test/support/node/program-container.ts';
import { programReference } from '../../test/support/node/program-image.ts';
import { openWorkshop } from '../../test/support/node/workshop.ts';
import { eventually } from '../../test/support/eventually.ts';
import type { RecoveryWorld } from '../../test/support/cluster/recovery-world.ts';
import { memoryRows, sampled } from './memory.ts';
import { publishedRows, versionStart } from './recovery.ts';
import type { Measured } from './table.ts';

/** k */
export async function inContainer(world: RecoveryWorld, count: number, idleMs: number): Promise<Measured[]> {
  await using _ = await openWorkshop();
  const { dockerode } = (await getContainerRuntimeClient()).container;
  const { Size: size } = await dockerode.getImage(programReference).inspect();
  return [
    ...(await starts(count)),
    { what: 'size of the image', unit: 'MB', values: [size / 1e6] },
    ...(await afterRecovery(world, idleMs)),
  ];
}

async function starts(count: number): Promise<Measured[]> {
  const [host, container, nothing]: number[][] = [[], [], []];
  for (let n = -2; n < count; n += 1) {
    const times = [
      ...(await versionStart(1, 0)).flatMap(({ values }) => values),
      await took(() => runProgram(['--version'])),
      await took(() => runProgram(['-e', ''], ['/usr/bin/node'])),
    ];
    if (n >= 0) [host, container, nothing].forEach((values, at) => values?.push(times[at] ?? Number.NaN));
  }
  const row = (what: string, values: number[] = []): Measured => ({ what, unit: 'ms', values });
  return [
    row('--version on the host', host),
    row('--version in a container, which is made, started, waited for', container),
    row('the same with a Node that does nothing', nothing),
  ];
}

async function took(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await work();
  return performance.now() - began;
}

/** As row e, with the program in a container; its goal is the one of the manifests' limit. */
async function afterRecovery(world: RecoveryWorld, idleMs: number): Promise<Measured[]> {
  await world.expireAll();
  await world.controlPlane.kill();
  await world.healHost();
  await using run = await startProgram([`--config=${world.configFile}`], world.root);
  await world.controlPlane.start();
  const logged = (event: string): number => run.lines.filter((line) => line.includes(`"event":"${event}"`)).length;
  await eventually(
    () => {
      if (logged('recovery.finished') < 1 || logged('sync.written') < publishedRows(world).length)
        throw new Error(`no recovery in the container:\n${run.lines.slice(-10).join('\n')}`);
    },
    { withinMs: 120_000 },
  );
  await delay(idleMs);
  const rows = memoryRows('syncer and regen in a container, after a recovery', await sampled(run), { rss: '<= 75' });
  await run.stop();
  return rows;
}
