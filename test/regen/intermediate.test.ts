// Intermediate signers, carried out with real keys on a real disk: what the plan promises can be made, and what is sent
// along with a leaf verifies for those who trust no more than the root.
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { topologicalOrder } from '../../lib/inventory/order.ts';
import type { CaBundle, Resolved, ResolvedArtefact } from '../../lib/inventory/model.ts';
import { type Certificate, parseCertificates } from '../../lib/pki/certificate.ts';
import { verifyChain } from '../../lib/pki/verify.ts';
import { runRegen } from '../../lib/regen/run.ts';
import { expire } from '../support/cluster/expire.ts';
import { DiskWorld, movedClock } from './disk-world.ts';

const day = 24 * 3_600_000;

let world: DiskWorld;
beforeEach(async () => {
  world = await DiskWorld.create();
});
afterEach(() => world[Symbol.asyncDispose]());

async function certificates(name: string): Promise<Certificate[]> {
  const { entries = {} } = (await world.read(name)) ?? {};
  return parseCertificates(entries['tls.crt'] ?? entries['ca-bundle.crt'] ?? new Uint8Array(), name);
}

/** signer, intermediate, one bundle of both, a leaf of the intermediate. */
function oneBundle(): Resolved {
  const ca: CaBundle = { ...(world.row('ca') as CaBundle), signers: ['signer', 'intermediate'] };
  const rows = ['signer', 'intermediate', 'client'].map((name) => world.row(name));
  const { ordered } = topologicalOrder<ResolvedArtefact>([...rows, ca]);
  return { name: 'one-bundle', artefacts: ordered };
}

async function clientProblem(at: Date): Promise<string | undefined> {
  const [leaf, ...intermediates] = await certificates('client');
  if (leaf === undefined) return 'there is none';
  const answer = verifyChain({ leaf, intermediates, roots: await certificates('ca'), at, usage: 'clientAuth' });
  return answer.ok ? undefined : answer.reason;
}

const file = (name: string): string => join(world.directory, 'pki', name);

/** A client whose leaf is to be reissued, and nothing else of its line. */
const loseClient = (): Promise<void> => rm(file('client.crt'));

const server = (): Resolved => ({
  ...world.resolved,
  artefacts: world.resolved.artefacts.map((row) =>
    row.name === 'client' && row.kind === 'target' ? { ...row, usage: 'serving', hostnames: ['localhost'] } : row,
  ),
});

describe('runRegen() with an intermediate and its issuer in one bundle', () => {
  it('makes everything when nothing is there', async () => {
    const resolved = oneBundle();
    const signal = AbortSignal.timeout(60_000);
    expect(await runRegen(world.options({ resolved, signal }))).toMatchObject({ converged: true, writes: 4 });
    expect(await clientProblem(systemClock.now())).toBeUndefined();
    expect(await certificates('ca')).toHaveLength(2);
  });

  it('renews everything when everything has expired, and then rests', async () => {
    const resolved = oneBundle();
    await runRegen(world.options({ resolved, signal: AbortSignal.timeout(60_000) }));
    await expire({ resolved, store: world.store, now: systemClock.now() });
    const signal = AbortSignal.timeout(60_000);
    expect(await runRegen(world.options({ resolved, signal }))).toMatchObject({ converged: true, writes: 4 });
    expect(await clientProblem(systemClock.now())).toBeUndefined();
    expect(await runRegen(world.options({ resolved }))).toMatchObject({ converged: true, writes: 0 });
  });
});

describe('runRegen() sending what is above an intermediate', () => {
  it('is the root that has signed it, also when the root is renewed in the same run', async () => {
    const resolved = server();
    await runRegen(world.options({ resolved }));
    const [old] = await certificates('signer');
    await loseClient();
    // A week on, the signer is made due for refresh and the intermediate is not.
    const policy = { kind: 'BeforeExpiry', graceMs: 0, settleMs: 0 } as const;
    const kept = {
      ...resolved,
      artefacts: resolved.artefacts.map((row) =>
        row.name === 'signer' && row.kind === 'signer' ? { ...row, refresh: day } : row,
      ),
    };
    await runRegen(world.options({ resolved: kept, policy, clock: movedClock(7 * day) }));
    const [renewed] = await certificates('signer');
    expect(renewed?.facts.fingerprint).not.toBe(old?.facts.fingerprint);
    const sent = (await certificates('client')).slice(1).map(({ facts }) => facts.fingerprint);
    const [intermediate] = await certificates('intermediate');
    expect(sent).toEqual([intermediate?.facts.fingerprint, old?.facts.fingerprint]);
  });

  it('is the root also when its key is elsewhere', async () => {
    const resolved = server();
    await runRegen(world.options({ resolved }));
    await loseClient();
    await rm(file('signer.key'));
    await runRegen(world.options({ resolved, signal: AbortSignal.timeout(60_000) }));
    const line = (await certificates('client')).slice(1).map(({ facts }) => facts.fingerprint);
    const above = [...(await certificates('intermediate')), ...(await certificates('signer'))];
    expect(line).toEqual(above.map(({ facts }) => facts.fingerprint));
  });
});
