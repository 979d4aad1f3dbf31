// Who trusts whom, as a graph for Mermaid: an arrow from each credential to the trust that verifies it. The arrow that
// breaks first is thick, what is broken is dotted and red. Pure.
import type { RelationRow } from '../trust/judge-relations.ts';
import type { Side } from '../trust/trust-facts.ts';

/** Keys of one party, which are no trust between two. */
const ofOneParty: ReadonlySet<RelationRow['id']> = new Set(['R14', 'R15']);

export function trustGraph(rows: readonly RelationRow[]): string {
  const shown = rows.filter(
    ({ id, verdict }) => verdict !== 'notApplicable' && (verdict !== 'holds' || !ofOneParty.has(id)),
  );
  const names = new Map<string, string>();
  const idOf = ({ name }: Side): string => {
    const id = names.get(name) ?? `n${names.size + 1}`;
    names.set(name, id);
    return id;
  };
  const first = shown.reduce<RelationRow | undefined>(
    (found, row) => (endOf(row) < endOf(found) ? row : found),
    undefined,
  );
  const edges = shown.map((row) => {
    const arrow = row.verdict === 'holds' ? (row === first ? '==>' : '-->') : '-.->';
    return `  ${idOf(row.credential)} ${arrow}|"${labelOf(row)}"| ${idOf(row.trust)}`;
  });
  const styles = shown.flatMap((row, at) => {
    if (row.verdict === 'fails') return [`  linkStyle ${at} stroke:red`];
    return row === first ? [`  linkStyle ${at} stroke:orange`] : [];
  });
  const groups = [...Map.groupBy(names, ([name]) => ownerOf(name))].map(
    ([owner, nodes], at) =>
      `  subgraph g${at + 1}["${escaped(owner)}"]\n` +
      nodes.map(([name, id]) => `    ${id}["${escaped(partOf(name))}"]\n`).join('') +
      '  end',
  );
  return ['flowchart LR', ...groups, ...edges, ...styles, ''].join('\n');
}

const endOf = (row: RelationRow | undefined): number => row?.breaksFrom?.getTime() ?? Infinity;

function labelOf({ id, verdict, breaksFrom }: RelationRow): string {
  if (verdict !== 'holds') return `${id} ${verdict}`;
  return breaksFrom === undefined ? id : `${id} until ${breaksFrom.toISOString().slice(0, 10)}`;
}

/** `etcd` of `etcd --cert-file`. */
const ownerOf = (name: string): string => name.split(' ')[0] ?? name;

const partOf = (name: string): string => name.split(' ').slice(1).join(' ') || name;

const escaped = (text: string): string => text.replaceAll('"', '#quot;');
