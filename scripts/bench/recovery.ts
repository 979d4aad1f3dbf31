// Whole recoveries: a control plane of the kubernetes preset is killed, everything but localhost-recovery has expired,
// and it is switched on. Times inside the program are those of its own log lines; serving is seen from outside.
import { execFile } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { mkdtemp, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { setTimeout as delay } from 'node:timers/promises';
import type { ResolvedArtefact } from '../../lib/inventory/model.ts';
import {
  executable,
  isRecovery,
  type Line,
  type RecoveryWorld,
  type Tool,
} from '../../test/support/cluster/recovery-world.ts';
import { bothGoals, memoryRows, sampled } from './memory.ts';
import { isServed, timeOf, until, writes } from './probes.ts';
import type { Measured } from './table.ts';

const run = promisify(execFile);

const epoch = (monotonic: number): number => performance.timeOrigin + monotonic;
const isApiWrite = ({ event, fields }: Line): boolean => writes.has(event) && fields['namespace'] !== undefined;

const onDisk = (lines: readonly Line[]): Line[] => lines.filter(({ event }) => event === 'sync.written');

interface Recovery {
  readonly toLastWrite: number;
  readonly toDisk: number;
  readonly toServed: number;
  readonly host: number;
  readonly tool: Tool;
}

/** What a recovery puts on disk. */
export function publishedRows(world: RecoveryWorld): ResolvedArtefact[] {
  return world.resolved.artefacts.filter(
    (one) => one.published !== undefined && one.kind !== 'keyPair' && !isRecovery(one) && 'namespace' in one.location,
  );
}

async function recoverOnce(world: RecoveryWorld): Promise<Recovery> {
  await world.expireAll();
  await world.controlPlane.kill();
  const hostBegan = performance.now();
  let lastFile = hostBegan;
  await world.healHost((line) => {
    if (writes.has(line.event)) lastFile = line.at;
  });
  const served: Promise<number>[] = [];
  const serving: Readonly<Record<string, string>> = {
    'kube-apiserver-serving': 'kubernetes',
    'localhost-serving': 'localhost',
  };
  const published = publishedRows(world);
  const tool = world.startTool([], ({ event, fields }) => {
    const name = String(fields['secret'] ?? '').split('/')[1] ?? '';
    const servername = serving[name];
    if (event === 'sync.written' && servername !== undefined) served.push(watchServing(world, name, servername));
  });
  await world.controlPlane.start({ wait: false });
  await until(
    tool,
    (lines) => lines.some(({ event }) => event === 'recovery.finished') && onDisk(lines).length >= published.length,
  );
  const servedAt = Math.max(...(await Promise.all(served)));
  const answered = tool.lines.find(({ event }) => event === 'api.answered');
  if (answered === undefined) throw new Error('the API has never answered');
  const lastWrite = Math.max(...tool.lines.filter(isApiWrite).map(timeOf));
  const lastOnDisk = Math.max(...onDisk(tool.lines).map(timeOf));
  await world.controlPlane.ready();
  return {
    toLastWrite: lastWrite - timeOf(answered),
    toDisk: lastOnDisk - lastWrite,
    toServed: Math.max(epoch(servedAt), lastOnDisk) - lastWrite,
    host: lastFile - hostBegan,
    tool,
  };
}

async function watchServing(world: RecoveryWorld, name: string, servername: string): Promise<number> {
  const { fingerprint256 } = new X509Certificate(await world.read(name));
  return isServed({ port: world.controlPlane.port, servername, fingerprint: fingerprint256 });
}

const row = (what: string, values: number[], goal?: string): Measured => ({
  what,
  unit: 'ms',
  values,
  ...(goal !== undefined && { goal }),
});

/** e: and the memory of the process that did it last. */
export async function recoveries(world: RecoveryWorld, count: number, idleMs: number): Promise<Measured[]> {
  const runs: Recovery[] = [];
  const memory: Measured[] = [];
  for (let n = 0; n < count; n += 1) {
    const recovery = await recoverOnce(world);
    runs.push(recovery);
    if (n === count - 1) {
      await delay(idleMs);
      memory.push(...memoryRows('syncer and regen, after a recovery', await sampled(recovery.tool), bothGoals));
    }
    await recovery.tool.stop();
  }
  return [
    row(
      'first 200 to last of all API writes',
      runs.map(({ toLastWrite }) => toLastWrite),
      '<= 1000',
    ),
    row(
      'last write to everything on disk',
      runs.map(({ toDisk }) => toDisk),
    ),
    row(
      'last write to everything on disk and served',
      runs.map(({ toServed }) => toServed),
      '<= 300',
    ),
    row(
      'start of the host run to last of etcd rows on disk',
      runs.map(({ host }) => host),
    ),
    ...memory,
  ];
}

/** a: an empty destination, everything in the API. */
export async function startToDisk(world: RecoveryWorld, count: number): Promise<Measured[]> {
  const values: number[] = [];
  for (let n = -1; n < count; n += 1) {
    const destination = await mkdtemp(join(world.root, 'destination-'));
    const began = performance.now();
    let last = began;
    const tool = world.startTool(['--mode=syncer', `--destination-dir=${destination}`], (line) => {
      if (line.event === 'sync.written') last = line.at;
    });
    await until(tool, (lines) => onDisk(lines).length === 14);
    const made = await Promise.all(['secrets', 'configmaps'].map((kind) => readdir(join(destination, kind))));
    if (made.flat().length !== 14) throw new Error('not all objects are on disk');
    if (n >= 0) values.push(last - began);
    await tool.stop();
  }
  return [{ what: 'syncer: start to all 14 objects on disk', unit: 'ms', values, goal: '<= 300' }];
}

/** h */
export async function versionStart(count: number, before = 2): Promise<Measured[]> {
  const values: number[] = [];
  for (let n = -before; n < count; n += 1) {
    const began = performance.now();
    await run(executable, ['--version']);
    if (n >= 0) values.push(performance.now() - began);
  }
  return [{ what: 'kube-cert-recovery --version', unit: 'ms', values }];
}
