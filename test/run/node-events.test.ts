import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { RunState } from '../../lib/host/state.ts';
import { endingSoon } from '../../lib/run/node-events.ts';
import { reportOfBoth } from '../../lib/run/regen-run.ts';
import { reportRenewals } from '../../lib/run/unreported-renewals.ts';

const one = (artefact: string, writes = 0, notAfter?: string) => {
  const decided = { action: 'keep', reason: 'Healthy', message: '' } as const;
  return { artefact, ...decided, writes, notAfter: notAfter === undefined ? undefined : new Date(notAfter) };
};

it('endingSoon() names what ends within the time, the first one first, and what has ended', () => {
  const artefacts = [
    one('apiserver', 0, '2026-01-31T00:00:00Z'),
    one('bundle'),
    one('etcd-server', 0, '2025-12-01T00:00:00Z'),
    one('far', 0, '2026-02-01T00:00:00Z'),
    { ...one('renewed-before', 0, '2026-01-20T00:00:00Z'), renewsAt: new Date('2026-01-10T00:00:00Z') },
    {
      ...one('doubtful', 0, '2026-01-30T00:00:00Z'),
      reason: 'ClockUnconfirmed',
      renewsAt: new Date('2026-01-29T00:00:00Z'),
    } as const,
  ];
  expect(endingSoon(artefacts, 31 * 86_400_000, new Date('2026-01-01T00:00:00Z'))).toEqual([
    'etcd-server (2025-12-01T00:00Z)',
    'doubtful (2026-01-30T00:00Z)',
    'apiserver (2026-01-31T00:00Z)',
  ]);
});

describe('reportRenewals()', () => {
  let directory: string;
  let note: { state: RunState; name: string };
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'renewals-'));
    note = { state: new RunState(directory), name: 'renewals' };
  });
  afterEach(() => rm(directory, { recursive: true, force: true }));

  const told: (readonly string[])[] = [];
  const run = async (names: readonly string[], succeeds?: boolean): Promise<readonly (readonly string[])[]> => {
    told.length = 0;
    const report = {
      converged: true,
      writes: names.length,
      artefacts: [one('kept'), ...names.map((name) => one(name, 1))],
    };
    const tell = (all: readonly string[]): Promise<boolean> => {
      told.push(all);
      return Promise.resolve(succeeds === true);
    };
    await reportRenewals(report, note, succeeds === undefined ? undefined : tell);
    return told;
  };

  it('tells what was renewed, once', async () => {
    expect(await run([], true)).toEqual([]);
    expect(await run(['a', 'b'], true)).toEqual([['a', 'b']]);
    expect(await run([], true)).toEqual([]);
  });

  it('tells it again until it succeeds, with what earlier runs could not tell', async () => {
    expect(await run(['a'])).toEqual([]);
    expect(await run(['b'], false)).toEqual([['a', 'b']]);
    expect(await run(['a'], false)).toEqual([['a', 'b']]);
    expect(await run([], true)).toEqual([['a', 'b']]);
    expect(await run([], true)).toEqual([]);
  });

  it('tells what the first of two passes has renewed, too', async () => {
    const report = (...artefacts: ReturnType<typeof one>[]) => ({ converged: true, writes: 1, artefacts });
    const both = reportOfBoth(report(one('a', 1), one('b')), report(one('a'), one('b', 1)));
    expect(both).toMatchObject({ writes: 2, artefacts: [one('a', 1), one('b', 1)] });
    await reportRenewals(both, note, (names) => Promise.resolve(told.push(names) > 0));
    expect(told.at(-1)).toEqual(['a', 'b']);
  });
});
