import { describe, expect, it } from 'vitest';
import type { Resolved, ResolvedArtefact } from '../../lib/inventory/model.ts';
import type { ArtefactFacts } from '../../lib/plan/facts.ts';
import { plan, replanOf } from '../../lib/plan/plan.ts';
import { renderStatus } from '../../lib/status/print.ts';
import { report, type ReportInput, type RowState, type StatusReport } from '../../lib/status/report.ts';
import { at, ca, chain, copy, healthy, leaf, present, start } from '../support/facts.ts';

const policy = { kind: 'OnlyWhenExpired', graceMs: 60_000, settleMs: 1000 } as const;
const clock = { builtAt: at(-100), synchronised: true };

interface Setting {
  readonly facts?: Map<string, ArtefactFacts>;
  readonly now?: Date;
  readonly resolved?: Resolved;
  readonly more?: Partial<ReportInput>;
}

function reportOf({ facts = healthy(), now = start, resolved = chain, more = {} }: Setting = {}): StatusReport {
  const input = { resolved, facts, policy, clock, now };
  return report({ ...input, plan: plan(input), replan: replanOf(input), ...more });
}

function withFacts(name: string, fact: ArtefactFacts): Map<string, ArtefactFacts> {
  return healthy().set(name, fact);
}

const stateOf = ({ rows }: StatusReport, name: string): RowState | undefined =>
  rows.find(({ artefact }) => artefact === name)?.state;

describe('report()', () => {
  it('has one row for each artefact, and is healthy when all are', () => {
    const status = reportOf();
    expect(status.rows.map(({ artefact }) => artefact)).toEqual(['signer', 'bundle', 'composed', 'copy', 'target']);
    expect(status.rows.every(({ state }) => state === 'OK')).toBe(true);
    expect(status).toMatchObject({ class: 'healthy', problems: [], inventory: 'test', at: start });
  });

  const states: Record<string, { readonly setting: Setting; readonly target: RowState; readonly is: string }> = {
    'past its end': { setting: { now: at(30) }, target: 'EXPIRED', is: 'recovering' },
    'in the last fifth of its life': { setting: { now: at(24) }, target: 'EXPIRING', is: 'healthy' },
    'not yet begun': {
      setting: { facts: withFacts('target', present(leaf('leaf', [1, 29], 'ca'))) },
      target: 'NOT YET VALID',
      is: 'recovering',
    },
    absent: { setting: { facts: withFacts('target', { state: 'absent' }) }, target: 'MISSING', is: 'recovering' },
    'a mismatched pair': {
      setting: {
        facts: withFacts('target', { state: 'broken', problem: 'mismatchedPair', version: '1', message: 'no match' }),
      },
      target: 'BROKEN',
      is: 'recovering',
    },
    'not readable now': {
      setting: { facts: withFacts('target', { state: 'unavailable', message: '503' }) },
      target: 'UNKNOWN',
      is: 'stuck',
    },
    'valid by its dates but signed by a stranger': {
      setting: { facts: withFacts('target', present(leaf('leaf', [-1, 29], 'stranger'))) },
      target: 'BROKEN',
      is: 'recovering',
    },
  };
  it.each(Object.keys(states))('tells of a target that is: %s', (name) => {
    const { setting, target, is } = states[name] ?? { setting: {}, target: 'OK', is: '' };
    const status = reportOf(setting);
    expect(stateOf(status, 'target')).toBe(target);
    expect(status.class).toBe(is);
  });

  it('gives the dates of the certificate that ends last for a bundle', () => {
    const facts = withFacts('bundle', present(ca('old', [-50, 5]), ca('ca', [-1, 59])));
    const row = reportOf({ facts }).rows.find(({ artefact }) => artefact === 'bundle');
    expect(row).toMatchObject({ notAfter: at(59), residualMs: at(59).getTime() - start.getTime() });
  });

  it('gives a copy of a target the dates and the state of its leaf', () => {
    const row: ResolvedArtefact = { kind: 'copy', name: 'used', location: copy.location, readers: [], of: 'target' };
    const used = present(leaf('leaf', [-1, 5], 'ca'), ca('ca', [-1, 59]));
    const setting = { resolved: { ...chain, artefacts: [...chain.artefacts, row] }, facts: withFacts('used', used) };
    const shown = (now: Date) => reportOf({ ...setting, now }).rows.find(({ artefact }) => artefact === 'used');
    expect(shown(at(4.9))).toMatchObject({ notAfter: at(5) });
    expect(shown(at(6))).toMatchObject({ notAfter: at(5), state: 'EXPIRED' });
  });

  it('says that a copy which is not promoted yet is well', () => {
    const row: ResolvedArtefact = { ...copy, name: 'used', of: 'signer', promoteAfter: 60_000 };
    const resolved = { ...chain, artefacts: [...chain.artefacts, row] };
    const facts = withFacts('used', present(ca('old', [-50, 30]))).set('signer', present(ca('ca', [0, 60])));
    facts.set('bundle', present(ca('old', [-50, 30]), ca('ca', [0, 60])));
    const status = reportOf({ resolved, facts });
    expect(status.class).toBe('recovering'); // the other bundles of this table follow
    expect(status.rows.find(({ artefact }) => artefact === 'used')).toMatchObject({
      state: 'OK',
      action: 'keep',
      reason: 'NotPromotedYet',
    });
  });

  it('shows a future in which everything ends and comes back', () => {
    const status = reportOf({ now: at(3650) });
    expect(status.class).toBe('recovering');
    expect(status.rows.every(({ state }) => state === 'EXPIRED')).toBe(true);
  });

  it('is stuck when the certificate that recovery stands on has expired', () => {
    const artefacts = chain.artefacts.map((one): ResolvedArtefact =>
      one.kind === 'target' ? { ...one, hostnames: ['localhost-recovery'] } : one,
    );
    const facts = withFacts('target', present(leaf('leaf', [-1, 29], 'ca', { hostnames: ['localhost-recovery'] })));
    const resolved = { ...chain, artefacts };
    expect(reportOf({ resolved, facts }).class).toBe('healthy');
    const status = reportOf({ resolved, facts, now: at(40) });
    expect(status.class).toBe('stuck');
    expect(status.problems[0]).toContain('regen cannot verify the API server as "localhost-recovery"');
  });

  it('is stuck when a key pair is gone, and not when an optional object of others is', () => {
    const keyPair = {
      kind: 'keyPair',
      name: 'sa',
      location: { kind: 'secret', namespace: 'n', name: 'sa' },
      readers: [],
      privateKey: 'a',
      publicKey: 'b',
    } satisfies ResolvedArtefact;
    const option = { ...keyPair, kind: 'opaque', name: 'option', published: 'optional' } as const;
    const missing = { state: 'absent' } as const;
    const lost = reportOf({ resolved: { ...chain, artefacts: [keyPair] }, facts: withFacts('sa', missing) });
    expect(lost).toMatchObject({ class: 'stuck', rows: [{ state: 'MISSING', isForeign: true }] });
    const gone = reportOf({ resolved: { ...chain, artefacts: [option] }, facts: withFacts('option', missing) });
    expect(gone).toMatchObject({ class: 'healthy', problems: [] });
  });

  it('says once that the API cannot be read, and why, when none of its objects could be', () => {
    const facts = new Map(
      chain.artefacts.map(({ name }): [string, ArtefactFacts] => [
        name,
        { state: 'unavailable', message: `Cannot get Secret "n/${name}": connection refused, server https://api` },
      ]),
    );
    const status = reportOf({ facts });
    expect(status.problems).toEqual(['the API cannot be read: connection refused, server https://api']);
    expect(status.class).toBe('stuck');
    expect(status.rows.every(({ state }) => state === 'UNKNOWN')).toBe(true);
    const shown = renderStatus(status, { output: 'table' });
    expect(shown).toContain('What is in the API is not known:\n  the API cannot be read: connection refused');
    expect(shown).not.toContain('automatically');
  });

  it('names each object when only some could not be read', () => {
    const message = 'Cannot get Secret "n/target": the API server answered 403 Forbidden';
    const status = reportOf({ facts: withFacts('target', { state: 'unavailable', message }) });
    expect(status.problems).toEqual([`target: it could not be read: ${message}`]);
  });

  it('is recovering while files are not what the API has, and shows disk and use', () => {
    const use = { state: 'proven', message: 'served' } as const;
    const more = { onDisk: new Map([['target', 'different' as const]]), inUse: new Map([['target', use]]) };
    const status = reportOf({ more });
    expect(status.class).toBe('recovering');
    expect(status.rows.at(-1)).toMatchObject({ onDisk: 'different', inUse: use });
  });
});
