// What is kept of the newest certificate of each node, and how it is written. An API of plain objects.
import { describe, expect, it } from 'vitest';
import {
  type IssuedCertificate,
  IssuedCertificates,
  parseRecorded,
  withIssued,
} from '../../lib/approver/issued-certificates.ts';
import { RecoveryError } from '../../lib/errors.ts';
import type { KubeConnection, KubeRequest } from '../../lib/kube/kube.ts';
import { createLog } from '../../lib/log.ts';
import { FakeClock } from '../support/fake-clock.ts';

const [key, other] = ['a'.repeat(64), 'b'.repeat(64)];
const at = (text: string): Date => new Date(`${text}T00:00:00.000Z`);
const issued = (node: string, until: string, ofKey = key): IssuedCertificate => ({
  node,
  notBefore: at('2025-01-01'),
  notAfter: at(until),
  key: ofKey,
});

describe('parseRecorded()', () => {
  it('reads an end and a key, and nothing of anything else', () => {
    expect(parseRecorded(`2026-01-01T00:00:00.000Z ${key}`)).toEqual({ until: at('2026-01-01'), key });
    const nodeUid = '0a1b2c3d-0000-4000-8000-000000000000';
    const ofNode = { until: at('2026-01-01'), key, nodeUid };
    expect(parseRecorded(`2026-01-01T00:00:00.000Z ${key} ${nodeUid}`)).toEqual(ofNode);
    for (const text of [
      '',
      'x',
      `2026-01-01T00:00:00Z ${key} x`,
      `yesterday ${key}`,
      '2026-01-01T00:00:00Z',
      `2026-01-01T00:00:00Z ${key}0`,
    ])
      expect(parseRecorded(text)).toEqual({});
  });
});

describe('withIssued()', () => {
  const entries = { panda: `2026-03-01T00:00:00.000Z ${key}`, tiger: 'unreadable' };
  it('takes what ends later and what is new, and keeps the rest', () => {
    const news = [issued('panda', '2026-04-01', other), issued('panda', '2026-03-02'), issued('lion', '2026-01-01')];
    expect(withIssued(entries, news)).toEqual({
      lion: `2026-01-01T00:00:00.000Z ${key}`,
      panda: `2026-04-01T00:00:00.000Z ${other}`,
      tiger: 'unreadable',
    });
    expect(withIssued(entries, [issued('tiger', '2026-01-01')])).toHaveProperty(
      'tiger',
      `2026-01-01T00:00:00.000Z ${key}`,
    );
  });
  it('takes another key with the same end: both end with their CA', () => {
    expect(withIssued(entries, [issued('panda', '2026-03-01', other)])).toMatchObject({
      panda: `2026-03-01T00:00:00.000Z ${other}`,
    });
  });
  it('has nothing to write where nothing is newer', () => {
    expect(withIssued(entries, [])).toBeUndefined();
    expect(withIssued(entries, [issued('panda', '2026-03-01'), issued('panda', '2026-02-01')])).toBeUndefined();
  });
  it('lets go names without a Node where there is no room, and never one of a Node', () => {
    const full = Object.fromEntries(
      Array.from({ length: 10 }, (_, day) => [`node-${day}`, `2026-01-0${day}T00:00:00.000Z ${key}`]),
    );
    const invented = { invented: `2030-01-01T00:00:00.000Z ${key}`, 'no-entry': 'x' };
    const most = Object.entries(full).reduce((sum, [name, text]) => sum + name.length + text.length, 0) + 100;
    const news = [issued('new', '2026-02-01')];
    const gone = new Set(Object.keys(invented));
    const after = withIssued({ ...full, ...invented }, news, { most, gone }) ?? {};
    expect(Object.keys(after)).toEqual([...Object.keys(full), 'new'].toSorted());
    expect(withIssued(full, news, { most: most - 101, gone: new Set() })).toEqual(full);
  });
});

const uidOf = (node: string): string => `00000000-0000-4000-8000-${`${node.length}`.padStart(12, '0')}`;

class World {
  readonly clock = new FakeClock('2026-01-01T00:00:00Z', 100);
  readonly nodes = new Set<string>();
  readonly said: { readonly event: string; readonly err?: string }[] = [];
  data: Readonly<Record<string, string>> | undefined = {};
  writes = 0;
  /** Somebody else writes between our read and our write. */
  isOvertaken = false;

  keeper(dryRun = false): IssuedCertificates {
    return new IssuedCertificates({
      connection: { server: 'api', request: this.#request } as unknown as KubeConnection,
      namespace: 'ns',
      clock: this.clock,
      log: createLog({ write: (line) => this.said.push(JSON.parse(line) as (typeof this.said)[number]) }),
      dryRun,
      signal: new AbortController().signal,
    });
  }

  readonly #request = <T>({ method, path, body }: KubeRequest): Promise<T> => {
    const name = path.split('/').at(-1) ?? '';
    const absent = new RecoveryError('KubeNotFound', 'absent');
    const object = { metadata: { uid: uidOf(name) } } as T;
    if (path.includes('/nodes/')) return this.nodes.has(name) ? Promise.resolve(object) : Promise.reject(absent);
    if (this.data === undefined) return Promise.reject(absent);
    if (method === 'PUT') {
      if (this.isOvertaken) return Promise.reject(new RecoveryError('KubeConflict', 'changed'));
      this.writes += 1;
      this.data = (body as { data: Record<string, string> }).data;
    }
    return Promise.resolve({ metadata: { resourceVersion: '1' }, data: this.data } as T);
  };
}

describe('IssuedCertificates', () => {
  it('writes for Nodes that there are, and for what an approver of ours has approved, at once', async () => {
    const world = new World();
    world.nodes.add('panda');
    const keeper = world.keeper();
    keeper.see(issued('panda', '2026-03-01'), false);
    keeper.see(issued('panda', '2026-02-01'), false);
    keeper.see(issued('newcomer', '2026-03-01'), true);
    keeper.see(issued('stranger', '2026-03-01'), false);
    await keeper.write();
    expect(Object.keys(world.data ?? {})).toEqual(['newcomer', 'panda']);
    expect(world).toMatchObject({ writes: 1, said: [] });
    await keeper.write();
    expect(world.writes).toBe(1);
  });

  it('notes the Node that has the certificate when it is there, once, and never another one', async () => {
    const world = new World();
    const keeper = world.keeper();
    keeper.see(issued('panda', '2026-03-01'), true);
    await keeper.write();
    const first = `2026-03-01T00:00:00.000Z ${key}`;
    expect(world.data).toEqual({ panda: first });
    world.nodes.add('panda');
    await keeper.write();
    expect(world.data).toEqual({ panda: `${first} ${uidOf('panda')}` });
    const ofAnother = { panda: `${first} ${uidOf('tiger and lion')}` };
    world.data = ofAnother;
    keeper.see(issued('panda', '2026-03-01'), true);
    await keeper.write();
    expect(world.data).toEqual(ofAnother);
    expect(world.writes).toBe(2);
  });

  it('waits ten minutes for the Node of a first certificate, and no longer', async () => {
    const world = new World();
    const keeper = world.keeper();
    keeper.see(issued('late', '2026-03-01'), false);
    keeper.see(issued('never', '2026-03-01'), false);
    await keeper.write();
    world.nodes.add('late');
    world.clock.advance(10 * 60_000);
    await keeper.write();
    world.nodes.add('never');
    await keeper.write();
    expect(Object.keys(world.data ?? {})).toEqual(['late']);
  });

  it('makes room by names of which there is no Node, and says where there is none', async () => {
    const world = new World();
    const name = (count: number): string => `${count}`.padStart(251, 'n');
    const entry = `2030-01-01T00:00:00.000Z ${key}`;
    const entries = Array.from({ length: 2059 }, (_, count): [string, string] => [name(count), entry]);
    world.data = Object.fromEntries(entries);
    for (let count = 0; count < 2059; count += 1) if (count !== 7) world.nodes.add(name(count));
    const keeper = world.keeper();
    keeper.see(issued('panda', '2026-03-01'), true);
    await keeper.write();
    expect(Object.keys(world.data)).toContain('panda');
    expect(Object.keys(world.data)).not.toContain(name(7));
    expect(Object.keys(world.data)).toHaveLength(2059);
    keeper.see(issued('tiger'.padStart(250, 't'), '2026-03-01'), true);
    world.nodes.add('panda');
    await keeper.write();
    expect(world.said).toMatchObject([{ event: 'record.full' }]);
    expect(Object.keys(world.data)).toHaveLength(2059);
  });

  it('tries again what another has overtaken', async () => {
    const world = new World();
    const keeper = world.keeper();
    keeper.see(issued('panda', '2026-03-01'), true);
    world.isOvertaken = true;
    await keeper.write();
    world.isOvertaken = false;
    await keeper.write();
    expect(Object.keys(world.data ?? {})).toEqual(['panda']);
  });

  it('says once what it lacks, and tries again', async () => {
    const world = new World();
    world.data = undefined;
    const keeper = world.keeper();
    keeper.see(issued('panda', '2026-03-01'), true);
    await keeper.write();
    await keeper.write();
    expect(world.said).toMatchObject([{ event: 'record.failed', code: 'KubeNotFound' }]);
    expect(world.said[0]?.err).toContain('run again what installed this approver');
    world.data = {};
    await keeper.write();
    expect(Object.keys(world.data)).toEqual(['panda']);
  });

  it('writes nothing in a dry run', async () => {
    const world = new World();
    const keeper = world.keeper(true);
    keeper.see(issued('panda', '2026-03-01'), true);
    await keeper.write();
    expect(world.data).toEqual({});
  });
});
