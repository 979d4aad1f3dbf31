// The CAs that a node says it holds: an annotation of its Node, written with the kubelet's own credential. NodeRestriction
// lets no other node write it, so it says nothing about another one; its own node may write anything into it. Pure.
import { secondsText } from '../clock.ts';
import { bounds } from '../bounds.ts';
import { isMapping } from '../yaml.ts';

export const bundlesAnnotation = 'kube-cert-recovery/node-ca';

/** A file of CAs on a node. */
export interface ReportedBundle {
  /** Short fingerprints (`shortPrint`), sorted. */
  readonly cas: readonly string[];
  /** Since when it has held these CAs. */
  readonly since: Date;
  /** Whether its readers have loaded the present file. */
  readonly loaded: boolean;
}

/** By name of the artefact. */
export type ReportedBundles = ReadonlyMap<string, ReportedBundle>;

/** A CA in the annotation: 64 bits of the SHA-256 of its DER tell a handful of CAs apart. */
export const shortPrint = (fingerprint: string): string => fingerprint.slice(0, 16);

/** Undefined where there is no annotation, or none that this program has written. */
export function parseBundles(text: string | undefined): ReportedBundles | undefined {
  const { characters, bundles: most } = bounds.nodeReport.most;
  if (text === undefined || text.length > characters) return undefined;
  try {
    const { bundles } = JSON.parse(text) as { readonly bundles?: object };
    const known = Object.entries(bundles ?? []).map(([name, one]) => [name, bundleOf(one)] as const);
    return isMapping(bundles) && known.length <= most ? new Map(known) : undefined;
  } catch {
    return undefined;
  }
}

const short = /^[0-9a-f]{16}$/;
/** No other text becomes a date, and no date is too long for a table. */
const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;

/** Throws for anything else. */
function bundleOf({ cas, since, loaded }: { readonly [Field in keyof ReportedBundle]?: unknown }): ReportedBundle {
  const date = new Date(typeof since === 'string' && time.test(since) ? since : Number.NaN);
  const isBundle = Array.isArray(cas) && cas.every((one) => typeof one === 'string' && short.test(one));
  if (!isBundle || Number.isNaN(date.getTime()) || typeof loaded !== 'boolean') throw new TypeError('no bundle');
  return { cas: cas as readonly string[], since: date, loaded };
}

export type HeldBundles = ReadonlyMap<string, Omit<ReportedBundle, 'since'>>;

/** The next value of the annotation; undefined where the present one says the same. */
export function nextBundlesText(present: string | undefined, held: HeldBundles, now: Date): string | undefined {
  const before = parseBundles(present);
  const next = [...held].map(([name, { cas, loaded }]): readonly [string, ReportedBundle] => {
    const sorted = [...new Set(cas)].toSorted();
    const known = before?.get(name);
    return [name, { cas: sorted, since: known?.cas.join() === sorted.join() ? known.since : now, loaded }];
  });
  const bundles = bundlesText(new Map(next));
  if (before !== undefined && bundlesText(before) === bundles) return undefined;
  return `{"at":"${secondsText(now)}","bundles":${bundles}}`;
}

function bundlesText(bundles: ReportedBundles): string {
  const sorted = [...bundles].toSorted(([one], [other]) => (one < other ? -1 : 1));
  const texts = sorted.map(([name, one]) => [name, { ...one, since: secondsText(one.since) }] as const);
  return JSON.stringify(Object.fromEntries(texts));
}
