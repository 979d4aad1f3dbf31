// The report of `verify`, as a table, as JSON or YAML, and as a graph. Pure.
import { secondsText } from '../clock.ts';
import { nextCommand } from '../next-command.ts';
import { program } from '../program.ts';
import { table } from '../table.ts';
import type { RelationRow } from '../trust/judge-relations.ts';
import type { Side } from '../trust/trust-facts.ts';
import { apiVersion } from '../well-known.ts';
import { expiresText } from './expiry-text.ts';
import { structured } from './structured.ts';
import { firstToBreak, trustGraph } from './trust-graph.ts';
import { trustPicture } from './trust-picture.ts';

export type TrustFormat = 'table' | 'json' | 'yaml' | 'mermaid' | 'svg';

export interface TrustReport {
  readonly at: Date;
  /** The CA that is taken out of every trust, as it was given. */
  readonly without?: string | undefined;
  readonly rows: readonly RelationRow[];
  /** What could not be read or followed, one sentence each. */
  readonly notes: readonly string[];
  /** Default: true. Elsewhere only what the API knows can be verified. */
  readonly isNode?: boolean;
}

export type TrustClass = 'unknown' | 'broken' | 'ending' | 'sound';

const isNothingVerified = ({ rows }: Pick<TrustReport, 'rows'>): boolean =>
  rows.every(({ verdict }) => verdict === 'notApplicable');

/** The worst of all rows; what is not known comes first, as in `status`, and so does a machine with no component. */
export function classOfTrust({ rows }: Pick<TrustReport, 'rows'>): TrustClass {
  if (isNothingVerified({ rows }) || rows.some(({ verdict }) => verdict === 'unknown')) return 'unknown';
  if (rows.some(({ verdict }) => verdict === 'fails')) return 'broken';
  return rows.some(({ isEnding }) => isEnding === true) ? 'ending' : 'sound';
}

export function renderTrust(report: TrustReport, format: TrustFormat): string {
  if (format === 'table') return tables(report);
  if (format === 'mermaid') return trustGraph(report.rows);
  return format === 'svg' ? trustPicture(report) : structured(info(report), format, 2);
}

/** The worst relation, for a report about certificates, which itself says what has expired; none where nothing else is. */
export function trustNotes(rows: readonly RelationRow[]): readonly string[] {
  const broken = rows.filter(({ verdict, isExpired }) => verdict === 'fails' && isExpired !== true);
  const [first] = broken;
  if (first === undefined) return [];
  const { id, credential, trust, reason, breaks } = first;
  const more = broken.length === 1 ? '' : ` (and ${broken.length - 1} more like this)`;
  return [
    `${credential.name} does not verify against ${trust.name} (${id}): ${reason}, so ${breaks}${more}. ` +
      `"${nextCommand('verify')}" shows who must trust whom`,
  ];
}

const verdictTexts = { holds: 'holds', fails: 'FAILS', unknown: 'UNKNOWN', notApplicable: '-' } as const;

function tables(report: TrustReport): string {
  const { rows, notes } = report;
  const others = rows.filter(({ verdict }) => verdict !== 'holds');
  return [
    table(rows, [
      ['RELATION', ({ id }) => id],
      ['CREDENTIAL', ({ credential }) => credential.name],
      ['TRUST', ({ trust }) => trust.name],
      ['VERDICT', ({ verdict }) => verdictTexts[verdict]],
      ['BREAKS FROM', ({ breaksFrom }) => (breaksFrom === undefined ? '' : expiresText(breaksFrom))],
    ]),
    table(others, [
      ['RELATION', ({ id }) => id],
      ['CREDENTIAL', ({ credential }) => credential.name],
      ['VERDICT', ({ verdict }) => verdictTexts[verdict]],
      ['WHY', ({ reason, verdict, breaks }) => (verdict === 'fails' ? `${reason}, so ${breaks}` : reason)],
    ]),
    [...(notes.length === 0 ? [] : ['Notes:', ...notes.map((note) => `  ${note}`)]), conclusion(report), ''].join('\n'),
  ]
    .filter((part) => part !== '')
    .join('\n');
}

const idsOf = (rows: readonly RelationRow[], verdict: RelationRow['verdict']): string =>
  [...new Set(rows.flatMap((row) => (row.verdict === verdict ? [row.id] : [])))].join(', ');

/** What it means, and what to do next. */
function conclusion(report: TrustReport): string {
  const { rows } = report;
  const state = classOfTrust(report);
  const first = firstToBreak(rows);
  const end =
    first === undefined
      ? ''
      : `; ${first.id} breaks first, ${expiresText(first.breaksFrom)} (${first.credential.name})`;
  const isSound = state === 'sound' || state === 'ending';
  if (report.isNode === false && isSound) {
    const [seen, all] = [rows.filter(({ verdict }) => verdict !== 'notApplicable'), rows].map(
      (some) => new Set(some.flatMap(({ id }) => (id.startsWith('R') ? [id] : []))).size,
    );
    return `Verified from here: ${seen} of ${all} relations, which hold${end}. Next: run this on a node, which the others need.`;
  }
  const status = `Next: run "${nextCommand('status')}", which says`;
  switch (state) {
    case 'unknown': {
      if (isNothingVerified(report))
        return (
          'Nothing was verified: no component that trusts another was found on this machine. Next: run this on a node, or ' +
          'say where its files are (--directory=kubernetesDir=...).'
        );
      const broken = idsOf(rows, 'fails');
      return (
        `${broken === '' ? '' : `Broken: ${broken}. `}Not known: ${idsOf(rows, 'unknown')}. ` +
        'Next: make readable or reachable what the table names, and run this again as root.'
      );
    }
    case 'broken':
      return `Broken: ${idsOf(rows, 'fails')}. ${status} what this machine repairs by itself, and what it must be given.`;
    case 'ending':
      return `Everybody trusts whom they must${end}. ${status} whether it is renewed before.`;
    case 'sound':
      return `Everybody trusts whom they must${end}. Nothing is to be done.`;
  }
}

const side = ({ name, file }: Side): object => ({ name, file });

function info({ at, without, rows, notes, ...rest }: TrustReport): object {
  return {
    apiVersion,
    kind: 'TrustInfo',
    at: secondsText(at),
    without,
    status: classOfTrust({ rows, ...rest }),
    relations: rows.map(({ id, credential, trust, verdict, reason, breaks, seen, breaksFrom }) => ({
      relation: id,
      credential: side(credential),
      trust: side(trust),
      verdict,
      reason,
      breaksFrom: breaksFrom && secondsText(breaksFrom),
      breaks,
      seen,
    })),
    notes,
    program,
  };
}
