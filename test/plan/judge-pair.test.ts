import { beforeAll, describe, expect, it } from 'vitest';
import type { ResolvedTarget } from '../../lib/inventory/model.ts';
import type { Certificate } from '../../lib/pki/certificate.ts';
import { isEnding, offerProblem } from '../../lib/plan/judge-pair.ts';
import { type Authority, authority, day, leaf, now } from '../pki/authority.ts';

const target: ResolvedTarget = {
  kind: 'target',
  name: 'external-etcd-client',
  location: { kind: 'pemPair', certFile: '/c', keyFile: '/k' },
  usage: 'client',
  commonName: 'kube-apiserver-etcd-client',
  organizations: [],
  hostnames: [],
  validity: 1,
  refresh: 1,
  readers: [],
};

let ours: Authority;
let namesake: Authority;
let other: Authority;
beforeAll(async () => {
  [ours, namesake, other] = await Promise.all([
    authority({ commonName: 'etcd-ca' }),
    authority({ commonName: 'etcd-ca' }),
    authority({ commonName: 'other-ca' }),
  ]);
});

const client = (by: Authority, notAfter: number, notBefore = -20): Promise<Certificate> =>
  leaf(by, { commonName: 'c', hostnames: [], usage: 'client', notBefore: day(notBefore), notAfter: day(notAfter) });

const problem = (offered: Certificate, present?: Certificate, mayBeOfOthers = true, time = now): string | undefined =>
  offerProblem({ target: { ...target, mayBeOfOthers }, offered, present, authorities: [ours.certificate], now: time });

describe('offerProblem()', () => {
  it('takes what our CA has signed and ends later', async () => {
    const present = await client(ours, 5);
    expect(problem(await client(ours, 10), present)).toBeUndefined();
    expect(problem(await client(ours, 10))).toBeUndefined();
    expect(problem(present, present)).toBe('it ends no later than the one that is there');
  });

  it('refuses what has expired, has not begun, or is no client', async () => {
    const offered = await client(ours, 10);
    expect(problem(offered, undefined, true, day(11))).toMatch(/^it expired at /);
    expect(problem(offered, undefined, true, day(-30))).toMatch(/^it is not valid before /);
    expect(problem(await leaf(ours))).toMatch(/^it may not be used for clientAuth/);
  });

  it('refuses what a namesake of our CA has signed, whatever is there', async () => {
    const offered = await client(namesake, 10);
    expect(problem(offered)).toMatch(/^the CA on this machine would not verify it, /);
    expect(problem(offered, await client(ours, 5))).toMatch(/^the CA on this machine would not verify it, /);
  });

  it('refuses what a CA that is not here has signed, though it has signed the former one, too', async () => {
    const offered = await client(other, 10);
    expect(problem(offered, await client(other, 5))).toMatch(/^its CA "CN=other-ca" is not on this machine, /);
    expect(problem(offered, await client(other, 5), false)).toMatch(/^the CA on this machine would not verify it, /);
    expect(problem(offered, await client(ours, 5))).toMatch(/^the CA on this machine would not verify it, /);
  });
});

describe('offerProblem(), what readers of the former pair need', () => {
  it('refuses the identity of another client', async () => {
    const named = (commonName: string, notAfter: number): Promise<Certificate> =>
      leaf(ours, { commonName, hostnames: [], usage: 'client', notAfter: day(notAfter) });
    expect(problem(await named('front-proxy-client', 10), await named('front-proxy-client', 5), false)).toBeUndefined();
    expect(problem(await named('admin', 10), await named('front-proxy-client', 5), false)).toBe(
      'it is for "admin", wanted one for "front-proxy-client"',
    );
  });

  it('refuses what lacks a name that the former one or the inventory has', async () => {
    const serving = (hostnames: readonly string[], notAfter: number): Promise<Certificate> =>
      leaf(ours, { commonName: 's', hostnames, usage: 'serving', notAfter: day(notAfter) });
    const ask = (offered: Certificate, present?: Certificate): string | undefined => {
      const row: ResolvedTarget = { ...target, usage: 'serving', commonName: 's', hostnames: ['node2'] };
      return offerProblem({ target: row, offered, present, authorities: [ours.certificate], now });
    };
    const present = await serving(['node2', '192.0.2.2'], 5);
    expect(ask(await serving(['node2', '192.0.2.2', 'more'], 10), present)).toBeUndefined();
    expect(ask(await serving(['node2'], 10), present)).toBe('it does not name 192.0.2.2');
    expect(ask(await serving(['node1'], 10))).toBe('it does not name node2');
  });
});

it('isEnding() is true in the last fifth of a life, and of nothing', async () => {
  expect(isEnding(undefined, now)).toBe(true);
  expect(isEnding((await client(ours, 4)).facts, now)).toBe(true);
  expect(isEnding((await client(ours, 6)).facts, now)).toBe(false);
});
