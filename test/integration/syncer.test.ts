// The syncer against a real API server: what is in the API is on disk, and what is wrong in the API is not.
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import { createLog } from '../../lib/log.ts';
import { ObjectSync } from '../../lib/syncer/object-sync.ts';
import { Room } from '../../lib/syncer/room.ts';
import { type SyncedObject, syncedObjects } from '../../lib/syncer/synced-objects.ts';
import { createAuthority, createLeaf, type Pair } from '../support/certificates/certificates.ts';
import { startControlPlane, type ControlPlane } from '../support/cluster/control-plane.ts';
import type { ResolvedArtefact } from '../../lib/inventory/model.ts';
import { eventually } from '../support/eventually.ts';
import {
  createNamespace,
  deleteObject,
  opaque,
  pairContent,
  putObject,
  startSyncing,
  type Content,
  type ObjectName,
} from '../support/cluster/syncing.ts';

let controlPlane: ControlPlane;
let authority: Pair;
let first: Pair;
let second: Pair;
let expired: Pair;
const newDestination = (): string => mkdtempSync(join(tmpdir(), 'syncer-'));
let namespaces = 0;
const newNamespace = (): Promise<string> => createNamespace(controlPlane, `syncer-${(namespaces += 1)}`);

beforeAll(async () => {
  controlPlane = await startControlPlane();
  const directory = newDestination();
  const leaf = { commonName: 'leaf', usages: ['serverAuth'] } as const;
  const ended = { notBefore: new Date('2020-01-01T00:00:00Z'), notAfter: new Date('2020-02-01T00:00:00Z') };
  authority = await createAuthority(join(directory, 'ca'), { commonName: 'ca' });
  [first, second, expired] = await Promise.all([
    createLeaf(join(directory, 'first'), authority, leaf),
    createLeaf(join(directory, 'second'), authority, leaf),
    createLeaf(join(directory, 'expired'), authority, { ...leaf, ...ended }),
  ]);
});
afterAll(() => controlPlane[Symbol.asyncDispose]());

const bundle = (): Buffer => readFileSync(authority.cert);
const onDisk = (destination: string, { kind, name }: ObjectName, key: string): string =>
  readFileSync(join(destination, kind === 'secret' ? 'secrets' : 'configmaps', name, key), 'utf8');

function shows(destination: string, object: ObjectName, content: Content): Promise<void> {
  return eventually(() => {
    for (const [key, value] of Object.entries(content)) expect(onDisk(destination, object, key)).toBe(value.toString());
  });
}

test('14 objects are on disk after the start, with their modes', async () => {
  const namespace = await newNamespace();
  const pairs = Array.from(
    { length: 11 },
    (_, index) => ({ kind: 'secret', namespace, name: `pair-${index}` }) as const,
  );
  const bundles = ['client-ca', 'aggregator-ca', 'trusted'].map(
    (name) => ({ kind: 'configMap', namespace, name }) as const,
  );
  await Promise.all(pairs.map((object) => putObject(controlPlane, object, pairContent(first))));
  await Promise.all(
    bundles.map((object) => putObject(controlPlane, object, { 'ca-bundle.crt': readFileSync(authority.cert) })),
  );
  const destinationDir = newDestination();
  await using syncing = await startSyncing({
    controlPlane,
    destinationDir,
    artefacts: [...pairs, ...bundles].map((object) => opaque(object)),
  });
  await eventually(() => expect(syncing.health()).toEqual({ ok: true, message: '14 objects on disk' }));
  for (const object of pairs) await shows(destinationDir, object, pairContent(first));
  expect(statSync(join(destinationDir, 'secrets/pair-0/tls.key')).mode & 0o7777).toBe(0o600);
  expect(statSync(join(destinationDir, 'configmaps/client-ca/ca-bundle.crt')).mode & 0o7777).toBe(0o644);
  expect(JSON.stringify(syncing.log)).not.toContain('PRIVATE');
});

test('an update is on disk by the watch, no poll brings it, and the newest one stays', async () => {
  const object = { kind: 'secret', namespace: await newNamespace(), name: 'serving' } as const;
  await putObject(controlPlane, object, pairContent(first));
  const destinationDir = newDestination();
  await using _ = await startSyncing({
    controlPlane,
    destinationDir,
    artefacts: [opaque(object)],
    recheckMs: 86_400_000,
  });
  await shows(destinationDir, object, pairContent(first));
  for (let round = 0; round < 50; round += 1) {
    const content = pairContent(round % 2 === 0 ? second : first);
    await putObject(controlPlane, object, content);
    await shows(destinationDir, object, content);
  }
  await Promise.all(Array.from({ length: 20 }, () => putObject(controlPlane, object, pairContent(first))));
  await putObject(controlPlane, object, pairContent(second));
  await shows(destinationDir, object, pairContent(second));
}, 300_000);

test('what is deleted on disk is back without an event, a poll or a hint of anybody', async () => {
  const namespace = await newNamespace();
  const object = { kind: 'secret', namespace, name: 'serving' } as const;
  const content = pairContent(first);
  await putObject(controlPlane, object, content);
  const destinationDir = newDestination();
  const directory = join(destinationDir, 'secrets', object.name);
  await using syncing = await startSyncing({
    controlPlane,
    destinationDir,
    artefacts: [opaque(object)],
    recheckMs: 86_400_000,
  });
  for (const gone of [
    () => destinationDir,
    () => directory,
    () => join(directory, '..data'),
    () => join(directory, 'tls.key'),
    () => join(directory, readlinkSync(join(directory, '..data'))),
    () => join(directory, readlinkSync(join(directory, '..data')), 'tls.crt'),
  ]) {
    await shows(destinationDir, object, content);
    rmSync(gone(), { recursive: true, maxRetries: 20 });
  }
  await shows(destinationDir, object, content);
  await eventually(() => expect(syncing.health().ok).toBe(true));
});

test('a syncer whose lock was deleted writes nothing while another one has the destination', async () => {
  const object = { kind: 'secret', namespace: await newNamespace(), name: 'serving' } as const;
  await putObject(controlPlane, object, pairContent(first));
  const options = {
    controlPlane,
    destinationDir: newDestination(),
    artefacts: [opaque(object)],
    recheckMs: 86_400_000,
  };
  await using former = await startSyncing(options);
  await shows(options.destinationDir, object, pairContent(first));
  rmSync(join(options.destinationDir, '.lock'), { recursive: true });
  await using present = await startSyncing(options);
  await eventually(() => expect(present.health().ok).toBe(true));
  await putObject(controlPlane, object, pairContent(second));
  await shows(options.destinationDir, object, pairContent(second));
  const written = ({ log }: typeof former): number => log.filter(({ event }) => event === 'sync.written').length;
  await eventually(() => expect(former.health().ok).toBe(true)); // it sees what the other has written
  expect([written(former), written(present)]).toEqual([1, 1]);
});

describe('what is wrong in the API never replaces the last good files', () => {
  const good = { secret: (): Content => pairContent(first), configMap: (): Content => ({ 'ca-bundle.crt': bundle() }) };
  test.each<[string, ObjectName['kind'], () => Content, string]>([
    ['broken PEM', 'secret', () => ({ ...pairContent(first), 'tls.crt': 'broken' }), 'unreadable'],
    ['an empty key', 'secret', () => ({ ...pairContent(first), 'tls.key': '' }), 'unreadable'],
    [
      'a mismatched pair',
      'secret',
      () => ({ ...pairContent(first), 'tls.key': readFileSync(second.key) }),
      'mismatchedPair',
    ],
    ['half of a pair', 'secret', () => ({ 'tls.crt': readFileSync(second.cert) }), 'missingKey'],
    ['no entries', 'secret', () => ({}), 'empty'],
    ['an expired pair', 'secret', () => pairContent(expired), 'expired'],
    ['an empty bundle', 'configMap', () => ({ 'ca-bundle.crt': '' }), 'unreadable'],
    [
      'a broken bundle',
      'configMap',
      () => ({ 'ca-bundle.crt': `${bundle().toString()}-----BEGIN CERTIFICATE-----\nAAAA\n` }),
      'unreadable',
    ],
  ])('%s', async (_, kind, bad, reason) => {
    const object = { kind, namespace: await newNamespace(), name: 'x' };
    await putObject(controlPlane, object, good[kind]());
    const destinationDir = newDestination();
    const artefact: ResolvedArtefact = { ...opaque(object), kind: 'external' };
    await using syncing = await startSyncing({ controlPlane, destinationDir, artefacts: [artefact] });
    await shows(destinationDir, object, good[kind]());
    await putObject(controlPlane, object, bad());
    const line = await eventually(() => {
      const found = syncing.log.find(({ event }) => event === 'sync.refused');
      expect(found).toMatchObject({ reason, [kind]: `${object.namespace}/x` });
      return found;
    });
    expect(line?.['message']).toContain(
      `Cannot publish ${kind === 'secret' ? 'Secret' : 'ConfigMap'} "${object.namespace}/x": `,
    );
    await shows(destinationDir, object, good[kind]());
    await eventually(() => expect(syncing.health().ok).toBe(false));
    const healed: Content = kind === 'secret' ? pairContent(second) : { 'ca-bundle.crt': `${bundle().toString()}\n` };
    await putObject(controlPlane, object, healed);
    await shows(destinationDir, object, healed);
    await eventually(() => expect(syncing.health().ok).toBe(true));
  });
});

test('an opaque object is written as it is, with a warning, unless its halves contradict each other', async () => {
  const object = { kind: 'configMap', namespace: await newNamespace(), name: 'trusted' } as const;
  const pair = { ...object, kind: 'secret', name: 'user' } as const;
  await putObject(controlPlane, object, { 'ca-bundle.crt': bundle() });
  await putObject(controlPlane, pair, pairContent(first));
  const destinationDir = newDestination();
  const artefacts = [opaque(object), opaque(pair)];
  await using syncing = await startSyncing({ controlPlane, destinationDir, artefacts });
  await shows(destinationDir, pair, pairContent(first));
  const odd = {
    'ca-bundle.crt': `${bundle().toString()}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n`,
  };
  await putObject(controlPlane, object, odd);
  await shows(destinationDir, object, odd);
  await eventually(() => {
    const warned = syncing.log.find(({ event, level }) => event === 'sync.written' && level === 'warn');
    expect(warned?.['message']).toMatch(/^written as it is: cannot read certificates: /);
  });
  await putObject(controlPlane, pair, { ...pairContent(first), 'tls.key': readFileSync(second.key) });
  await eventually(() => expect(syncing.health().message).toContain('mismatchedPair'));
  await shows(destinationDir, pair, pairContent(first));
});

test('an optional object vanishes from disk when it is gone, and comes back; a required one stays and is reported', async () => {
  const namespace = await newNamespace();
  const optional = { kind: 'secret', namespace, name: 'user' } as const;
  const required = { kind: 'secret', namespace, name: 'serving' } as const;
  for (const object of [optional, required]) await putObject(controlPlane, object, pairContent(first));
  const destinationDir = newDestination();
  const artefacts = [opaque(optional, 'optional'), opaque(required)];
  await using syncing = await startSyncing({ controlPlane, destinationDir, artefacts });
  for (const object of [optional, required]) await shows(destinationDir, object, pairContent(first));
  for (const object of [optional, required]) await deleteObject(controlPlane, object);
  await eventually(() => expect(readdirSync(join(destinationDir, 'secrets'))).toEqual(['serving']));
  await eventually(() =>
    expect(syncing.health()).toEqual({ ok: false, message: `Secret "${namespace}/serving": missing` }),
  );
  await shows(destinationDir, required, pairContent(first));
  for (const object of [optional, required]) await putObject(controlPlane, object, pairContent(second));
  for (const object of [optional, required]) await shows(destinationDir, object, pairContent(second));
});

test('a change that no watch has told of is found by the recheck', async () => {
  const object = { kind: 'secret', namespace: await newNamespace(), name: 'silent' } as const;
  const destinationDir = newDestination();
  const [synced] = syncedObjects({ name: 'test', artefacts: [opaque(object)] }, destinationDir);
  const connection = await openConnection({
    kubeconfigFile: controlPlane.recoveryKubeconfig,
    clock: systemClock,
    userAgent: 'test',
  });
  const stop = new AbortController();
  const sync = new ObjectSync({
    object: synced as SyncedObject,
    connection,
    clock: systemClock,
    log: createLog({ write: () => undefined }),
    dryRun: false,
    hold: () => Promise.resolve(),
    room: new Room(1),
    signal: stop.signal,
    recheckMs: 100,
  });
  await putObject(controlPlane, object, { token: 'one' });
  const running = sync.run();
  sync.offer(undefined); // the last that a watch has said
  await shows(destinationDir, object, { token: 'one' });
  await putObject(controlPlane, object, { token: 'two' });
  await shows(destinationDir, object, { token: 'two' });
  stop.abort();
  await running;
  await connection.close();
});

test('what changes on disk is repaired by the recheck', async () => {
  const object = { kind: 'secret', namespace: await newNamespace(), name: 'serving' } as const;
  await putObject(controlPlane, object, pairContent(first));
  const destinationDir = newDestination();
  await using _ = await startSyncing({ controlPlane, destinationDir, artefacts: [opaque(object)], recheckMs: 100 });
  await shows(destinationDir, object, pairContent(first));
  const key = join(destinationDir, 'secrets/serving/tls.key');
  chmodSync(key, 0o644);
  await eventually(() => expect(statSync(key).mode & 0o7777).toBe(0o600));
  writeFileSync(key, 'no key');
  await shows(destinationDir, object, pairContent(first));
});

test.each<[string, (destination: string) => void]>([
  ['a key that nobody may read', (at) => chmodSync(join(at, 'secrets/serving/tls.key'), 0)],
  ['a key of somebody else', (at) => chownSync(join(at, 'secrets/serving/tls.key'), 1000, 1000)],
  ['a key of a gigabyte', (at) => truncateSync(join(at, 'secrets/serving/tls.key'), 1024 ** 3)],
  [
    'directories that nobody may enter',
    (at) => execFileSync('find', [at, '-depth', '!', '-type', 'l', '-exec', 'chmod', '600', '{}', ';']),
  ],
  ['directories that everybody may change', (at) => execFileSync('chmod', ['777', at, join(at, 'secrets')])],
])('%s: repaired, and renewed', async (_title, damage) => {
  const object = { kind: 'secret', namespace: await newNamespace(), name: 'serving' } as const;
  await putObject(controlPlane, object, pairContent(first));
  const destinationDir = newDestination();
  chmodSync(destinationDir, 0o755);
  await using _ = await startSyncing({
    controlPlane,
    destinationDir,
    artefacts: [opaque(object)],
    recheckMs: 100,
  });
  await shows(destinationDir, object, pairContent(first));
  damage(destinationDir);
  await eventually(() => {
    const modes = ['', 'secrets', 'secrets/serving', 'secrets/serving/..data/', 'secrets/serving/tls.key'].map((path) =>
      (statSync(join(destinationDir, path)).mode & 0o7777).toString(8),
    );
    expect(modes).toEqual(['755', '755', '755', '755', '600']);
    const { uid, size } = statSync(join(destinationDir, 'secrets/serving/tls.key'));
    expect(uid).toBe(process.geteuid?.());
    expect(size).toBeLessThan(10_000);
  });
  await shows(destinationDir, object, pairContent(first));
  await putObject(controlPlane, object, pairContent(second));
  await shows(destinationDir, object, pairContent(second));
});

test('--once writes everything and reports what is missing; a dry run writes nothing', async () => {
  const namespace = await newNamespace();
  const serving = { kind: 'secret', namespace, name: 'serving' } as const;
  const missing = { kind: 'configMap', namespace, name: 'client-ca' } as const;
  await putObject(controlPlane, serving, pairContent(first));
  const artefacts = [opaque(serving), opaque(missing), opaque({ ...missing, name: 'trusted' }, 'optional')];
  const destinationDir = join(newDestination(), 'new');
  const dry = await (await startSyncing({ controlPlane, artefacts, destinationDir, once: true, dryRun: true })).report;
  expect(dry.objects).toMatchObject([
    { state: 'synced', change: 'written' },
    { state: 'kept', reason: 'missing' },
    { state: 'absent' },
  ]);
  expect(existsSync(destinationDir)).toBe(false);
  const report = await (await startSyncing({ controlPlane, artefacts, destinationDir, once: true })).report;
  expect(report).toMatchObject({ ok: false, objects: dry.objects.map(({ name, state }) => ({ name, state })) });
  await shows(destinationDir, serving, pairContent(first));
  const repeated = await startSyncing({ controlPlane, artefacts: [opaque(serving)], destinationDir, once: true });
  const again = await repeated.report;
  // Who has started it sees that it has done something, and what.
  expect(repeated.log.filter(({ level }) => level !== 'debug')).toEqual([
    expect.objectContaining({
      event: 'sync.summary',
      message: '1 of 1 objects are on disk as the API has them; the first that ends is secret-serving',
    }),
  ]);
  expect(again.ok).toBe(true);
  expect(again.objects[0]?.change).toBeUndefined();
});

test('a destination that is a file is refused', async () => {
  const destinationDir = join(newDestination(), 'file');
  writeFileSync(destinationDir, '');
  const syncing = await startSyncing({ controlPlane, artefacts: [], destinationDir, once: true });
  await expect(syncing.report).rejects.toMatchObject({
    code: 'ConfigInvalid',
    message: expect.stringContaining('is not a directory'),
  });
});

// Mounting takes root; where that cannot be had the two rows are skipped, except where CI=true.
const isRoot = process.getuid?.() === 0;
describe.skipIf(!isRoot && process.env['CI'] !== 'true')('a disk that refuses', () => {
  const mounted: string[] = [];
  function mountTmpfs(options: string, path = newDestination()): string {
    execFileSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', path]);
    mounted.push(path);
    return path;
  }
  afterAll(() => mounted.forEach((path) => execFileSync('umount', [path])));

  test('what cannot be removed is told, and stops no renewal', async () => {
    const object = { kind: 'secret', namespace: await newNamespace(), name: 'serving' } as const;
    const destinationDir = newDestination();
    const leftover = join(destinationDir, 'secrets/serving/..leftover');
    mkdirSync(leftover, { recursive: true });
    mountTmpfs('size=1m', leftover);
    await putObject(controlPlane, object, pairContent(first));
    await using syncing = await startSyncing({ controlPlane, destinationDir, artefacts: [opaque(object)] });
    await shows(destinationDir, object, pairContent(first));
    await putObject(controlPlane, object, pairContent(second));
    await shows(destinationDir, object, pairContent(second));
    await eventually(() => {
      const failed = syncing.log.find(({ event }) => event === 'sync.failed');
      expect(failed?.['err']).toContain(`"${leftover}"`);
    });
  });

  test.each<[string, string, (path: string) => void, (path: string) => void, string]>([
    [
      'read-only',
      'size=1m',
      (path) => void execFileSync('mount', ['-o', 'remount,ro', path]),
      (path) => void execFileSync('mount', ['-o', 'remount,rw', path]),
      'the file system is read-only; mount it writable (EROFS)',
    ],
    [
      'full',
      'size=64k',
      (path) => {
        try {
          writeFileSync(join(path, 'filler'), Buffer.alloc(65_536));
        } catch {
          /* it is full now */
        }
      },
      (path) => writeFileSync(join(path, 'filler'), ''),
      'no space left on the disk; free some space there, or inodes (df -i) (ENOSPC)',
    ],
  ])('%s: the last good files stay, the error says what to do, and it heals', async (_, size, refuse, allow, hint) => {
    const object = { kind: 'secret', namespace: await newNamespace(), name: 'serving' } as const;
    await putObject(controlPlane, object, pairContent(first));
    const destinationDir = mountTmpfs(size);
    await using syncing = await startSyncing({ controlPlane, destinationDir, artefacts: [opaque(object)] });
    await shows(destinationDir, object, pairContent(first));
    refuse(destinationDir);
    await putObject(controlPlane, object, pairContent(second));
    const line = await eventually(() => {
      const found = syncing.log.find(({ event }) => event === 'sync.failed');
      expect(found).toMatchObject({ code: 'WriteFailed', secret: `${object.namespace}/serving` });
      return found;
    });
    expect(line?.['err']).toMatch(
      new RegExp(
        `^Cannot publish Secret "${object.namespace}/serving": "${destinationDir}/secrets/serving(?:/tls\\.(?:crt|key))?": `,
      ),
    );
    expect(line?.['err']).toContain(`${hint}; the last good files stay in use`);
    await shows(destinationDir, object, pairContent(first));
    allow(destinationDir);
    await shows(destinationDir, object, pairContent(second));
    await eventually(() => expect(readdirSync(join(destinationDir, 'secrets/serving'))).toHaveLength(4));
  });
});
