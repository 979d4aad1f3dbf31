// Rows of a watch, and the requests that they name: an API of plain objects that counts what is read, and a clock that
// only the test moves. The real watch is in test/integration/approver.test.ts and approver-hostile.test.ts.
import { describe, expect, it } from 'vitest';
import { RequestQueue } from '../../lib/approver/queue.ts';
import type { SigningRequest } from '../../lib/approver/request.ts';
import type { ApproverOptions } from '../../lib/approver/settings.ts';
import type { SignerPolicy } from '../../lib/approver/signer-policy.ts';
import { rowOf, type UnreadRequest, UnreadRequests } from '../../lib/approver/unread.ts';
import { kubeletClientSigner } from '../../lib/bootstrap-identity.ts';
import { RecoveryError } from '../../lib/errors.ts';
import type { KubeConnection, KubeRequest } from '../../lib/kube/kube.ts';
import { createLog } from '../../lib/log.ts';
import { FakeClock } from '../support/fake-clock.ts';

const row = (name: string): object => ({
  kind: 'Table',
  metadata: { resourceVersion: '7' },
  rows: [{ cells: [name] }],
});

const requestOf = (name: string, status?: SigningRequest['status']): SigningRequest => ({
  metadata: { name, uid: `uid-${name}`, resourceVersion: '1', creationTimestamp: '2026-11-24T00:00:00Z' },
  spec: { request: '', signerName: kubeletClientSigner, username: name },
  ...(status !== undefined && { status }),
});

/** An API with requests, an approver's queue before it, and a policy that records its calls. */
class World {
  readonly clock = new FakeClock(new Date('2026-11-24T00:00:00Z'));
  readonly requests = new Map<string, SigningRequest>();
  readonly said: { readonly level: string; readonly event: string; readonly csr?: string; readonly reason?: string }[] =
    [];
  /** `read <name>`, `see <name>`, `judge <name>` in their order. */
  readonly calls: string[] = [];
  readonly options: ApproverOptions;
  readonly queue: RequestQueue;
  /** Least version of each read. */
  readonly versions: (string | null)[] = [];
  isAway = false;
  /** Names of requests that are above any limit. */
  readonly large = new Set<string>();
  /** Called while a request is read. */
  during: (name: string) => void = () => undefined;

  constructor() {
    const policy: SignerPolicy = {
      signer: kubeletClientSigner,
      see: ({ metadata: { name } }) => void this.calls.push(`see ${name}`),
      concerns: () => true,
      nodeOf: ({ metadata: { name } }) => name,
      judge: ({ metadata: { name } }) => {
        this.calls.push(`judge ${name}`);
        return Promise.resolve({ action: 'leave', node: name, reason: 'NodeUnknown', message: 'no' });
      },
    };
    this.options = {
      connection: { server: 'x', request: this.#request } as unknown as KubeConnection,
      nodeName: 'panda',
      recheckMs: 60_000,
      clock: this.clock,
      log: createLog({
        level: 'debug',
        write: (line) => this.said.push(JSON.parse(line) as (typeof this.said)[number]),
      }),
      dryRun: false,
      signal: new AbortController().signal,
    } as Partial<ApproverOptions> as ApproverOptions;
    this.queue = new RequestQueue(this.options, [policy]);
  }

  readonly #request = <T>({ path, mostBytes }: KubeRequest): Promise<T> => {
    const name = /metadata\.name(?:=|%3D)([a-z0-9-]+)/.exec(path)?.[1] ?? '';
    this.calls.push(`read ${name}`);
    this.versions.push(new URL(path, 'https://api').searchParams.get('resourceVersion'));
    this.during(name);
    if (this.isAway) return Promise.reject(new RecoveryError('KubeUnavailable', 'away', { details: { away: true } }));
    if (this.large.has(name) && mostBytes !== undefined) {
      return Promise.reject(new RecoveryError('KubeUnavailable', 'large', { details: { tooLarge: true } }));
    }
    const found = this.requests.get(name);
    return Promise.resolve({ metadata: { resourceVersion: '1' }, items: found === undefined ? [] : [found] } as T);
  };

  heard(type: 'ADDED' | 'MODIFIED' | 'DELETED', name: string): void {
    this.queue.heard(kubeletClientSigner, type, row(name));
  }
}

it.each([
  ['an object', requestOf('a'), undefined],
  ['nothing', null, undefined],
  ['a row', row('csr-1'), { name: 'csr-1', resourceVersion: '7' }],
])('rowOf() %s', (_what, object, found) => expect(rowOf(object)).toEqual(found));

it.each([{ kind: 'Table' }, { kind: 'Table', rows: null }, { kind: 'Table', rows: [{ cells: [7] }] }])(
  'rowOf() %j is an error',
  (object) => expect(() => rowOf(object)).toThrow('no row with a name'),
);

describe('a request that the watch has named', () => {
  it('is read and judged in the next pass, and forgotten where it is gone by then', async () => {
    const world = new World();
    world.requests.set('here', requestOf('here'));
    world.heard('ADDED', 'here');
    world.heard('ADDED', 'gone');
    expect(world.queue.dueInMs()).toBe(0);
    expect(await world.queue.pass()).toMatchObject({ left: 1, failed: [] });
    expect(world.calls).toContain('judge here');
    expect(world.versions.slice(0, 2)).toEqual(['7', '7']); // as new as the event
    expect(world.versions.at(-1)).toBeNull(); // judged as it is now
    expect(world.queue.dueInMs()).toBeGreaterThan(1000);
  });

  it('is taken whole from a server that sends no rows', async () => {
    const world = new World();
    world.queue.heard(kubeletClientSigner, 'ADDED', requestOf('whole'));
    expect(world.calls).toEqual(['see whole']);
  });

  it('is read before any is judged when it was changed: a certificate in it counts for the others', async () => {
    const world = new World();
    for (const name of ['asks', 'issued', 'more']) world.requests.set(name, requestOf(name));
    world.heard('ADDED', 'asks');
    world.heard('ADDED', 'issued');
    world.requests.set('issued', requestOf('issued', { certificate: 'AAAA' }));
    world.heard('MODIFIED', 'issued');
    expect(world.queue.isBehind(kubeletClientSigner)).toBe(true);
    await world.queue.pass();
    expect(world.queue.isBehind(kubeletClientSigner)).toBe(false);
    expect(world.calls[0]).toBe('read issued');
    expect(world.calls.indexOf('see issued')).toBeLessThan(world.calls.indexOf('judge asks'));
    expect(world.calls).not.toContain('judge issued');
  });

  it('is read again when it changes meanwhile', async () => {
    const world = new World();
    world.requests.set('a', requestOf('a'));
    world.heard('ADDED', 'a');
    world.during = () => {
      world.during = () => undefined;
      world.requests.set('a', requestOf('a', { certificate: 'AAAA' }));
      world.heard('MODIFIED', 'a');
    };
    await world.queue.pass();
    expect(world.queue.isBehind(kubeletClientSigner)).toBe(true);
    expect(await world.queue.pass()).toMatchObject({ left: 0 });
    expect(world.calls).toEqual(['read a', 'read a', 'see a']);
  });

  it('is nothing to wait for when it is deleted meanwhile', async () => {
    const world = new World();
    world.requests.set('a', requestOf('a'));
    world.heard('ADDED', 'a');
    world.during = () => world.heard('DELETED', 'a');
    expect(await world.queue.pass()).toMatchObject({ left: 0 });
    expect(world.calls).toEqual(['read a']);
  });

  it('is refused unread above the limit when it is new, and read whole when it was changed', async () => {
    const world = new World();
    for (const name of ['new', 'changed']) {
      world.requests.set(name, requestOf(name));
      world.large.add(name);
    }
    world.heard('ADDED', 'new');
    world.heard('MODIFIED', 'changed');
    await world.queue.pass();
    expect(world.calls).not.toContain('see new');
    expect(world.calls).toContain('see changed');
    const [refused, ...others] = world.said.filter(({ reason }) => reason === 'RequestTooLarge');
    expect(refused).toMatchObject({ csr: 'new' });
    expect(others).toEqual([]);
    // Nobody reads it again.
    world.clock.advance(120_000);
    world.calls.length = 0;
    await world.queue.pass();
    expect(world.calls.filter((call) => call.endsWith(' new'))).toEqual([]);
  });

  it('waits, and is told once, while the API is away', async () => {
    const world = new World();
    world.requests.set('a', requestOf('a'));
    world.heard('ADDED', 'a');
    world.isAway = true;
    for (let turn = 0; turn < 5; turn += 1) {
      expect(await world.queue.pass()).toMatchObject({ failed: ['new requests: away'] });
      expect(world.queue.dueInMs()).toBeGreaterThan(0);
      world.clock.advance(10_000);
    }
    expect(world.said.filter(({ event }) => event === 'csr.failed').map(({ level }) => level)).toEqual([
      'warn',
      ...Array.from({ length: 4 }, () => 'debug'),
    ]);
    world.isAway = false;
    expect(await world.queue.pass()).toMatchObject({ left: 1, failed: [] });
  });

  it('delays no other when it cannot be read', async () => {
    const world = new World();
    for (const name of ['bad-1', 'bad-2', 'bad-3', 'bad-4', 'bad-5', 'good']) {
      world.requests.set(name, requestOf(name));
      world.heard('ADDED', name);
    }
    world.during = (name) => {
      if (name.startsWith('bad')) throw new RecoveryError('KubeRejected', 'no');
    };
    expect(await world.queue.pass()).toMatchObject({ left: 6 });
    expect(world.calls).toContain('judge good');
    expect(world.queue.dueInMs()).toBeGreaterThan(0);
    world.during = () => undefined;
    world.clock.advance(1000);
    await world.queue.pass();
    await world.queue.pass();
    expect(world.calls).toContain('judge bad-5');
  });

  it('is left unread, and its name is not kept, when that is longer than any', async () => {
    const world = new World();
    const name = ','.repeat(12_000);
    world.heard('ADDED', name);
    world.heard('MODIFIED', name);
    world.queue.put(requestOf(name));
    expect(await world.queue.pass()).toMatchObject({ left: 0, failed: [] });
    expect(world.calls.filter((call) => call.startsWith('read'))).toEqual([]);
    expect(world.calls).toHaveLength(1); // a certificate in it counts, where the object has come
    const [told, ...again] = world.said.filter(({ reason }) => reason === 'RequestTooLarge');
    expect(told).toMatchObject({ level: 'warn', csr: `${','.repeat(100)}...` });
    expect(again.every(({ level }) => level === 'debug')).toBe(true);
  });

  it('makes nothing unready by itself when its judgement fails, and all together do', async () => {
    const world = new World();
    for (const name of ['bad', 'good']) {
      world.requests.set(name, requestOf(name));
      world.heard('ADDED', name);
    }
    world.during = (name) => {
      if (name === 'bad') throw new RecoveryError('KubeRejected', 'no');
    };
    expect(await world.queue.pass()).toMatchObject({ isFailing: false, failed: [expect.stringContaining('"bad"')] });
    world.isAway = true;
    world.clock.advance(60_000);
    expect(await world.queue.pass()).toMatchObject({ isFailing: true });
    world.isAway = false;
    world.clock.advance(60_000);
    expect(await world.queue.pass()).toMatchObject({ isFailing: false });
  });

  it('is covered by a list that comes later', async () => {
    const world = new World();
    world.heard('ADDED', 'a');
    world.heard('MODIFIED', 'b');
    world.queue.replace(kubeletClientSigner, []);
    expect(world.queue.isBehind(kubeletClientSigner)).toBe(false);
    await world.queue.pass();
    expect(world.calls).toEqual([]);
  });
});

it('a row without a name is told, and the rows after it are read', async () => {
  const world = new World();
  world.requests.set('a', requestOf('a'));
  world.queue.heard(kubeletClientSigner, 'ADDED', { kind: 'Table', rows: [] });
  world.heard('ADDED', 'a');
  expect(world.said).toMatchObject([{ level: 'warn', event: 'csr.failed' }]);
  expect(await world.queue.pass()).toMatchObject({ left: 1 });
});

it('of more new requests than a round reads, the newest and the oldest are read, and no more remembered than so many', async () => {
  const world = new World();
  const unread = new UnreadRequests(world.options);
  const heardAt = new Date(0);
  const add = (name: string, isChanged = false): boolean =>
    unread.add({ name, signer: kubeletClientSigner, resourceVersion: '7', heardAt, isChanged });
  add('first-changed', true);
  for (let count = 0; count < 20_000; count += 1) expect(add(`n-${count}`)).toBe(true);
  expect(add('n-20000')).toBe(false);
  const read: string[] = [];
  const take = ({ name }: UnreadRequest): void => void read.push(name);
  await unread.read(take);
  expect(read).toHaveLength(401);
  expect(read[0]).toBe('first-changed');
  expect(read).toContain('n-20000');
  expect(read).toContain('n-19801');
  expect(read).toContain('n-1');
  expect(read).toContain('n-200');
  expect(read).not.toContain('n-0');
  // Changed ones have a share of a round, too.
  for (let count = 0; count < 20_001; count += 1) expect(add(`c-${count}`, true)).toBe(count < 20_000);
  read.length = 0;
  await unread.read(take);
  expect(read.filter((name) => name.startsWith('c-'))).toHaveLength(400);
  expect(read).not.toContain('n-10000');
});
