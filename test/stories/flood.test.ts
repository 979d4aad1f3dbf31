// A flood in simulated time: the queue as it is, an API server of plain objects that takes its time for each answer, and a
// kubelet that asks while others ask thousands of times a minute. How long it waits, and how much is kept and written.
import { expect, it } from 'vitest';
import { mostRemembered } from '../../lib/approver/batch.ts';
import { RequestQueue } from '../../lib/approver/queue.ts';
import type { SigningRequest } from '../../lib/approver/request.ts';
import type { ApproverOptions } from '../../lib/approver/settings.ts';
import type { SignerPolicy } from '../../lib/approver/signer-policy.ts';
import { kubeletClientSigner } from '../../lib/bootstrap-identity.ts';
import type { KubeConnection, KubeRequest } from '../../lib/kube/kube.ts';
import { createLog } from '../../lib/log.ts';
import { FakeClock } from '../support/fake-clock.ts';

const second = 1000;
const signal = new AbortController().signal;

/** Of a look, all its reads together: several times what a real API server took. */
const lookMs = 20;

interface Flood {
  /** Names the node of the request with this number. */
  readonly nodeOf: (count: number) => string;
  readonly perMinute: number;
  /** Requests that wait already when the approver starts. */
  readonly before?: number;
}

/** A request is its own name and node here: what it holds is judged elsewhere. */
class World {
  readonly clock = new FakeClock(new Date('2026-11-24T00:00:00Z'));
  readonly queue: RequestQueue;
  readonly approvedAt = new Map<string, number>();
  readonly requests = new Map<string, SigningRequest>();
  events = 0;
  looks = 0;
  #count = 0;
  readonly #flood: Flood;

  constructor(flood: Flood) {
    this.#flood = flood;
    const exists = (node: string): boolean => node.startsWith('node-');
    const policy: SignerPolicy = {
      signer: kubeletClientSigner,
      see: () => undefined,
      concerns: () => true,
      nodeOf: ({ spec }) => spec.username,
      judge: ({ spec: { username: node = '' } }) => {
        this.looks += 1;
        this.clock.advance(lookMs); // one after the other, as if there were one lane
        if (node.startsWith('real-'))
          return Promise.resolve({ action: 'approve', node, message: 'its certificate has ended' });
        const reason = exists(node) ? 'CertificateMayBeValid' : 'NodeUnknown';
        return Promise.resolve({ action: 'leave', node, reason, message: 'no' });
      },
    };
    const request = <T>({ method, path }: KubeRequest): Promise<T> => {
      const name = /metadata\.name(?:=|%3D)([a-z0-9-]+)/.exec(path)?.[1] ?? '';
      const found = this.requests.get(name);
      if (method === 'GET') {
        return Promise.resolve({ metadata: { resourceVersion: '1' }, items: found ? [found] : [] } as T);
      }
      this.approvedAt.set(/requests\/([^/]+)\/approval/.exec(path)?.[1] ?? '', this.clock.now().getTime());
      return Promise.resolve({ metadata: { resourceVersion: '2' } } as T);
    };
    const options: Partial<ApproverOptions> = {
      connection: { server: 'x', request } as unknown as KubeConnection,
      nodeName: 'panda',
      recheckMs: 60 * second,
      clock: this.clock,
      log: createLog({ write: () => undefined }),
      events: { record: () => (this.events += 1) },
      dryRun: false,
      signal,
    };
    this.queue = new RequestQueue(options as ApproverOptions, [policy]);
    for (let count = 0; count < (flood.before ?? 0); count += 1) this.queue.put(this.#junk());
  }

  /** A request that the watch names. */
  ask(name: string, node: string): void {
    this.#heard(this.#create(name, node));
  }

  #create(name: string, node: string): SigningRequest {
    const metadata = { name, uid: name, resourceVersion: '1', creationTimestamp: this.clock.now().toISOString() };
    const request = { metadata, spec: { request: '', signerName: kubeletClientSigner, username: node } };
    this.requests.set(name, request);
    return request;
  }

  #junk(): SigningRequest {
    const name = `junk-${this.#count}`;
    const request = this.#create(name, this.#flood.nodeOf(this.#count));
    this.#count += 1;
    return request;
  }

  #heard({ metadata: { name } }: SigningRequest): void {
    this.queue.heard(kubeletClientSigner, 'ADDED', { kind: 'Table', rows: [{ cells: [name] }] });
  }

  /** The flood goes on, and the approver with it, until then. */
  async run(untilMs: number): Promise<void> {
    const began = this.clock.now().getTime();
    const start = this.#count;
    for (;;) {
      const passed = this.clock.now().getTime() - began;
      if (passed >= untilMs) return;
      while ((this.#count - start) * 60 * second < passed * this.#flood.perMinute) this.#heard(this.#junk());
      const looks = this.looks;
      await this.queue.pass();
      if (this.looks === looks) this.clock.advance(Math.max(50, Math.min(this.queue.dueInMs() ?? second, second)));
    }
  }

  /**
   * Milliseconds until a kubelet was approved that asks while the flood goes on: of a node that was never looked at, and just
   * before a second's worth of others ask.
   */
  async waited(): Promise<number> {
    const asked = this.clock.now().getTime();
    const name = `real-${asked}`;
    this.ask(name, name);
    for (let count = 0; count < this.#flood.perMinute / 60; count += 1) this.#heard(this.#junk());
    for (let turn = 0; turn < 100 && !this.approvedAt.has(name); turn += 1) await this.run(second);
    return (this.approvedAt.get(name) ?? Infinity) - asked;
  }
}

const floods: readonly (readonly [string, Flood['nodeOf']])[] = [
  ['of one name', () => 'nowhere'],
  ['of ever other names', (count) => `nowhere-${count}`],
  ['of the names of a thousand nodes that exist', (count) => `node-${count % 1000}`],
  ['of one node that exists and of others that do not', (count) => (count % 2 === 0 ? 'node-1' : `x-${count}`)],
];

it.each(floods)(
  '2000 requests a minute %s: a kubelet waits for 10 s at most, each time it asks',
  async (_what, nodeOf) => {
    const world = new World({ nodeOf, perMinute: 2000 });
    let slowest = 0;
    for (let minute = 0; minute < 5; minute += 1) {
      await world.run(55 * second);
      slowest = Math.max(slowest, await world.waited());
    }
    expect(slowest).toBeLessThan(10 * second);
    // Approvals, the first hundred, and the flood itself.
    expect(world.events).toBeLessThan(120);
  },
  60_000,
);

it.each(floods)(
  'the same with 10,000 %s that wait already',
  async (_what, nodeOf) => {
    const world = new World({ nodeOf, perMinute: 2000, before: 10_000 });
    for (let turn = 0; turn < 5; turn += 1) {
      expect(await world.waited()).toBeLessThan(10 * second);
      await world.run(10 * second);
    }
    expect(world.events).toBeLessThan(20);
  },
  60_000,
);

it('remembers so many and no more, and finds the others again when there is room', async () => {
  const world = new World({ nodeOf: (count) => `nowhere-${count}`, perMinute: 0, before: mostRemembered + 5000 });
  expect((await world.queue.pass()).left).toBeLessThan(mostRemembered + 200);
  const listed = async () =>
    [...world.requests.values()].flatMap((request) => {
      const summary = world.queue.listed(request);
      return summary === undefined ? [] : [summary];
    });
  await world.queue.recall(listed);
  expect((await world.queue.pass()).left).toBeLessThan(mostRemembered + 200);
  const kept = [...world.requests.values()].slice(-mostRemembered);
  for (const request of kept) {
    world.requests.delete(request.metadata.name);
    world.queue.remove(request.metadata.name);
  }
  await world.queue.recall(listed);
  expect((await world.queue.pass()).left).toBe(5000);
});
