// Ten years of three kubeadm machines that renew before expiry, in seconds: jitter, windows, clocks apart by ten minutes, a
// machine that is off for two years, a CA that is renewed by hand late and one that is not renewed at all. No leaf expires
// on a machine that is on, no two machines restart within a minute, and each certificate is renewed about as often as it
// must be.
import { expect, test } from 'vitest';
import { jitterOf } from '../../lib/config/ahead-settings.ts';
import type { Resolved, ResolvedTarget } from '../../lib/inventory/model.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import type { RenewalPolicy } from '../../lib/plan/decision.ts';
import { certificateOf } from '../../lib/plan/facts.ts';
import { nextWindow, parseWindow } from '../../lib/plan/window.ts';
import { at, day, goodClock, onlyWhenExpired, present, start } from '../support/facts.ts';
import { SimulatedCluster, type Write } from '../support/stories/simulated-cluster.ts';

const minute = 60_000;
const years = 365 * day;
const end = at(3650);
const later = (date: Date, ms: number): Date => new Date(date.getTime() + ms);

/** Nobody renews it. */
const lost = { name: 'front-proxy-ca', endsAt: at(2900) };
/** Renewed by hand, with the same key, late: leaves end weeks before it, and a renewal gains less than a tenth. */
const late = { name: 'etcd-ca', endsAt: at(2060), renewedAt: at(2050) };
const offFrom = at(1000);
const offUntil = at(1730);

const preset = (): Resolved => resolve(loadPreset('kubeadm'), { parameters: { nodeName: ['n'] } });

class Machine {
  readonly cluster = new SimulatedCluster(preset());
  readonly name: string;
  readonly policy: RenewalPolicy;
  readonly skewMs: number;
  /** Moments, by the right time, in which certificates were renewed while the machine ran. */
  readonly restarts: Date[] = [];
  readonly expired: string[] = [];
  #isCaRenewed = false;

  constructor(name: string, skewMs: number, window: string | undefined) {
    this.name = name;
    this.skewMs = skewMs;
    const parsed = window === undefined ? undefined : parseWindow(window);
    const ahead = { beforeMs: 30 * day, signerBeforeMs: 365 * day, jitter: jitterOf(name), warnOnly: false };
    // Of a CA whose key is here an end is none.
    this.policy = { ...onlyWhenExpired, caRenewal: 'Report', ahead: { ...ahead, ...(parsed && { window: parsed }) } };
    for (const { kind, name: entry } of this.cluster.resolved.artefacts)
      if (kind === 'signer') this.#setAuthority(entry, later(start, 20 * years));
    for (const { name: entry, endsAt } of [lost, late]) this.#setAuthority(entry, endsAt);
    for (const row of this.leaves) this.cluster.make(row.name, start);
  }

  /** Without one that only other clusters have. */
  get leaves(): readonly ResolvedTarget[] {
    return this.cluster.resolved.artefacts.flatMap((row) =>
      row.kind === 'target' && row.name !== 'kubelet-server-current' ? [row] : [],
    );
  }

  writesOf(entry: string): readonly Write[] {
    return this.cluster.writes.filter(({ artefact }) => artefact === entry);
  }

  /** With the same key: what it has signed stays. */
  #setAuthority(entry: string, notAfter: Date): void {
    const before = certificateOf(this.cluster.facts.get(entry));
    this.cluster.make(entry, start);
    const made = certificateOf(this.cluster.facts.get(entry));
    if (made === undefined) throw new Error(`no ${entry}`);
    const fingerprint = before?.fingerprint ?? made.fingerprint;
    this.cluster.facts.set(entry, present({ ...made, fingerprint, signedBy: [fingerprint], notAfter }));
  }

  isOff(now: Date): boolean {
    return this.name === 'node-3' && offFrom <= now && now < offUntil;
  }

  /** One run of the timer. Returns when the next one matters, by the right time. */
  run(now: Date): Date {
    if (this.isOff(now)) return offUntil;
    if (!this.#isCaRenewed && now >= late.renewedAt) {
      this.#isCaRenewed = true;
      this.#setAuthority(late.name, later(start, 20 * years));
    }
    const seen = later(now, this.skewMs);
    // The kubelet renews its own while it runs.
    const kubelet = certificateOf(this.cluster.facts.get('kubelet.conf'));
    if (kubelet !== undefined && now < kubelet.notAfter && later(now, 80 * day) > kubelet.notAfter)
      this.cluster.make('kubelet.conf', now);
    const boots = this.name === 'node-3' && now.getTime() === offUntil.getTime();
    if (!boots) this.#lookForExpired(now);
    const written = this.cluster.act(this.name, this.policy, goodClock, seen);
    if (written > 0 && !boots) this.restarts.push(now);
    // What is only reported is looked at all the time; a test has none for that.
    const { decisions } = this.cluster.plan(this.policy, goodClock, seen);
    const changes = decisions.filter(
      ({ artefact, reason }) =>
        (reason === 'Healthy' || reason === 'Postponed') && this.cluster.facts.get(artefact)?.state === 'present',
    );
    const next = Math.min(...changes.map(({ recheckAt }) => recheckAt.getTime())) - this.skewMs;
    const waits = decisions.some(({ artefact, reason }) => reason === 'SignerEnding' && !artefact.endsWith('ca'));
    const longest = waits ? day / 2 : 3 * day;
    return new Date(Math.max(now.getTime() + minute, Math.min(next, now.getTime() + longest)));
  }

  #lookForExpired(now: Date): void {
    for (const { name, issuer = '' } of this.leaves) {
      const leaf = certificateOf(this.cluster.facts.get(name));
      const authority = certificateOf(this.cluster.facts.get(issuer));
      const isHopeless = authority !== undefined && authority.notAfter <= now;
      if (leaf !== undefined && leaf.notAfter <= now && !isHopeless)
        this.expired.push(`${this.name} ${name} at ${now.toISOString()}`);
    }
  }
}

/** The fewest renewals that a machine can do with which always renews 30 days before the end, and is never off. */
function ideal({ issuer, validity }: ResolvedTarget): number {
  let [now, count] = [start, 0];
  const ends = (date: Date): Date => {
    const own = later(date, validity).getTime();
    if (issuer === lost.name) return new Date(Math.min(own, lost.endsAt.getTime()));
    return new Date(issuer === late.name && date < late.renewedAt ? Math.min(own, late.endsAt.getTime()) : own);
  };
  for (let notAfter = ends(now); ; notAfter = ends(now)) {
    now = later(notAfter, -30 * day);
    if (issuer === late.name && notAfter.getTime() === late.endsAt.getTime()) now = late.renewedAt;
    if (now >= end || (issuer === lost.name && notAfter >= lost.endsAt)) return count;
    count += 1;
  }
}

test.each([undefined, 'Sat,Sun/02:00-05:00 Europe/Berlin', '23:00-00:30 America/Sao_Paulo'])('window: %s', (window) => {
  const machines = [0, 0, 10].map((minutes, index) => new Machine(`node-${index + 1}`, minutes * minute, window));
  const due = new Map(machines.map((machine) => [machine, start]));
  for (let now = start; now < end;) {
    for (const [machine, next] of due) {
      if (next > now) continue;
      due.set(machine, machine.run(now));
    }
    now = new Date(Math.min(...[...due.values()].map((next) => next.getTime())));
  }

  expect(machines.flatMap(({ expired }) => expired)).toEqual([]);

  const restarts = machines.flatMap((machine) => machine.restarts.map((time) => ({ time, of: machine.name })));
  const inOrder = restarts.toSorted((a, b) => a.time.getTime() - b.time.getTime());
  const near = inOrder.filter(({ time, of }, index) => {
    const next = inOrder[index + 1];
    return next !== undefined && next.of !== of && next.time.getTime() - time.getTime() < minute;
  });
  expect(near).toEqual([]);

  for (const machine of machines) {
    const wasOff = machine.name === 'node-3';
    for (const row of machine.leaves.filter(({ rotatedBy }) => rotatedBy === undefined)) {
      const renewals = machine.writesOf(row.name).length;
      const missed = wasOff ? Math.round((offUntil.getTime() - offFrom.getTime()) / (335 * day)) : 0;
      expect(Math.abs(renewals - ideal(row) + missed), `${machine.name} ${row.name}: ${renewals}`).toBeLessThanOrEqual(
        1,
      );
    }
    // All of one CA are renewed together.
    const ofCa = machine.leaves.filter(({ issuer, rotatedBy }) => issuer === 'ca' && rotatedBy === undefined);
    const moments = new Set(ofCa.flatMap(({ name }) => machine.writesOf(name).map((write) => write.at.getTime())));
    expect(moments.size, machine.name).toBe(machine.writesOf('apiserver').length);
    const parsed = window === undefined ? undefined : parseWindow(window);
    const outside = machine.writesOf('apiserver').filter(({ at: seen, reason }) => {
      return reason === 'RefreshDue' && parsed !== undefined && nextWindow(parsed, seen).from > seen;
    });
    expect(outside).toEqual([]);
    // Nothing is tried of a CA that is no more.
    expect(machine.writesOf('front-proxy-client').filter((write) => write.at > lost.endsAt)).toEqual([]);
  }
});
