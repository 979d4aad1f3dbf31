// The report of a rehearsal: what was made, what is still wrong, what only a real run shows, and the verdict. Pure.
import type { RelationRow } from '../trust/judge-relations.ts';
import { table } from '../table.ts';
import { expiresText } from './expiry-text.ts';
import { nodeRows, type NodeStatus } from './node-report.ts';
import type { StatusRow } from './report.ts';
import { knownText } from './verdict.ts';

export interface RehearsalReport {
  /** Time at which the machine was switched on. */
  readonly at: Date;
  /** The copy at that time, before and after its repair. */
  readonly before: NodeStatus;
  readonly after: NodeStatus;
  readonly made: readonly StatusRow[];
  readonly failures: readonly string[];
  /** Relations of trust that do not hold after the repair. */
  readonly broken: readonly RelationRow[];
  /** Entries whose content only the cluster provides. */
  readonly obtained: readonly string[];
  readonly notes: readonly string[];
  readonly tookMs: number;
}

/** `unknown`: what is missing is requested from the cluster, and no rehearsal does that. */
export type RehearsalVerdict = 'back' | 'unarmed' | 'unknown' | 'stays';

/** What is wrong after the repair. */
const leftOf = ({ after }: RehearsalReport): readonly StatusRow[] =>
  nodeRows(after).filter(({ action, isAhead }) => action !== 'keep' && isAhead !== true);

export function verdictOfRehearsal(report: RehearsalReport): RehearsalVerdict {
  const { before, after, failures, broken, obtained } = report;
  const left = leftOf(report);
  if (left.length > 0 && left.every(({ artefact }) => obtained.includes(artefact))) return 'unknown';
  if (left.length + failures.length + broken.length > 0 || after.class !== 'healthy') return 'stays';
  return before.class === 'healthy' || before.isArmed ? 'back' : 'unarmed';
}

export function renderRehearsal(report: RehearsalReport): string {
  const { at, made, after, failures, broken, notes, tookMs } = report;
  const named = new Set(after.problems);
  const left = leftOf(report).map(({ artefact, message }) => `${artefact}: ${message}`);
  const wrong = [...new Set([...named, ...left, ...failures]), ...brokenText(broken)];
  const seconds = (tookMs / 1000).toFixed(1);
  const parts = [
    table(made, [
      ['MADE', ({ artefact }) => artefact],
      ['REISSUED BY', ({ issuer = '' }) => issuer],
      ['EXPIRES', ({ notAfter }) => (notAfter === undefined ? '' : expiresText(notAfter))],
    ]),
    section('Wrong after the repair:', wrong),
    section('Not rehearsed:', unrehearsed(report)),
    section('Notes:', notes),
    `${verdictText(report)} (${made.length} made and verified as of ${expiresText(at)}, ${seconds} s; no file here was changed.)\n`,
  ];
  return parts.filter((part) => part !== '').join('\n');
}

const section = (title: string, lines: readonly string[]): string =>
  lines.length === 0 ? '' : [title, ...lines.map((line) => `  ${line}`), ''].join('\n');

/** The first relation: the others mostly fail for the same certificate. */
function brokenText([first, ...others]: readonly RelationRow[]): readonly string[] {
  if (first === undefined) return [];
  const { id, credential, trust, reason } = first;
  const more = others.length === 0 ? '' : ` (and ${others.length} more relations of trust)`;
  return [`${credential.name} does not verify against ${trust.name} (${id}): ${reason}${more}`];
}

function unrehearsed({ obtained, before }: RehearsalReport): readonly string[] {
  const elsewhere = nodeRows(before).filter(({ isForeign, kind }) => isForeign && kind === 'signer');
  return [
    'starts and restarts of components, and what is in the API: objects, Leases, the CA in cluster-info',
    ...obtained.map((name) => `${name} comes from elsewhere: nothing was requested`),
    ...elsewhere.map(({ artefact }) => `${artefact}: its key is elsewhere, so nothing here signs with it`),
  ];
}

function verdictText(report: RehearsalReport): string {
  const { before, at } = report;
  const off = `Off until ${expiresText(at)}, this node would`;
  const texts: Readonly<Record<RehearsalVerdict, string>> = {
    back: `${off} come back by itself.`,
    unarmed: `${before.stillRepairs === undefined ? off : off.replace(/would$/, 'may')} not come back by itself: the repair works, and ${knownText(before)} run it: ${before.reasons.join('; ')}. ${before.remedy}`,
    unknown: `${off} come back if it gets elsewhere what it cannot make itself.`,
    stays: `${off} not come back by itself.`,
  };
  return texts[verdictOfRehearsal(report)];
}
