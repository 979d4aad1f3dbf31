// Every fault of the proxy x regen, with every object of a preset expired: when the fault begins before the first
// request, and when it begins in the middle of the writes and swallows the answer of one that was carried out. Each
// time all is well in the end and each object has been written exactly once, by the API's own account. Told of the
// preset `kubernetes`, and of OpenShift's three with a process each: their objects lie in many namespaces, some are made
// of another process's, and names are read from the API at each look.
//
// Not told again of each preset, because they are about one mechanism whatever the inventory: publishing an object
// (publish-crash, publish-order, test/publish), connections and watches (kube-faults, test/kube), one object's
// compare-and-swap (regen-store), files of the host (store-kill, test/store), leases (leases), a static pod's manifest
// and adoption (restart-in-pod, adopt-kill, adopt-repair: kubeadm's machines).
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';
import { eventually } from '../support/eventually.ts';
import type { Fault } from '../support/faults/fault-proxy.ts';
import { worldNames } from '../support/stories/preset-worlds.ts';
import { isAboutNames, isWrite, PresetStory, Stage, type StoryOptions } from './preset-story.ts';

let controlPlane: ControlPlane;
let scratch: string;
let stage: Stage;

beforeAll(async () => {
  controlPlane = await startControlPlane();
  scratch = await mkdtemp(join(tmpdir(), 'regen-faults-'));
  stage = new Stage(controlPlane, scratch);
  await stage.prepare();
});
afterAll(async () => {
  await controlPlane?.[Symbol.asyncDispose]();
  await rm(scratch, { recursive: true, force: true });
});

const storyOf = (options: StoryOptions): Promise<PresetStory> => PresetStory.create(stage, options);

const status = (code: number, more: Partial<Extract<Fault, { kind: 'status' }>> = {}): Fault => ({
  kind: 'status',
  status: code,
  ...more,
});

const onConnections: readonly [string, Fault][] = [
  ['refused', { kind: 'refused' }],
  ['no route to host', { kind: 'noRoute' }],
  ['reset', { kind: 'reset' }],
  ['EOF', { kind: 'eof' }],
  ['stall', { kind: 'stall' }],
];
const onAnswers: readonly [string, Fault][] = [
  ['unexpected EOF of the connection in mid-answer', { kind: 'cutAnswer' }],
  ['unexpected EOF of the stream in mid-answer', { kind: 'cutAnswer', of: 'stream' }],
  ['every answer lost', { kind: 'loseAnswer' }],
];
const statuses: readonly [string, Fault][] = [401, 403, 409, 410, 429, 500, 503, 504].map((code) => [
  `${code}`,
  status(code, code === 429 ? { retryAfter: 1 } : {}),
]);

describe.each(worldNames)('runRegen() of %s with everything expired and a fault from the beginning', (world) => {
  it.concurrent.each([...onConnections, ...onAnswers, ...statuses])(
    'writes nothing, then everything once: %s',
    async (_, fault) => {
      await using story = await storyOf({ world });
      await story.proxy.inject(fault);
      const run = story.run();
      expect(await story.metFault(run)).toBe(true);
      expect(story.history.written).toBe(0);
      await story.proxy.clear();
      await story.expectRecovered(await run);
    },
  );

  it.concurrent('recovers through a slow network', async () => {
    await using story = await storyOf({ world });
    await story.proxy.inject({ kind: 'slow', delayMs: 100 });
    await story.expectRecovered(await story.run());
  });

  it.concurrent('recovers although answers are lost with their connection, one in a look and a half', async () => {
    await using story = await storyOf({ world });
    const every = Math.round(story.size * 1.5);
    let count = 0;
    await story.proxy.inject({ kind: 'loseAnswer', match: () => (count += 1) % every === 0 });
    await story.expectRecovered(await story.run());
  });
});

describe.each(worldNames)(
  'runRegen() of %s with everything expired and a fault in the middle of the writes',
  (world) => {
    const nth = 4;
    // What is done about a status is no matter of the world: in the larger one a conflict and a failure stand for all.
    const some = statuses.filter(([code]) => world === 'kubernetes' || code === '409' || code === '503');
    /** The answer of the nth write, which was carried out, meets the fault; so does what follows. */
    async function recoverFrom(fault: Fault): Promise<boolean> {
      await using story = await storyOf({ world });
      const began = new Promise<void>((done) => {
        const start = async (): Promise<void> => {
          await story.proxy.inject(fault);
          done();
        };
        story.proxy.atAnswer(isWrite, start, nth);
      });
      const run = story.run();
      await began;
      const met = await story.metFault(run);
      await story.proxy.clear();
      await story.expectRecovered(await run);
      return met;
    }

    it.concurrent.each([...onConnections, ...onAnswers, ...some])('writes everything once: %s', async (_, fault) => {
      expect(await recoverFrom(fault)).toBe(true);
    });

    it.concurrent.each<[string, Fault]>([
      ['GOAWAY', { kind: 'goAway' }],
      ['GOAWAY with an error', { kind: 'goAway', code: 2 }],
      ['slow', { kind: 'slow', delayMs: 100 }],
    ])('writes everything once: %s', async (_, fault) => {
      await recoverFrom(fault);
    });
  },
);

describe.each(worldNames)('runRegen() of %s whose writes are carried out but not acknowledged', (world) => {
  const unacknowledged: readonly [string, Fault][] = [
    // With its connection an answer takes those of all writes beside it along, carried out or not.
    ['the connection is lost', { kind: 'loseAnswer', match: isWrite, times: 6 }],
    ['the connection is cut in mid-answer', { kind: 'cutAnswer', match: isWrite, times: 6 }],
    ['the stream is cut off', { kind: 'cutAnswer', of: 'stream', match: isWrite }],
    ...[409, 500].map((code): [string, Fault] => [
      `the answer is ${code}`,
      status(code, { carriedOut: true, match: isWrite }),
    ]),
  ];

  async function recoverUnheard(fault: Fault, absent: boolean): Promise<void> {
    await using story = await storyOf({ world, absent });
    await story.proxy.inject(fault);
    const run = story.run();
    expect(await story.metFault(run)).toBe(true);
    await story.expectRecovered(await run);
  }

  it.concurrent.each(unacknowledged)('repeats none, though it never hears of one: %s', async (_, fault) => {
    await recoverUnheard(fault, false);
  });

  it.concurrent.each(unacknowledged)('creates none twice, though it never hears of one: %s', async (_, fault) => {
    await recoverUnheard(fault, true);
  });

  it.concurrent.each([
    ['changes', false],
    ['creations', true],
  ])('is not overtaken by %s that the network delivers when all is done', async (_, absent) => {
    await using story = await storyOf({ world, absent });
    await story.proxy.inject({ kind: 'late', match: isWrite, times: 5 });
    const reports = await story.run();
    await story.proxy.clear();
    const late = (): (number | undefined)[] =>
      story.proxy.seen
        .filter(isWrite)
        .slice(0, 5)
        .map((asked) => asked.status);
    await eventually(() => expect(late()).toEqual([409, 409, 409, 409, 409]));
    await story.expectRecovered(reports);
  });
});

describe('runRegen() of openshift that cannot read the names of its certificates', () => {
  const unreadable: readonly [string, Fault][] = [
    ...[403, 500].map((code): [string, Fault] => [`${code}`, status(code, { match: isAboutNames })]),
    ['an answer that is something else', status(200, { match: isAboutNames })],
    ['an answer cut off', { kind: 'cutAnswer', of: 'stream', match: isAboutNames }],
    ['no answer', { kind: 'slow', delayMs: 20_000, match: isAboutNames }],
  ];

  it.concurrent.each(unreadable)('renews them with the names that they have, once: %s', async (_, fault) => {
    await using story = await storyOf({ world: 'openshift' });
    const before = story.hostnames();
    expect(Object.values(before).flat()).toContain('IP Address:172.30.0.1');
    await story.proxy.inject(fault);
    const reports = await story.run();
    await story.proxy.clear();
    await story.expectRecovered(reports);
    expect(story.hostnames()).toEqual(before);
  });

  it.concurrent.each(unreadable.slice(-2))('makes none without, and all of them afterwards: %s', async (_, fault) => {
    await using story = await storyOf({ world: 'openshift', absent: true });
    await story.proxy.inject(fault);
    const run = story.run();
    const missing = (): void =>
      expect(story.problems().map((problem) => problem.split(':')[0])).toEqual([
        'service-network-serving-certkey',
        'external-loadbalancer-serving-certkey',
        'internal-loadbalancer-serving-certkey',
        'node-kubeconfigs',
      ]);
    await eventually(missing);
    // Nor in a look or two after that.
    await story.history.still(2000);
    missing();
    await story.proxy.clear();
    await story.expectRecovered(await run);
    expect(Object.values(story.hostnames()).flat()).toContain('IP Address:172.30.0.1');
  });
});

describe.each(worldNames)('runRegen() of %s on three machines', (world) => {
  it.concurrent('writes everything once between them', async () => {
    await using story = await storyOf({ world, machines: 3 });
    await story.expectRecovered(await story.run());
  });

  it.concurrent('writes everything once although answers are lost with their connections', async () => {
    await using story = await storyOf({ world, machines: 3 });
    let count = 0;
    await story.proxy.inject({ kind: 'loseAnswer', match: (asked) => isWrite(asked) && (count += 1) % 10 === 0 });
    await story.expectRecovered(await story.run());
  });
});
