// Who trusts whom, as a graph for Mermaid: an arrow from each credential to the trust that verifies it. The arrow that
// breaks first is thick, what is broken is dotted and red. Pure.
import type { RelationRow } from '../trust/judge-relations.ts';
import type { Side } from '../trust/trust-facts.ts';

/** Keys of one party, which are no trust between two. */
const ofOneParty: ReadonlySet<RelationRow['id']> = new Set(['R14', 'R15']);

/** The row that breaks first of those that hold. */
export const firstToBreak = (rows: readonly RelationRow[]): (RelationRow & { readonly breaksFrom: Date }) | undefined =>
  rows
    .filter((row): row is RelationRow & { readonly breaksFrom: Date } => row.breaksFrom !== undefined)
    .toSorted((one, other) => one.breaksFrom.getTime() - other.breaksFrom.getTime())[0];

/** Rows that are drawn, and which of them breaks first. */
export function arrowsOf(rows: readonly RelationRow[]): readonly (RelationRow & { readonly isFirst: boolean })[] {
  const first = firstToBreak(rows);
  return rows
    .filter(({ id, verdict }) => verdict !== 'notApplicable' && (verdict !== 'holds' || !ofOneParty.has(id)))
    .map((row) => ({ ...row, isFirst: row === first }));
}

export function trustGraph(rows: readonly RelationRow[]): string {
  const arrows = arrowsOf(rows);
  const names = new Map<string, string>();
  const idOf = ({ name }: Side): string => {
    const id = names.get(name) ?? `n${names.size + 1}`;
    names.set(name, id);
    return id;
  };
  const edges = arrows.map((row) => {
    const arrow = row.verdict === 'holds' ? (row.isFirst ? '==>' : '-->') : '-.->';
    return `  ${idOf(row.credential)} ${arrow}|"${labelOf(row)}"| ${idOf(row.trust)}`;
  });
  const styles = arrows.flatMap(({ verdict, isFirst }, at) => {
    if (verdict === 'fails') return [`  linkStyle ${at} stroke:red`];
    return isFirst ? [`  linkStyle ${at} stroke:orange`] : [];
  });
  const groups = [...Map.groupBy(names, ([name]) => ownerOf(name))].map(
    ([owner, nodes], at) =>
      `  subgraph g${at + 1}["${escaped(owner)}"]\n` +
      nodes.map(([name, id]) => `    ${id}["${escaped(partIn(name))}"]\n`).join('') +
      '  end',
  );
  return ['flowchart LR', ...groups, ...edges, ...styles, ''].join('\n');
}

export function labelOf({ id, verdict, breaksFrom }: RelationRow): string {
  if (verdict !== 'holds') return `${id} ${verdict}`;
  return breaksFrom === undefined ? id : `${id} until ${breaksFrom.toISOString().slice(0, 10)}`;
}

/** `etcd` of `etcd --cert-file`. */
export const ownerOf = (name: string): string =>
  name.endsWith('.conf') ? 'kubeconfigs' : (name.split(' ')[0] ?? name);

export const partIn = (name: string): string => name.split(' ').slice(1).join(' ') || name;

const escaped = (text: string): string => text.replaceAll('"', '#quot;');
