// One attempt in 200 ms for a whole process, told by a clock that the test moves.
import { beforeEach, describe, expect, it } from 'vitest';
import type { Credentials } from '../../lib/kubeconfig/credentials.ts';
import { RecoveryError } from '../../lib/errors.ts';
import { Breakers, type ServerBreaker } from '../../lib/kube/circuit-breaker.ts';
import { FakeClock } from '../support/fake-clock.ts';

const start = new Date('2026-01-01T00:00:00Z').getTime();
const signal = new AbortController().signal;
const attempt = { verb: 'get', object: 'Secret "n/b"', server: 'https://127.0.0.1:6443' };
const credentials = { server: attempt.server, serverName: undefined, ca: Buffer.from('ca'), token: 'a' } as Credentials;
const refused = new RecoveryError('KubeUnavailable', 'Cannot get Secret "n/b": connection refused (ECONNREFUSED)', {
  details: { verb: 'get', server: attempt.server, away: true },
});
const forbidden = new RecoveryError('KubeForbidden', 'Cannot get Secret "n/b": 403', { details: { status: 403 } });
const patient = (seconds: number): RecoveryError =>
  new RecoveryError('KubeUnavailable', 'Cannot get Secret "n/b": the API server answered 429', {
    details: { status: 429, retryAfterMs: seconds * 1000 },
  });

let clock: FakeClock;
let breaker: ServerBreaker;
/** Times of the attempts that reached the server, milliseconds since the start. */
let asked: number[];
let isThere: boolean;
let failure: RecoveryError;
beforeEach(() => {
  clock = new FakeClock();
  breaker = new Breakers(clock).of(credentials);
  asked = [];
  isThere = false;
  failure = refused;
});

const since = (): number => clock.now().getTime() - start;
const settle = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

/** One request; its result, or its error. */
async function ask(): Promise<string> {
  try {
    return await breaker.through(attempt, signal, async () => {
      asked.push(since());
      await Promise.resolve();
      if (isThere) return 'answered';
      throw failure;
    });
  } catch (err) {
    return (err as Error).message;
  }
}

/** Asks again after each failure, as a watch does. */
async function follow(answeredAt: number[], stop: AbortSignal): Promise<void> {
  let succeeded = (): void => undefined;
  while (!stop.aborted) {
    if ((await ask()) === 'answered') {
      succeeded();
      answeredAt.push(since());
      return;
    }
    succeeded = await breaker.turn(stop);
  }
}

async function pass(ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 10) {
    await settle();
    clock.advance(10);
  }
  await settle();
}

describe('Breaker', () => {
  it('lets requests through at once while the server is there', async () => {
    isThere = true;
    await Promise.all(Array.from({ length: 50 }, ask));
    expect(asked).toEqual(Array.from({ length: 50 }, () => 0));
  });

  it('makes one attempt in 200 ms, however many ask, and tells all of them what it met', async () => {
    await ask();
    const told: string[] = [];
    const stop = new AbortController();
    const impatient = Array.from({ length: 20 }, async () => {
      while (!stop.signal.aborted) told.push(await ask());
    });
    await pass(2000);
    stop.abort();
    await pass(400);
    await Promise.all(impatient);
    expect(asked.length).toBeLessThanOrEqual(14);
    expect(asked.every((at, index) => index === 0 || at - (asked[index - 1] ?? 0) >= 200)).toBe(true);
    expect(new Set(told)).toEqual(new Set([refused.message]));
  });

  it.each(['ClusterRole "system:node"', 'Secret', '"/readyz"', 'certificatesigningrequests/approval "a"'])(
    'tells what was met at %s as of another request',
    async (object) => {
      const message = `Cannot list ${object}: connection refused: (x)`;
      const met = new RecoveryError('KubeUnavailable', message, { details: { away: true, verb: 'list' } });
      await breaker.through({ ...attempt, verb: 'list', object }, signal, () => Promise.reject(met)).catch(() => null);
      expect(() => breaker.watch(attempt)).toThrow('Cannot get Secret "n/b": connection refused: (x)');
    },
  );

  it('gives turns to those who wait, and releases all of them at the first answer', async () => {
    const stop = new AbortController();
    const answeredAt: number[] = [];
    const watches = Array.from({ length: 14 }, () => follow(answeredAt, stop.signal));
    await pass(60_000);
    // Fourteen that had begun before anything was known, and one in 200 ms.
    expect(asked.length).toBeLessThanOrEqual(14 + 301);
    isThere = true;
    const from = since();
    await pass(300);
    expect(answeredAt).toHaveLength(14);
    expect(Math.max(...answeredAt) - from).toBeLessThanOrEqual(200);
    await Promise.all(watches);
    expect(clock.sleeping).toBe(0);
  });

  it('gives a refused one its turn among others, and releases all when one of them has success', async () => {
    const stop = new AbortController();
    let allowed = false;
    const succeededAt: number[] = [];
    const watch = async (): Promise<void> => {
      for (let succeeded = (): void => undefined; !stop.signal.aborted; succeeded = await breaker.turn(stop.signal)) {
        try {
          await breaker.through(attempt, signal, () => {
            asked.push(since());
            return allowed ? Promise.resolve() : Promise.reject(forbidden);
          });
        } catch {
          continue;
        }
        succeeded();
        succeededAt.push(since());
        return;
      }
    };
    const watches = Array.from({ length: 14 }, watch);
    await pass(10_000);
    expect(asked.length).toBeLessThanOrEqual(14 + 51);
    allowed = true;
    const from = since();
    await pass(300);
    expect(succeededAt).toHaveLength(14);
    expect(Math.max(...succeededAt) - from).toBeLessThanOrEqual(200);
    await Promise.all(watches);
  });

  it('releases those who wait for a turn at the answer to another request', async () => {
    await ask();
    const turns = Promise.all(Array.from({ length: 14 }, () => breaker.turn(signal)));
    isThere = true;
    await pass(200);
    expect(await ask()).toBe('answered');
    await turns;
    expect(since()).toBe(200);
  });

  it('gives turns in the order in which they were asked for, also when one of them has left', async () => {
    await ask();
    const left = new AbortController();
    const order: number[] = [];
    const turns = [0, 1, 2, 3].map(async (who) => {
      await breaker.turn(who === 1 ? left.signal : signal);
      order.push(who);
    });
    await settle();
    left.abort();
    await pass(1000);
    await Promise.all(turns);
    expect(order).toEqual([1, 0, 2, 3]);
    expect(clock.sleeping).toBe(0);
  });

  it.each([
    { seconds: 1, ms: 1000 },
    { seconds: 5, ms: 5000 },
    { seconds: 3600, ms: 10_000 },
  ])('obeys Retry-After: $seconds for $ms ms', async ({ seconds, ms }) => {
    failure = patient(seconds);
    await ask();
    const stop = new AbortController();
    const answeredAt: number[] = [];
    isThere = true;
    const watch = follow(answeredAt, stop.signal);
    await pass(ms + 200);
    await watch;
    expect(asked).toEqual([0, ms]);
  });

  it('is not opened by what began before the last answer', async () => {
    const { promise, reject } = Promise.withResolvers<string>();
    const slow = breaker.through(attempt, signal, () => promise).catch(() => 'failed');
    isThere = true;
    await ask();
    reject(refused);
    expect(await slow).toBe('failed');
    expect(await ask()).toBe('answered');
  });

  it('goes on when an attempt is given up, and when the clock is set back', async () => {
    await ask();
    clock.advance(200);
    const { promise, reject } = Promise.withResolvers<string>();
    const given = breaker.through(attempt, signal, () => promise).catch(() => 'given up');
    const waiting = ask();
    await settle();
    reject(new RecoveryError('KubeUnavailable', 'stopped before the answer came'));
    expect(await given).toBe('given up');
    expect(await waiting).toContain('ECONNREFUSED');
    isThere = true;
    clock.set('2020-01-01T00:00:00Z');
    expect(await ask()).toBe('answered');
  });

  it('keeps nothing running for those who have left', async () => {
    await ask();
    const stop = new AbortController();
    const turn = breaker.turn(stop.signal);
    await settle();
    stop.abort();
    await turn;
    await settle();
    expect(clock.sleeping).toBe(0);
  });
});
