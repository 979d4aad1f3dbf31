// Every fault of the proxy x regen, with every object of the preset expired: when the fault begins before the first
// request, and when it begins in the middle of the writes and swallows the answer of one that was carried out. Each
// time all is well in the end and each object has been written exactly once, by the API's own account.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import type { Resolved } from '../../lib/inventory/model.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { createKeyPool } from '../../lib/pki/key-pool.ts';
import type { RegenReport } from '../../lib/regen/journal.ts';
import { type ControlPlane, startControlPlane } from '../support/control-plane.ts';
import { eventually } from '../support/eventually.ts';
import { expire } from '../support/expire.ts';
import type { Asked } from '../support/fault-forwarder.ts';
import { type Fault, type FaultProxy, startFaultProxy } from '../support/fault-proxy.ts';
import { writeKubeconfig } from '../support/kubeconfig.ts';
import { contentsInApi, problems } from '../support/soundness.ts';
import { Actor, Generations } from './regen-world.ts';

let controlPlane: ControlPlane;
let scratch: string;

beforeAll(async () => {
  controlPlane = await startControlPlane({ unsafeNoFsync: true });
  scratch = await mkdtemp(join(tmpdir(), 'regen-faults-'));
});
afterAll(async () => {
  await controlPlane?.[Symbol.asyncDispose]();
  await rm(scratch, { recursive: true, force: true });
});

const isWrite = ({ method }: Asked): boolean => method === 'PUT' || method === 'PATCH';
const serverName = 'localhost-recovery';
/** P-256, because keys are no matter here and are made in no time. A renewal keeps the algorithm. */
const algorithm = { name: 'ECDSA', curve: 'P-256' } as const;

/** The objects of the preset in a namespace of their own, all expired, and a regen that reaches them by a proxy. */
class Subject implements AsyncDisposable {
  readonly resolved: Resolved;
  readonly proxy: FaultProxy;
  /** Not by the proxy. */
  readonly direct: Actor;
  readonly actor: Actor;
  readonly #namespace: string;
  #generations: Generations | undefined;

  private constructor(namespace: string, parts: Pick<Subject, 'resolved' | 'proxy' | 'direct' | 'actor'>) {
    this.#namespace = namespace;
    this.resolved = parts.resolved;
    this.proxy = parts.proxy;
    this.direct = parts.direct;
    this.actor = parts.actor;
  }

  static #count = 0;

  static async create({ absent = false } = {}): Promise<Subject> {
    const namespace = `faults-${(Subject.#count += 1)}`;
    const resolved = objectsOf(namespace);
    const proxy = await startFaultProxy({
      target: { port: controlPlane.port, caFile: controlPlane.recoveryCa, serverName },
    });
    const recoveryKubeconfig = await writeKubeconfig(join(scratch, namespace), {
      server: proxy.url,
      certificateAuthority: proxy.ca,
      tlsServerName: serverName,
      token: controlPlane.adminToken,
    });
    const direct = await Actor.start(controlPlane, resolved);
    const actor = await Actor.start({ recoveryKubeconfig }, resolved);
    await controlPlane.admin('/api/v1/namespaces', { method: 'POST', body: { metadata: { name: namespace } } });
    if (!absent) {
      await direct.run({ keyPool: createKeyPool({ algorithm, size: 32 }), keyAlgorithm: algorithm });
      await expire({ resolved, store: direct.store, now: systemClock.now() });
    }
    const subject = new Subject(namespace, { resolved, proxy, direct, actor });
    subject.#generations = await Generations.start(direct, namespace);
    return subject;
  }

  run(): Promise<RegenReport> {
    return this.actor.run({ keyPool: createKeyPool({ algorithm, size: 32 }), keyAlgorithm: algorithm });
  }

  /** Until regen has said that something went wrong, or has ended. */
  async metFault(run: Promise<RegenReport>): Promise<boolean> {
    const events = ['api.waiting', 'rotation.failed', 'publish.conflicted', 'rotation.blocked'];
    const met = (): boolean => this.actor.lines.some(({ event }) => events.includes(event));
    const ended = run.then(() => true);
    while (!met()) if (await Promise.race([ended, systemClock.sleep(10).then(() => false)])) break;
    return met();
  }

  /** How often each artefact has been written since the beginning, as the API has seen it. */
  async written(): Promise<Record<string, number>> {
    const path = `/api/v1/namespaces/${this.#namespace}/configmaps`;
    const marker = 'marker';
    const seen = await this.#generations?.stop(async () => {
      await controlPlane.admin(path, { method: 'POST', body: { metadata: { name: marker } } });
      return marker;
    });
    return Object.fromEntries([...(seen ?? [])].map(([name, versions]) => [name, versions.length]));
  }

  writtenSoFar(): number {
    return this.#generations?.seen.size ?? 0;
  }

  /** All is well, nothing is left to do, and each object was written exactly once. */
  async expectRecovered(report: RegenReport): Promise<void> {
    const { resolved, direct } = this;
    expect(report.converged).toBe(true);
    expect(report.artefacts.filter(({ action }) => action !== 'keep')).toEqual([]);
    expect(problems(resolved, await contentsInApi(controlPlane, resolved), systemClock.now())).toEqual([]);
    expect(await direct.run()).toMatchObject({ converged: true, writes: 0 });
    const once = resolved.artefacts.flatMap(({ truth }) => ('namespace' in truth ? [[truth.name, 1] as const] : []));
    expect(await this.written()).toEqual(Object.fromEntries(once));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#generations?.close();
    await this.actor[Symbol.asyncDispose]();
    await this.direct[Symbol.asyncDispose]();
    await this.proxy.close();
  }
}

function objectsOf(namespace: string): Resolved {
  const { name, artefacts } = resolve(loadPreset('kubernetes', { namespace }), {
    parameters: { apiServerHostnames: ['api.example.org'] },
  });
  const isOurs = ({ truth, kind }: Resolved['artefacts'][number]): boolean =>
    'namespace' in truth && kind !== 'keyPair';
  return { name, artefacts: artefacts.filter(isOurs) };
}

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

describe('runRegen() with everything expired and a fault from the beginning', () => {
  it.concurrent.each([...onConnections, ...onAnswers, ...statuses])(
    'writes nothing, then everything once: %s',
    async (_, fault) => {
      await using subject = await Subject.create();
      await subject.proxy.inject(fault);
      const run = subject.run();
      expect(await subject.metFault(run)).toBe(true);
      expect(subject.writtenSoFar()).toBe(0);
      await subject.proxy.clear();
      await subject.expectRecovered(await run);
    },
  );

  it.concurrent('recovers through a slow network', async () => {
    await using subject = await Subject.create();
    await subject.proxy.inject({ kind: 'slow', delayMs: 100 });
    await subject.expectRecovered(await subject.run());
  });

  it.concurrent('recovers although every fortieth answer is lost with its connection', async () => {
    await using subject = await Subject.create();
    let count = 0;
    await subject.proxy.inject({ kind: 'loseAnswer', match: () => (count += 1) % 40 === 0 });
    await subject.expectRecovered(await subject.run());
  });
});

describe('runRegen() with everything expired and a fault in the middle of the writes', () => {
  const nth = 4;
  /** The answer of the nth write, which was carried out, meets the fault; so does what follows. */
  async function recoverFrom(fault: Fault): Promise<{ subject: Subject; met: boolean }> {
    const subject = await Subject.create();
    const began = new Promise<void>((done) => {
      const start = async (): Promise<void> => {
        await subject.proxy.inject(fault);
        done();
      };
      subject.proxy.atAnswer(isWrite, start, nth);
    });
    const run = subject.run();
    await began;
    const met = await subject.metFault(run);
    await subject.proxy.clear();
    await subject.expectRecovered(await run);
    return { subject, met };
  }

  it.concurrent.each([...onConnections, ...onAnswers, ...statuses])('writes everything once: %s', async (_, fault) => {
    const { subject, met } = await recoverFrom(fault);
    expect(met).toBe(true);
    await subject[Symbol.asyncDispose]();
  });

  it.concurrent.each<[string, Fault]>([
    ['GOAWAY', { kind: 'goAway' }],
    ['GOAWAY with an error', { kind: 'goAway', code: 2 }],
    ['slow', { kind: 'slow', delayMs: 100 }],
  ])('writes everything once: %s', async (_, fault) => {
    const { subject } = await recoverFrom(fault);
    await subject[Symbol.asyncDispose]();
  });
});

describe('runRegen() whose writes are carried out but not acknowledged', () => {
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

  it.concurrent.each(unacknowledged)('repeats none, though it never hears of one: %s', async (_, fault) => {
    await using subject = await Subject.create();
    await subject.proxy.inject(fault);
    const run = subject.run();
    expect(await subject.metFault(run)).toBe(true);
    await subject.expectRecovered(await run);
  });

  it.concurrent.each(unacknowledged)('creates none twice, though it never hears of one: %s', async (_, fault) => {
    await using subject = await Subject.create({ absent: true });
    await subject.proxy.inject(fault);
    const run = subject.run();
    expect(await subject.metFault(run)).toBe(true);
    await subject.expectRecovered(await run);
  });

  it.concurrent.each([
    ['changes', false],
    ['creations', true],
  ])('is not overtaken by %s that the network delivers when all is done', async (_, absent) => {
    await using subject = await Subject.create({ absent });
    await subject.proxy.inject({ kind: 'late', match: isWrite, times: 5 });
    const report = await subject.run();
    await subject.proxy.clear();
    const late = (): (number | undefined)[] =>
      subject.proxy.seen
        .filter(isWrite)
        .slice(0, 5)
        .map((asked) => asked.status);
    await eventually(() => expect(late()).toEqual([409, 409, 409, 409, 409]));
    await subject.expectRecovered(report);
  });
});
