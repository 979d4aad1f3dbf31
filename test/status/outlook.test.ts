// The outlook that `status` gives for something that ends is what the plan decides at that time; and what is renewed ahead of
// time is no fault of today.
import { describe, expect, it, test } from 'vitest';
import { exitOfNode, exitOfStatus } from '../../cmd/exit-codes.ts';
import { plan, replanOf } from '../../lib/plan/plan.ts';
import type { ArtefactFacts } from '../../lib/plan/facts.ts';
import type { PlanInput, RenewAhead, RenewalPolicy } from '../../lib/plan/decision.ts';
import { parseWindow } from '../../lib/plan/window.ts';
import { renderNode } from '../../lib/status/print.ts';
import { report } from '../../lib/status/report.ts';
import { nodeRows, type NodeStatus } from '../../lib/status/node-report.ts';
import { at, beforeExpiry, ca, chain, day, goodClock, leaf as madeLeaf, present, start } from '../support/facts.ts';
import { authority, factsOf, leaf, machine, now, tell, type Told } from './node.ts';

type Changes = Readonly<Record<string, ArtefactFacts | null>>;
const ahead: RenewAhead = { beforeMs: 30 * day, signerBeforeMs: 365 * day, jitter: 0, warnOnly: false };
const window = parseWindow('Sat,Sun/02:00-05:00 UTC');
/** Made years ago. */
const old = (name: string, days: number) => ({ ...authority(name, days), notBefore: at(-3000) });
const ending = (days: number): ArtefactFacts => present(old('ca', days));
/** Its key is elsewhere. */
const closed = (name: string, days: number): ArtefactFacts => ({
  state: 'broken',
  problem: 'keyAbsent',
  version: '1',
  message: 'it has no private key',
  certificates: [old(name, days)],
});

/** The row of the table that says what will be done. */
function saidOf(status: NodeStatus, name: string): string {
  const table = renderNode(status, { output: 'table' }).split('WHAT WILL BE DONE')[1] ?? '';
  return table.split('\n').find((line) => line.startsWith(`${name} `)) ?? '';
}

describe('a CA that ends, and whose key is here', () => {
  it.each<[string, Told]>([
    ['nobody asked for renewal ahead of time', {}],
    ['what is due is only reported', { ahead: { ...ahead, warnOnly: true } }],
  ])('is renewed with its own key when it expires, where %s', (_, told) => {
    expect(saidOf(tell({ ca: ending(200) }, told), 'ca')).toMatch(
      /^ca +EXPIRING +renewed with its own key when it expires /,
    );
  });

  it.each<[string, Changes, Told]>([
    ['is never renewed by itself', { ca: ending(200) }, { policy: { caRenewal: 'Report' } }],
    ['was signed by another CA', { ca: present({ ...old('ca', 200), signedBy: ['above'] }) }, {}],
    ['has its key elsewhere', { ca: closed('ca', 200) }, {}],
  ])('is to be brought by hand where it %s', (_, changes, told) => {
    expect(saidOf(tell(changes, told), 'ca')).toMatch(/^ca +EXPIRING +nothing: bring a new one by hand before /);
  });

  it('is followed by one that lies here already', () => {
    const newer = authority('ca2', 3650);
    const found: ArtefactFacts = { ...present(old('ca', 200)), successor: { newer, from: ['x'], namedBy: [] } };
    expect(saidOf(tell({ ca: found }), 'ca')).toMatch(/^ca +EXPIRING +replaced by its successor when it expires /);
  });
});

describe('what waits for a clock that nobody confirms', () => {
  it('is said to be renewed when it waits no longer', () => {
    const status = tell({ apiserver: present(leaf('api', 'ca', 20)) }, { ahead, synchronised: false });
    expect(saidOf(status, 'apiserver')).toMatch(/^apiserver +EXPIRING +reissued Jun 18, 2026 00:00 UTC /);
  });
});

describe('each state of a machine: what is said of an end is what the plan of that end decides', () => {
  const states: Readonly<Record<string, Changes>> = {
    healthy: {},
    'a CA ends': { ca: ending(60) },
    'all CAs end': {
      ca: ending(60),
      'etcd-ca': present(old('etcd-ca', 30)),
      'front-proxy-ca': closed('front-proxy-ca', 20),
    },
    'a CA without its key': { ca: closed('ca', 100), 'etcd-ca': closed('etcd-ca', 100) },
    'a CA below another': { ca: present({ ...old('ca', 90), signedBy: ['above'] }) },
    'leaves end': Object.fromEntries(
      machine()
        .artefacts.filter(({ kind }) => kind === 'target')
        .map((one, index) => {
          const fact = present(leaf(one.name, 'issuer' in one ? one.issuer : undefined, 5 + index));
          return [one.name, one.location.kind === 'kubeconfig' ? { ...fact, authorities: ['ca'] } : fact];
        }),
    ),
    'a CA has expired': { ca: closed('ca', -1), 'etcd-ca': present(old('etcd-ca', -1)) },
    'a CA is absent': { 'etcd-ca': null, 'etcd-peer': present(leaf('p', 'etcd-ca', 20)) },
    'a kubeconfig of others': {
      'admin.conf': { state: 'broken', problem: 'foreign', version: '1', message: 'its user has a plugin' },
      'scheduler.conf': { state: 'unavailable', message: 'EACCES' },
    },
  };
  const policies: Readonly<Record<string, Partial<RenewalPolicy>>> = {
    'by default': {},
    'CAs reported': { caRenewal: 'Report' },
    ahead: { ahead },
    'ahead in a window': { ahead: { ...ahead, window } },
    'only reported': { ahead: { ...ahead, warnOnly: true } },
    'ahead, CAs reported': { ahead, caRenewal: 'Report' },
  };
  const cases = Object.keys(states).flatMap((state) =>
    Object.keys(policies).flatMap((policy) => [true, false].map((isArmed) => [state, policy, isArmed] as const)),
  );

  test.each(cases)('%s, %s, armed: %s', (state, name, isArmed) => {
    const policy = policies[name] ?? {};
    const status = tell(states[state], { policy, isArmed });
    const input: Omit<PlanInput, 'now'> = {
      resolved: machine(),
      facts: factsOf(states[state]),
      policy: { kind: 'OnlyWhenExpired', graceMs: 60_000, settleMs: 1000, ...policy },
      clock: { builtAt: at(-100), synchronised: true },
    };
    const announced = nodeRows(status).filter((row) => row.state === 'EXPIRING' && row.action === 'keep');
    for (const row of announced) {
      const when = row.renewsAt ?? row.notAfter ?? now;
      const then = plan({ ...input, now: when }).decisions.find(({ artefact }) => artefact === row.artefact);
      const said = saidOf(status, row.artefact);
      expect(said.includes('bring a new one by hand before'), said).toBe(then?.byHand === true);
      expect(/ (when it expires|UTC) /.test(said) && !said.includes('nothing'), said).toBe(then?.action === 'renew');
      expect(said.includes('renewed with its own key'), said).toBe(then?.origin === 'ownKey');
      if (row.renewsAt === undefined) continue;
      const before = plan({ ...input, now: new Date(when.getTime() - 1) });
      expect(before.decisions.find(({ artefact }) => artefact === row.artefact)?.action, said).toBe('keep');
    }
  });
});

describe('a renewal ahead that is due on a healthy machine', () => {
  const due = { apiserver: present(leaf('api', 'ca', 20)) };
  const notOk = (status: NodeStatus): string[] =>
    nodeRows(status).flatMap(({ artefact, state }) => (state === 'OK' ? [] : [`${artefact} ${state}`]));

  it('of a leaf: exit 4, and nothing is wrong', () => {
    const status = tell(due, { ahead });
    expect(notOk(status)).toEqual(['apiserver EXPIRING']);
    expect([status.class, exitOfNode(status)]).toEqual(['healthy', 4]);
    expect(saidOf(status, 'apiserver')).toMatch(/^apiserver +EXPIRING +reissued +due for refresh/);
    const text = renderNode(status, { output: 'table' });
    expect(text).not.toContain('Something is wrong');
    expect(text).toContain('Renewed before expiry by the next run of the timer: apiserver\n');
  });

  it('of a CA: its kubeconfigs, which follow it, are not broken', () => {
    const status = tell({ ca: ending(200) }, { ahead });
    expect(notOk(status)).toEqual(['ca EXPIRING']);
    expect([status.class, exitOfNode(status)]).toEqual(['healthy', 4]);
    expect(saidOf(status, 'ca')).toMatch(/^ca +EXPIRING +renewed with its own key +due for refresh/);
    expect(saidOf(status, 'scheduler.conf')).toMatch(/^scheduler\.conf +OK +given the new CA +/);
  });

  it('hides nothing that is wrong besides', () => {
    const broken = { ...present(leaf('scheduler.conf', 'ca')), authorities: ['another'] };
    const status = tell({ ...due, 'scheduler.conf': broken }, { ahead });
    expect(notOk(status)).toEqual(['apiserver EXPIRING', 'scheduler.conf BROKEN']);
    expect([status.class, exitOfNode(status)]).toEqual(['recovering', 3]);
  });

  it('of objects in the API that only we maintain: exit 4', () => {
    const authorityThere = present(ca('ca', [-20, 40]));
    const facts = new Map<string, ArtefactFacts>([
      ...['signer', 'bundle', 'composed', 'copy'].map((name) => [name, authorityThere] as const),
      ['target', present(madeLeaf('leaf', [-16, 14], 'ca'))],
    ]);
    const input = { resolved: chain, facts, policy: beforeExpiry, clock: goodClock, now: start };
    const status = report({ ...input, plan: plan(input), replan: replanOf(input) });
    expect(status.rows.find(({ artefact }) => artefact === 'target')?.action).toBe('renew');
    expect(status.rows.flatMap(({ artefact, state }) => (state === 'OK' ? [] : [`${artefact} ${state}`]))).toEqual([
      'target EXPIRING',
    ]);
    expect([status.class, exitOfStatus(status)]).toEqual(['healthy', 4]);
  });
});
