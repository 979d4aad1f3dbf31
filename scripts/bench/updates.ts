// From an update in the API, or of a file, to what follows: content on disk, the certificate served, the reaction.
import { X509Certificate } from 'node:crypto';
import { renameSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { systemClock } from '../../lib/clock.ts';
import type { ResolvedTarget } from '../../lib/inventory/model.ts';
import { readAuthority } from '../../lib/issue/ingredients.ts';
import { issueTarget } from '../../lib/issue/leaf.ts';
import { parsePrivateKey, PrivateKey } from '../../lib/pki/key.ts';
import type { Entries } from '../../lib/store/store.ts';
import type { RecoveryWorld, Tool } from '../../test/support/cluster/recovery-world.ts';
import { Admin, fileHolds, isServed, until } from './probes.ts';
import type { Measured } from './table.ts';

const pathOf = (world: RecoveryWorld, name: string): string => {
  const location = world.resolved.artefacts.find((row) => row.name === name)?.location;
  if (location?.kind !== 'secret') throw new Error(`${name} is no Secret`);
  return `/api/v1/namespaces/${location.namespace}/secrets/${location.name}`;
};

/** The program with both modes, once it has nothing left to do. */
export async function quietTool(world: RecoveryWorld): Promise<Tool> {
  const tool = world.startTool();
  await until(tool, (lines) => lines.some(({ event }) => event === 'api.answered'));
  await delay(2000);
  return tool;
}

export interface Updates {
  /** Ends with how the next one follows. */
  readonly what: string;
  readonly goal: string;
  readonly count: number;
  /** So many come first, and count for nothing. */
  readonly warmUp: number;
  /** Each has it in turn. */
  readonly objects: readonly { readonly path: string; readonly kind: 'secret' | 'configMap'; readonly file: string }[];
  readonly admin: Admin;
}

/** Acknowledged to on disk: with the next at once, and with pauses, in which everything has gone to sleep. */
export async function acknowledgedToDisk(updates: Updates): Promise<Measured[]> {
  const { what, goal, count, warmUp, admin } = updates;
  const objects = await Promise.all(
    updates.objects.map(async (one) => ({ ...one, object: await admin.get(one.path) })),
  );
  const measured: Measured[] = [];
  for (const [how, pauseMs] of [
    ['at once', 0],
    ['spaced 100 ms', 100],
  ] as const) {
    const values: number[] = [];
    for (let n = -warmUp; n < count; n += 1) {
      for (const { path, kind, file, object } of objects) {
        const text = `${how} ${n}`;
        object.data['generation'] = kind === 'secret' ? Buffer.from(text).toString('base64') : text;
        const onDisk = fileHolds(file, text);
        const acknowledged = await admin.put(path, object);
        const took = (await onDisk) - acknowledged;
        if (n >= 0) values.push(took);
        await delay(pauseMs);
      }
    }
    measured.push({ what: `${what}, next ${how}`, unit: 'ms', values, goal });
  }
  return measured;
}

/** b: one object. */
export async function updatesToDisk(world: RecoveryWorld, count: number): Promise<Measured[]> {
  const tool = await quietTool(world);
  const admin = new Admin(world.controlPlane);
  const name = 'admin-client';
  const measured = await acknowledgedToDisk({
    what: 'API update acknowledged to content on disk',
    goal: 'p99 <= 20',
    count,
    warmUp: 5,
    objects: [{ path: pathOf(world, name), kind: 'secret', file: world.file(name, 'generation') }],
    admin,
  });
  admin.close();
  await tool.stop();
  return measured;
}

/** New certificates of one target, by its present signer and for its present key. */
async function reissued(world: RecoveryWorld, name: string, count: number): Promise<Entries[]> {
  const target = world.resolved.artefacts.find((row) => row.name === name) as ResolvedTarget;
  const signer = world.resolved.artefacts.find((row) => row.name === target.issuer);
  const store = await world.adminStore();
  const signal = AbortSignal.timeout(60_000);
  const [held, above] = [
    await store.read(target.location, signal),
    signer && (await store.read(signer.location, signal)),
  ];
  if (held === undefined || signer === undefined || above === undefined) throw new Error(`${name} is not there`);
  const issuer = readAuthority(signer.location, above.entries);
  const key = new PrivateKey(parsePrivateKey(held.entries['tls.key'] ?? Buffer.of(), name));
  const made: Entries[] = [];
  for (let n = 0; n < count; n += 1) {
    made.push((await issueTarget({ artefact: target, issuer, key, now: systemClock.now() })).entries);
  }
  return made;
}

const text64 = (entries: Entries): Record<string, string> =>
  Object.fromEntries(Object.entries(entries).map(([key, bytes]) => [key, Buffer.from(bytes).toString('base64')]));

/** f: the end of the first handshake that shows the new certificate, its own time included. */
export async function updatesToServed(world: RecoveryWorld, count: number): Promise<Measured[]> {
  const name = 'localhost-serving';
  const generations = await reissued(world, name, count + 5);
  const tool = await quietTool(world);
  const admin = new Admin(world.controlPlane);
  const path = pathOf(world, name);
  const object = await admin.get(path);
  const values: number[] = [];
  for (const [n, entries] of generations.entries()) {
    const { fingerprint256 } = new X509Certificate(Buffer.from(entries['tls.crt'] ?? ''));
    object.data = text64(entries);
    const acknowledged = await admin.put(path, object);
    const { port } = world.controlPlane;
    const served = await isServed({ port, servername: 'localhost', fingerprint: fingerprint256 });
    if (n >= 5) values.push(served - acknowledged);
    await delay(100);
  }
  admin.close();
  await tool.stop();
  const what = 'API update acknowledged to new certificate served by kube-apiserver';
  return [{ what, unit: 'ms', values, goal: 'p99 <= 60' }];
}

/** g: rename of a file of etcd, which no other part of the program writes, to the line that begins the reaction. */
export async function fileToReaction(world: RecoveryWorld, count: number): Promise<Measured[]> {
  const file = world.file('etcd-server', 'tls.crt');
  const before = await readFile(file);
  const generations = await reissuedFile(world, count + 5);
  const tool = await quietTool(world);
  const values: number[] = [];
  for (const [n, bytes] of generations.entries()) {
    await writeFile(`${file}.next`, bytes);
    const seen = tool.lines.length;
    const isReaction = (line: Tool['lines'][number]): boolean =>
      line.event === 'file.changed' && line.fields['path'] === file;
    const began = performance.now();
    renameSync(`${file}.next`, file); // at once: a rename that is awaited may be seen before we know of its end
    await until(tool, (lines) => lines.slice(seen).some(isReaction), 15_000);
    const line = tool.lines.slice(seen).find(isReaction);
    if (n >= 5 && line !== undefined) values.push(line.at - began);
    await delay(100);
  }
  await writeFile(`${file}.next`, before);
  renameSync(`${file}.next`, file);
  await tool.stop();
  return [{ what: 'file change to reaction of fileobserver', unit: 'ms', values, goal: '<= 10' }];
}

async function reissuedFile(world: RecoveryWorld, count: number): Promise<Uint8Array[]> {
  return (await reissued(world, 'etcd-server', count)).map((entries) => entries['tls.crt'] ?? Buffer.of());
}
