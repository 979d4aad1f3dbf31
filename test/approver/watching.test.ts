// Another machine's node, looked at from look to look: what moves is alive, whatever this machine's clock shows, and by a
// clock that nothing confirms its silence is waited for. An API of plain objects, and a clock that only the test moves.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ApproverOptions } from '../../lib/approver/settings.ts';
import { ClientPolicy } from '../../lib/approver/client-policy.ts';
import { RequestQueue } from '../../lib/approver/queue.ts';
import { runApprover } from '../../lib/approver/run.ts';
import type { SigningRequest } from '../../lib/approver/request.ts';
import { bootstrapRequester, kubeletClientSigner } from '../../lib/bootstrap-identity.ts';
import { RecoveryError } from '../../lib/errors.ts';
import type { KubeConnection, KubeRequest } from '../../lib/kube/kube.ts';
import { createLog } from '../../lib/log.ts';
import { noMetrics } from '../../lib/metrics.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { kubeletRequest } from '../support/certificates/requests.ts';

const second = 1000;
const minute = 60 * second;
const day = 86_400 * second;
const real = new Date('2026-11-23T10:00:00Z').getTime();
const requester = bootstrapRequester('ns');

let pem: string;
let directory: string;
beforeAll(async () => {
  pem = Buffer.from(await kubeletRequest('worker')).toString('base64');
  directory = await mkdtemp(join(tmpdir(), 'watching-'));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

interface Wish {
  /** By how much this machine's clock is ahead. */
  readonly aheadMs?: number;
  /** What the machine says: without asking a process, and with. */
  readonly synchronised?: readonly [boolean, boolean];
  /** How often the kubelet renews its Lease; undefined: it is silent. */
  readonly renewsEveryMs?: number;
  readonly options?: Partial<ApproverOptions>;
}

/** One node, which was registered two years ago and has spoken until three seconds ago, and the approver. */
class World {
  readonly clock: FakeClock;
  readonly approved: string[] = [];
  readonly said: { readonly event: string; readonly reason?: string; readonly code?: string }[] = [];
  readonly failures: string[] = [];
  readonly options: ApproverOptions;
  readonly queue: RequestQueue;
  reads = 0;
  asked = 0;
  isAway = false;
  readonly #wish: Wish;
  readonly #bootMs: number;

  constructor(wish: Wish) {
    const { aheadMs = 400 * day, synchronised: [shallow, thorough] = [false, false] } = wish;
    this.#wish = wish;
    this.clock = new FakeClock(new Date(real + aheadMs), 100);
    this.#bootMs = 100 * second;
    this.options = {
      requesters: [requester],
      connection: { server: 'api', request: this.#request } as unknown as KubeConnection,
      clock: this.clock,
      log: createLog({ write: (line) => this.said.push(JSON.parse(line) as (typeof this.said)[number]) }),
      metrics: { ...noMetrics, failed: (_mode, code) => void this.failures.push(code) },
      signal: new AbortController().signal,
      once: false,
      dryRun: false,
      nodeName: 'panda',
      nodeCertificate: join(directory, 'current.pem'),
      expectedNodes: [],
      namespace: 'ns',
      bootedAt: () => undefined,
      longestLifeMs: 365 * day,
      recheckMs: 30 * second,
      clockFacts: (isThorough) => {
        if (isThorough) this.asked += 1;
        return Promise.resolve({
          builtAt: new Date('2026-11-01T00:00:00Z'),
          synchronised: isThorough ? thorough : shallow,
        });
      },
      ...wish.options,
    };
    this.queue = new RequestQueue(this.options, [new ClientPolicy(this.options)]);
  }

  get passedMs(): number {
    return (this.clock.uptimeSeconds() ?? 0) * second - this.#bootMs;
  }

  readonly #request = <T>({ method, path, body }: KubeRequest): Promise<T> => {
    const answer = (object: unknown): Promise<T> => Promise.resolve(object as T);
    if (this.isAway) return Promise.reject(new RecoveryError('KubeUnavailable', 'away'));
    if (method === 'PUT') {
      this.approved.push((body as SigningRequest).metadata.name);
      return answer(body);
    }
    if (path.includes('fieldSelector')) return answer({ metadata: { resourceVersion: '1' }, items: [request()] });
    if (path.includes('/configmaps/')) return answer({ metadata: { resourceVersion: '1' } });
    if (path.includes('/nodes/')) {
      return answer({ metadata: { creationTimestamp: new Date(real - 730 * day).toISOString() } });
    }
    this.reads += 1;
    const { renewsEveryMs } = this.#wish;
    const sinceMs = renewsEveryMs === undefined ? 0 : Math.floor(this.passedMs / renewsEveryMs) * renewsEveryMs;
    return answer({
      spec: { renewTime: new Date(real - 3 * second + sinceMs).toISOString(), leaseDurationSeconds: 40 },
    });
  };

  /** Looks whenever it is time, for so long. */
  async looks(forMs: number): Promise<void> {
    this.queue.put(request());
    for (const end = this.passedMs + forMs; this.passedMs <= end;) {
      await this.queue.pass();
      if (this.approved.length > 0) return;
      this.clock.advance(Math.max(this.queue.dueInMs() ?? minute, 1));
    }
  }

  get reasons(): readonly (string | undefined)[] {
    return this.said.filter(({ event }) => event === 'csr.pending').map(({ reason }) => reason);
  }
}

function request(): SigningRequest {
  const metadata = { name: 'csr-1', uid: 'u1', resourceVersion: '7', creationTimestamp: new Date(real).toISOString() };
  const usages = ['digital signature', 'client auth'];
  return { metadata, spec: { request: pem, signerName: kubeletClientSigner, usages, ...requester } };
}

describe("another machine's node, by a clock 400 days ahead that nothing confirms", () => {
  it('is not approved while it renews its Lease, and the request says what is waited for', async () => {
    const world = new World({ renewsEveryMs: 10 * second });
    await world.looks(10 * minute);
    expect(world.approved).toEqual([]);
    expect(world.reasons).toEqual(['ClockUnconfirmed', 'NodeAlive']);
  });

  it('is approved when it was silent for as long as its Lease lasts', async () => {
    const world = new World({});
    await world.looks(39 * second);
    expect(world.approved).toEqual([]);
    await world.looks(10 * second);
    expect(world.approved).toEqual(['csr-1']);
    expect(world.passedMs).toBe(40 * second);
  });

  it('is not silent while nobody could hear it: the time in which the API was away counts as one look', async () => {
    const world = new World({});
    await world.looks(5 * second);
    world.isAway = true;
    await world.looks(10 * minute);
    world.isAway = false;
    await world.looks(15 * second);
    expect(world.approved).toEqual([]);
    await world.looks(30 * second);
    expect(world.approved).toEqual(['csr-1']);
  });

  it('is waited for by a single pass, too', async () => {
    const world = new World({ options: { once: true } });
    const ended = runApprover(world.options);
    for (let turn = 0; turn < 4; turn += 1) {
      await world.clock.waiting();
      world.clock.advance(world.clock.nextWake ?? 0);
    }
    expect(await ended).toMatchObject({ approved: 1 });
    expect(world.passedMs).toBe(40 * second);
  });

  it('makes no single pass wait for an API that is away', async () => {
    const world = new World({ options: { once: true } });
    const ended = runApprover(world.options);
    await world.clock.waiting();
    world.isAway = true;
    world.clock.advance(world.clock.nextWake ?? 0);
    expect((await ended).failed).toHaveLength(1);
  });
});

describe("another machine's node, while the clock is right", () => {
  it.each<[string, Wish['synchronised'], number]>([
    ['its marker says so', [true, true], 0],
    ['a process says so, which is asked once a pass', [false, true], 1],
  ])('is approved at the first look: %s', async (_what, synchronised = [true, true], asked) => {
    const world = new World({ synchronised });
    world.queue.put(request());
    await world.queue.pass();
    expect(world).toMatchObject({ approved: ['csr-1'], reads: 1, asked });
  });

  it('is alive when it renews its Lease by a clock that is years behind', async () => {
    const world = new World({
      synchronised: [true, true],
      renewsEveryMs: 10 * second,
      options: { longestLifeMs: 500 * day },
    });
    await world.looks(2 * minute);
    expect(world.approved).toEqual([]);
    expect(world.reasons).toEqual(['CertificateMayBeValid', 'NodeAlive']);
  });
});

it("this machine's node waits for nothing, whatever the clock", async () => {
  const world = new World({ options: { nodeName: 'worker' } });
  world.queue.put(request());
  await world.queue.pass();
  expect(world.approved).toEqual(['csr-1']);
});

it('a look that fails counts once, with the code that the log names', async () => {
  const world = new World({});
  world.isAway = true;
  world.queue.put(request());
  await world.queue.pass();
  expect(world.failures).toEqual(['KubeUnavailable']);
  expect(world.said).toMatchObject([{ event: 'csr.failed', code: 'KubeUnavailable' }]);
});
