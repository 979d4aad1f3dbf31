// A directory of bundles by name (CAs of image registries): each file is the union of what it holds and of what its inputs
// have for its name (union-rules.ts). A file whose name no input has any more stays, and the message says so. Pure.
import type { External } from '../inventory/model.ts';
import { locationText } from '../store/store.ts';
import { listed } from '../summary.ts';
import { bring, type Case, earliest, idleMs, keep, laterMs, lookAgainMs, renew, type Verdict } from './decision.ts';
import { offersTo, unitedWith } from './union-rules.ts';

export function judgeDirectory(at: Case<External>): Verdict {
  const { artefact, fact, facts, now } = at;
  const { inputs = [], location } = artefact;
  const here = (fact.state === 'present' ? fact.each : undefined) ?? new Map<string, never[]>();
  const names = new Set(offersTo(at).flatMap(({ each = [] }) => [...each].map(([name]) => name)));
  const all = [...names].map((name) => ({ name, ...unitedWith(here.get(name) ?? [], at, name) }));
  const changed = all.flatMap(({ name, fault, becomes }) => (fault ? [{ name, fault, becomes }] : []));
  const [first] = changed;
  if (first !== undefined) {
    const message = listed(changed.map(({ name, fault }) => `${name}: ${fault.message}`));
    const becomes = new Map(changed.map((one) => [one.name, one.becomes]));
    return { ...renew({ ...at, fault: { ...first.fault, message } }, [], {}, 'follow'), becomes };
  }
  const full = all.flatMap(({ name, full: why }) => (why === undefined ? [] : [`${name}: ${why}`]));
  if (full.length > 0) return bring('NotOurs', listed(full), laterMs(now, lookAgainMs));
  const recheckAt = earliest(laterMs(now, idleMs), ...all.map(({ removesAt }) => removesAt));
  // Sources that are away, or empty, take no name away.
  const isRead = names.size > 0 && inputs.every((name) => facts.get(name)?.state !== 'unavailable');
  const left = isRead ? [...here.keys()].filter((name) => !names.has(name)) : [];
  const state = `registries: ${names.size}`;
  if (left.length === 0) return keep('Healthy', state, recheckAt);
  const advice = `no source has ${listed(left)}: what ${locationText(location)} has of it stays until it is deleted by hand`;
  return keep('NotOffered', `${state}; ${advice}`, recheckAt);
}
