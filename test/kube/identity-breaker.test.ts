// Whom a failure concerns: all connections to a server, or one of them.
import { beforeEach, describe, expect, it } from 'vitest';
import type { Credentials } from '../../lib/kubeconfig/credentials.ts';
import { RecoveryError } from '../../lib/errors.ts';
import { Breakers, type ServerBreaker } from '../../lib/kube/circuit-breaker.ts';
import { FakeClock } from '../support/fake-clock.ts';

const signal = new AbortController().signal;
const attempt = { verb: 'get', object: 'Secret "n/b"', server: 'https://a:6443' };
const base = { server: 'https://a:6443', serverName: 'localhost-recovery', ca: Buffer.from('ca') };
const withToken = (token: string): Credentials => ({ ...base, token, clientCertificate: undefined });
const failure = (state: string, details: RecoveryError['details']): RecoveryError =>
  new RecoveryError('KubeUnavailable', `Cannot get Secret "n/b": ${state}`, { details });
const refused = failure('connection refused (ECONNREFUSED)', { away: true });
const patient = (status: 429 | 503, seconds: number): RecoveryError =>
  failure(`the API server answered ${status}`, { status, retryAfterMs: seconds * 1000 });

let clock: FakeClock;
let regen: ServerBreaker;
let approver: ServerBreaker;
beforeEach(() => {
  clock = new FakeClock();
  const breakers = new Breakers(clock);
  regen = breakers.of(withToken('regen'));
  approver = breakers.of(withToken('approver'));
});

const settle = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

async function pass(ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 10) {
    await settle();
    clock.advance(10);
  }
  await settle();
}

/** One request that is answered, or fails by `met`; what was told instead where it was not sent. */
async function ask(breaker: ServerBreaker, met?: RecoveryError): Promise<string> {
  try {
    const sent = met === undefined ? Promise.resolve('answered') : Promise.reject(met);
    return await breaker.through(attempt, signal, () => sent);
  } catch (err) {
    return err === met ? 'failed' : (err as Error).message;
  }
}

describe.each([429, 503] as const)('an identity that is asked for patience by %i', (status) => {
  it('waits, and nobody else does', async () => {
    await ask(approver, patient(status, 60));
    const told = `Cannot get Secret "n/b": the API server answered ${status}`;
    expect(await ask(approver)).toBe(told);
    expect(() => approver.watch(attempt)).toThrow(told);
    expect(await ask(regen)).toBe('answered');
    regen.watch(attempt);
    expect(await ask(approver)).toBe(told); // what another identity is answered says nothing of this one
    clock.advance(10_000);
    expect(await ask(approver)).toBe('answered');
  });

  it('has its turn when that has passed, all at once after the first answer; others have theirs meanwhile', async () => {
    await ask(approver, patient(status, 2));
    const start = clock.now().getTime();
    const answeredAt: Record<string, number[]> = { approver: [], regen: [] };
    const follow = async (breaker: ServerBreaker, name: string): Promise<void> => {
      for (;;) {
        const succeeded = await breaker.turn(signal);
        if ((await ask(breaker)) !== 'answered') continue;
        answeredAt[name]?.push(clock.now().getTime() - start);
        succeeded();
        return;
      }
    };
    const all = [
      ...Array.from({ length: 14 }, () => follow(approver, 'approver')),
      ...Array.from({ length: 3 }, () => follow(regen, 'regen')),
    ];
    await pass(2300);
    await Promise.all(all);
    expect(answeredAt['regen']).toEqual([0, 0, 0]);
    expect(answeredAt['approver']).toHaveLength(14);
    expect(Math.min(...(answeredAt['approver'] ?? []))).toBe(2000);
    expect(Math.max(...(answeredAt['approver'] ?? []))).toBeLessThanOrEqual(2200);
    expect(clock.sleeping).toBe(0);
  });
});

it('a server that is away is tried five times a second by all identities together, patient ones too', async () => {
  await ask(approver, patient(429, 1));
  let asked = 0;
  const stop = new AbortController();
  const follow = async (breaker: ServerBreaker): Promise<void> => {
    while (!stop.signal.aborted) {
      try {
        await breaker.through(attempt, stop.signal, async () => {
          if (!stop.signal.aborted) asked += 1;
          await Promise.resolve();
          throw refused;
        });
      } catch {
        // told what another one has met
      }
      await breaker.turn(stop.signal);
    }
  };
  const all = [regen, approver].flatMap((breaker) => Array.from({ length: 8 }, () => follow(breaker)));
  await pass(10_000);
  stop.abort();
  await pass(200);
  await Promise.all(all);
  // Eight had begun before anything was known.
  expect(asked).toBeGreaterThanOrEqual(45);
  expect(asked).toBeLessThanOrEqual(8 + 51);
  expect(clock.sleeping).toBe(0);
});

it('an answer that asks for patience shows that the server is there', async () => {
  await ask(regen, refused);
  clock.advance(200);
  await ask(approver, patient(503, 5));
  expect(await ask(regen)).toBe('answered');
});

it.each([
  ['asks for patience', patient(429, 5), true],
  ['is away', refused, false],
])('a watch that %s is as good as a request, unless something was answered since', async (_, met, isOwn) => {
  approver.watch(attempt)(met);
  expect(() => approver.watch(attempt)).toThrow(met.message);
  if (isOwn) regen.watch(attempt);
  else expect(() => regen.watch(attempt)).toThrow(met.message);
  clock.advance(10_000);
  expect(await ask(approver)).toBe('answered');
  const failed = approver.watch(attempt);
  approver.answered(); // by an event
  failed(met);
  expect(await ask(approver)).toBe('answered');
});

it('lists that succeed and watches that fail at once keep the pace of turns', async () => {
  const stop = new AbortController();
  let lists = 0;
  const follow = async (): Promise<void> => {
    for (let succeeded = (): void => undefined; !stop.signal.aborted; succeeded = await regen.turn(stop.signal)) {
      if ((await ask(regen)) !== 'answered') continue;
      lists += 1;
      succeeded();
    }
  };
  const all = [follow(), follow()];
  await pass(2000);
  stop.abort();
  await Promise.all(all);
  expect(lists).toBeGreaterThan(10);
  expect(lists).toBeLessThanOrEqual(2 * 12);
});

describe('Breakers', () => {
  it.each<[string, Credentials, boolean]>([
    ['another identity', withToken('regen'), true],
    ['another CA', { ...withToken('approver'), ca: Buffer.from('other') }, false],
    ['another server', { ...withToken('approver'), server: 'https://b:6443' }, false],
    ['another name', { ...withToken('approver'), serverName: undefined }, false],
  ])('tells whether what one has met is met by %s, too', async (_, credentials, isMet) => {
    const breakers = new Breakers(clock);
    const first = breakers.of(withToken('approver'));
    const other = breakers.of(credentials);
    await ask(first, refused);
    const told = 'Cannot get Secret "n/b": connection refused (ECONNREFUSED)';
    if (isMet) expect(() => other.watch(attempt)).toThrow(told);
    else other.watch(attempt);
  });
});
