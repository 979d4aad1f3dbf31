// Whom a failure concerns: all who ask a server, or one identity.
import { beforeEach, describe, expect, it } from 'vitest';
import type { Credentials } from '../../lib/kubeconfig/credentials.ts';
import { RecoveryError } from '../../lib/errors.ts';
import { Breakers, type IdentityBreaker } from '../../lib/kube/circuit-breaker.ts';
import { FakeClock } from '../support/fake-clock.ts';

const signal = new AbortController().signal;
const attempt = { verb: 'get', object: 'Secret "n/b"', server: 'https://a:6443' };
const base = { server: 'https://a:6443', serverName: 'localhost-recovery', ca: Buffer.from('ca') };
const withToken = (token: string): Credentials => ({ ...base, token, clientCertificate: undefined });
const withCertificate = (cert: string): Credentials => ({
  ...base,
  token: undefined,
  clientCertificate: { cert: Buffer.from(cert), key: Buffer.from('key') },
});
const failure = (state: string, details: RecoveryError['details']): RecoveryError =>
  new RecoveryError('KubeUnavailable', `Cannot get Secret "n/a": ${state}`, { details });
const refused = failure('connection refused (ECONNREFUSED)', { away: true });
const patient = (status: 429 | 503, seconds: number): RecoveryError =>
  failure(`the API server answered ${status}`, { status, retryAfterMs: seconds * 1000 });

let clock: FakeClock;
let regen: IdentityBreaker;
let approver: IdentityBreaker;
/** Of one identity, by another connection. */
let second: IdentityBreaker;
beforeEach(() => {
  clock = new FakeClock();
  const breakers = new Breakers(clock);
  regen = breakers.of(withToken('regen'));
  approver = breakers.of(withToken('approver'));
  second = breakers.of(withToken('approver'));
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
async function ask(breaker: IdentityBreaker, met?: RecoveryError): Promise<string> {
  try {
    const call = await breaker.enter(attempt, signal);
    if (met === undefined) call.answered();
    else call.failed(met);
    call.end();
    return met === undefined ? 'answered' : 'failed';
  } catch (err) {
    return (err as Error).message;
  }
}

describe.each([429, 503] as const)('an identity that is asked for patience by %i', (status) => {
  it('waits, by all its connections, and nobody else does', async () => {
    await ask(approver, patient(status, 60));
    const told = `Cannot get Secret "n/b": the API server answered ${status}`;
    expect(await ask(approver)).toBe(told);
    expect(await ask(second)).toBe(told);
    expect(() => second.enterWatch(attempt)).toThrow(told);
    expect(await ask(regen)).toBe('answered');
    regen.enterWatch(attempt).end();
    expect(await ask(approver)).toBe(told); // what another identity is answered says nothing of this one
    clock.advance(10_000);
    expect(await ask(approver)).toBe('answered');
    expect(await ask(second)).toBe('answered');
  });

  it('has its turn when that has passed, all at once after the first answer; others have theirs meanwhile', async () => {
    await ask(approver, patient(status, 2));
    const start = clock.now().getTime();
    const answeredAt: Record<string, number[]> = { approver: [], regen: [] };
    const follow = async (breaker: IdentityBreaker, name: string): Promise<void> => {
      for (;;) {
        const succeeded = await breaker.turn(signal);
        if ((await ask(breaker)) !== 'answered') continue;
        answeredAt[name]?.push(clock.now().getTime() - start);
        succeeded();
        return;
      }
    };
    const all = [
      ...Array.from({ length: 7 }, () => follow(approver, 'approver')),
      ...Array.from({ length: 7 }, () => follow(second, 'approver')),
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
  const follow = async (breaker: IdentityBreaker): Promise<void> => {
    while (!stop.signal.aborted) {
      try {
        const call = await breaker.enter(attempt, stop.signal);
        if (!stop.signal.aborted) asked += 1;
        await Promise.resolve();
        call.failed(refused);
        call.end();
      } catch {
        // told what another one has met
      }
      await breaker.turn(stop.signal);
    }
  };
  const all = [regen, approver, second].flatMap((breaker) => Array.from({ length: 5 }, () => follow(breaker)));
  await pass(10_000);
  stop.abort();
  await pass(200);
  await Promise.all(all);
  // Five had begun before anything was known.
  expect(asked).toBeGreaterThanOrEqual(45);
  expect(asked).toBeLessThanOrEqual(5 + 51);
  expect(clock.sleeping).toBe(0);
});

it('an answer that asks for patience shows that the server is there', async () => {
  await ask(regen, refused);
  clock.advance(200);
  await ask(approver, patient(503, 5));
  expect(await ask(regen)).toBe('answered');
});

describe('Breakers', () => {
  const isAway = async (breaker: IdentityBreaker): Promise<boolean> => (await ask(breaker)) !== 'answered';

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
    if (isMet) expect(() => other.enterWatch(attempt)).toThrow(told);
    else other.enterWatch(attempt).end();
  });

  it('knows an identity by its token or its certificate', async () => {
    const breakers = new Breakers(clock);
    await ask(breakers.of(withCertificate('a')), patient(429, 5));
    expect(await isAway(breakers.of(withCertificate('a')))).toBe(true);
    expect(await isAway(breakers.of(withCertificate('b')))).toBe(false);
    expect(await isAway(breakers.of(withToken('a')))).toBe(false);
  });

  it('forgets credentials that have been replaced, and none that is asked for', async () => {
    const breakers = new Breakers(clock);
    await ask(breakers.of(withToken('kept')), patient(429, 10));
    for (let renewed = 0; renewed < 200; renewed += 1) {
      breakers.of(withToken(`renewed ${renewed}`));
      expect(await isAway(breakers.of(withToken('kept')))).toBe(true);
    }
  });
});
