// The report of `status --fleet`, as a table, as JSON and YAML. Pure.
import { visible } from '../visible.ts';
import { program } from '../program.ts';
import { listed } from '../summary.ts';
import { table } from '../table.ts';
import { apiVersion } from '../well-known.ts';
import { expiresText } from './expiry-text.ts';
import type { FleetNode, WantedBundles, WantedCa } from '../plan/judge-fleet.ts';
import { structured, type StatusFormat } from './structured.ts';

export interface FleetReport {
  readonly at: Date;
  readonly wanted: WantedBundles;
  readonly nodes: readonly FleetNode[];
}

export const laggingNodes = ({ nodes }: FleetReport): number => nodes.filter(({ lags }) => lags).length;

export function renderFleet(report: FleetReport, format: StatusFormat): string {
  const { at, wanted, nodes } = report;
  if (format === 'table') return tables(report);
  const bundles = [...wanted].map(([name, { cas }]) => ({ name, cas }));
  const lagging = laggingNodes(report);
  return structured({ apiVersion, kind: 'FleetInfo', at, lagging, bundles, nodes, program }, format, 2);
}

interface Row {
  readonly node: string;
  readonly state: string;
  readonly bundle: string;
  readonly since?: Date | undefined;
  readonly missing: readonly WantedCa[];
}

/** One row where all its bundles are alike, else one for each that is not current. */
function rowsOf({ name: node, state, bundles = [] }: FleetNode): readonly Row[] {
  const open = bundles.filter(({ missing, loaded }) => missing.length > 0 || !loaded);
  const newest = bundles.map(({ since }) => since?.getTime() ?? 0).reduce((one, other) => Math.max(one, other), 0);
  const names = bundles.map(({ name }) => name).join(',') || '-';
  if (open.length === 0)
    return [{ node, state, bundle: names, since: newest > 0 ? new Date(newest) : undefined, missing: [] }];
  return open.map(({ name: bundle, missing, ...one }) => {
    const own = missing.length > 0 ? 'behind' : 'not loaded';
    return { ...one, node, bundle, missing, state: state === 'off' ? state : own };
  });
}

/** The name is untrusted: every user with write access to the objects chooses it. */
const caText = ({ name, print }: WantedCa): string => `${visible(name)} (${print})`;

const states = ['current', 'behind', 'not loaded', 'no report', 'off'] as const;

function tables(report: FleetReport): string {
  const { nodes, wanted } = report;
  const counts = states.map((state) => [nodes.filter((one) => one.state === state).length, state] as const);
  const cas = new Set([...wanted.values()].flatMap((one) => one.cas.map(({ print }) => print))).size;
  const lagging = laggingNodes(report);
  const known = lagging === 0 ? 'Every node trusts' : `${lagging} of ${nodes.length} nodes are not known to trust`;
  const text = table(nodes.flatMap(rowsOf), [
    ['NODE', ({ node }) => visible(node)],
    ['STATE', ({ state }) => state],
    ['BUNDLE', ({ bundle }) => bundle],
    ['SINCE', ({ since }) => (since === undefined ? '-' : expiresText(since))],
    ['MISSING', ({ missing }) => listed(missing.map(caText))],
  ]);
  const summary = counts.filter(([count]) => count > 0).map((one) => one.join(' '));
  return `${text}\nNodes: ${summary.join(', ')}. ${known} all ${cas} CAs.\n`;
}
