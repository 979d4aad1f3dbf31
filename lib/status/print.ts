// Reports of `status` as text. Tables in the form of `kubeadm certs check-expiration`: for a kubeadm machine its two
// byte for byte, then ours; for objects in the API our columns after kubeadm's. Pure.
import type { FlagsOf } from '../config/flags.ts';
import { webhookText } from '../webhooks/intercepting.ts';
import { inBatches } from '../plan/ahead-rules.ts';
import { programText } from '../program.ts';
import { listed } from '../summary.ts';
import { type Column, table } from '../table.ts';
import { expiresText, residualText } from './expiry-text.ts';
import { formerText } from './former-text.ts';
import { isDifferent, nodeRows, type NodeStatus, type ServedCertificate } from './node-report.ts';
import { groupsOf, type StatusReport, type StatusRow } from './report.ts';
import { readersTable } from './readers-table.ts';
import { nodeInfo, objectInfo, structured, type StatusFormat } from './structured.ts';
import { type NodeVerdict, verdictOf } from './verdict.ts';

/** How a report is shown: the flags of `status`. */
type StatusView = Omit<FlagsOf<'status'>, 'output' | 'at' | 'wait' | 'watch'> & {
  readonly output: StatusFormat;
  readonly isColoured?: boolean;
};

/** Report of objects in the API. */
export function renderStatus(status: StatusReport, { output: format }: StatusView): string {
  if (format === 'table') return paragraphs([objectTables(status), notes(status)]);
  return structured(objectInfo(status), format, 2);
}

/** Report of a kubeadm machine. */
export function renderNode(status: NodeStatus, { output: format, isColoured = false }: StatusView): string {
  return format === 'table' ? nodeTables(status, isColoured) : structured(nodeInfo(status), format, 4);
}

/** The version that made this report. */
const writtenBy = [`kube-cert-recovery ${programText}`, ''] as const;

const paragraphs = (parts: readonly string[]): string => parts.filter((part) => part !== '').join('\n');

/** Whether this is an optional object or file that is absent, as it may be. */
const isGoneOption = ({ state, reason }: StatusRow): boolean => state === 'MISSING' && reason === 'Healthy';

const nameText = ({ artefact, state }: StatusRow): string => (state === 'MISSING' ? `!MISSING! ${artefact}` : artefact);

/** `unread`: text in place of an unknown date. */
const dates = (unread: (row: StatusRow) => string): readonly Column<StatusRow>[] => [
  ['EXPIRES', (row) => (row.notAfter === undefined ? unread(row) : expiresText(row.notAfter))],
  ['RESIDUAL TIME', ({ residualMs }) => (residualMs === undefined ? '' : residualText(residualMs))],
];

/** Tables without the verdict. */
function objectTables(status: StatusReport): string {
  const { certificates, authorities, others } = groupsOf(status);
  const common: readonly Column<StatusRow>[] = [
    ['EXTERNALLY MANAGED', ({ isForeign }) => (isForeign ? 'yes' : 'no')],
    ['STATUS', ({ state }) => state],
    ['REASON', ({ reason }) => reason],
    ...lookedAt(status.rows),
  ];
  const ends = dates(() => '');
  return paragraphs([
    table(certificates, [
      ['CERTIFICATE', nameText],
      ...ends,
      ['CERTIFICATE AUTHORITY', ({ issuer = '' }) => issuer],
      ...common,
    ]),
    table(authorities, [['CERTIFICATE AUTHORITY', nameText], ...ends, ...common]),
    table(
      others.filter((row) => !isGoneOption(row)),
      [['OBJECT', nameText], ...common],
    ),
  ]);
}

const diskTexts = { same: 'yes', different: 'other content', missing: 'no' } as const;
const useTexts = { proven: 'yes', unproven: 'not proven', notApplicable: '-' } as const;

/** Columns for disk and use, if these were checked: a report of another time cannot know them. */
function lookedAt(rows: readonly StatusRow[]): readonly Column<StatusRow>[] {
  const onDisk: Column<StatusRow> = ['ON DISK', (row) => (row.onDisk === undefined ? '-' : diskTexts[row.onDisk])];
  const inUse: Column<StatusRow> = ['IN USE', (row) => (row.inUse === undefined ? '-' : useTexts[row.inUse.state])];
  return [
    ...(rows.some((row) => row.onDisk !== undefined) ? [onDisk] : []),
    ...(rows.some((row) => row.inUse !== undefined) ? [inUse] : []),
  ];
}

const classTexts = {
  healthy: 'Everything is as it should be.',
  recovering: 'Something is wrong; mode regen and mode syncer put it right by themselves.',
  stuck: 'Something is wrong that cannot be put right automatically:',
} as const;

function notes(status: StatusReport): string {
  const { apiProblem, problems, rows } = status;
  const changes = rows.filter(({ action }) => action === 'renew').map((row) => `  ${row.artefact}: ${row.message}`);
  const isUnread = apiProblem !== undefined && problems.every((problem) => problem === apiProblem);
  return [
    isUnread ? 'What is in the API is not known:' : classTexts[status.class],
    ...problems.map((problem) => `  ${problem}`),
    ...(changes.length === 0 ? [] : ['To be reissued:', ...changes]),
    ...webhookNotes(status),
    ...writtenBy,
  ].join('\n');
}

function webhookNotes({ webhooks }: Pick<StatusReport, 'webhooks'>): string[] {
  if (webhooks === undefined) return [];
  if (!webhooks.seen) return [`Admission webhooks were not looked at: ${webhooks.message}`];
  const found = webhooks.findings.map((finding) => `  ${webhookText(finding)}`);
  return found.length === 0 ? [] : ['Admission webhooks that could stand in the way of recovery:', ...found];
}

function nodeTables(status: NodeStatus, isColoured: boolean): string {
  const { certificates, authorities, own, served, adopted } = status;
  const ends = dates(({ state }) => ({ MISSING: '', OK: "<others'>" })[state as string] ?? '<unreadable>');
  const managed: Column<StatusRow> = ['EXTERNALLY MANAGED', externalText];
  const issuer: Column<StatusRow> = ['CERTIFICATE AUTHORITY', issuerText];
  return paragraphs([
    table(certificates, [['CERTIFICATE', nameText], ...ends, issuer, managed]),
    table(authorities, [['CERTIFICATE AUTHORITY', nameText], ...ends, managed]),
    table(own, [['NODE CERTIFICATE', nameText], ...ends, issuer, managed]),
    readersTable(nodeRows(status)),
    table(served, [
      ['SERVED BY', ({ component }) => component],
      ['ADDRESS', ({ address }) => address],
      ['CERTIFICATE', ({ artefact }) => artefact],
      ['EXPIRES', ({ notAfter }) => (notAfter === undefined ? '' : expiresText(notAfter))],
      ['SERVED', ({ state }) => servedTexts[state]],
    ]),
    adopted?.objects === undefined ? '' : objectTables(adopted.objects),
    table(adopted?.pods ?? [], [
      ['CONTAINER IN', ({ pod }) => pod],
      ['STATE', ({ state }) => state],
      ['WHY', ({ message }) => message],
    ]),
    table(findings(status), [
      ['CERTIFICATE', ([artefact]) => artefact],
      ['STATE', ([, state]) => state],
      ['WHAT WILL BE DONE', ([, , done]) => done],
      ['WHY', ([, , , why]) => why],
    ]),
    lastLines(status, isColoured),
  ]);
}

const servedTexts = { same: 'same', different: 'different', unreachable: '-', inMemory: 'in memory' } as const;

/** Column as in kubeadm: empty for a missing certificate, and its last column is padded. */
const externalText = ({ isForeign, state }: StatusRow): string =>
  state === 'MISSING' ? '' : (isForeign ? 'yes' : 'no').padEnd(8);

const issuerText = ({ issuer = 'self-signed', state }: StatusRow): string => (state === 'MISSING' ? '' : issuer);

type Finding = readonly [artefact: string, state: string, done: string, why: string];

/** Everything unhealthy, and its consequence. */
function findings(status: NodeStatus): readonly Finding[] {
  const all = nodeRows(status);
  const rows = all.filter((row) => (row.state !== 'OK' || row.action !== 'keep') && !isGoneOption(row));
  const strangers = all.filter((row) => row.authority === 'different' && !rows.includes(row));
  return [
    ...gathered(rows.map((row): Finding => [row.artefact, row.state, whatWillBeDone(row, status), row.message])),
    ...strangers.map((row): Finding => [row.artefact, 'OTHER CA', 'nothing now', authorityText(row)]),
    ...status.served
      .filter(isDifferent)
      .map(({ artefact, component, message }): Finding => [artefact, 'NOT SERVED', `restart ${component}`, message]),
    ...status.served.flatMap((one) => endingInMemory(one, status)),
    ...status.former.map((one): Finding => [one.artefact, 'NOT LOADED', restartText(one, status), formerText(one)]),
    ...(status.adopted?.objects?.rows ?? []).flatMap(objectFinding),
  ];
}

/** Expired ones that are renewed alike as one line: the tables above show their names and dates, as `<invalid>`. */
function gathered(found: readonly Finding[]): readonly Finding[] {
  return found.flatMap((one): readonly Finding[] => {
    const [, state, done] = one;
    const alike = found.filter((other) => other[1] === state && other[2] === done);
    if (state !== 'EXPIRED' || done.startsWith('nothing') || alike.length === 1) return [one];
    return alike[0] === one ? [[`${alike.length} above`, state, done, 'expired (<invalid>)']] : [];
  });
}

function endingInMemory(
  { artefact, component, ends, restartsAt, message }: ServedCertificate,
  status: Restarting,
): readonly Finding[] {
  return ends === undefined ? [] : [[artefact, ends, restartText({ component, restartsAt }, status), message]];
}

type Restarting = Pick<NodeStatus, 'at' | 'isArmed'>;

function restartText(
  { component, restartsAt }: { readonly component: string; readonly restartsAt?: Date | undefined },
  { at, isArmed }: Restarting,
): string {
  if (!isArmed || restartsAt === undefined) return `restart ${component}`;
  return restartsAt <= at ? `${component} restarted` : `${component} restarted ${expiresText(restartsAt)}`;
}

/** Finding about an object in the API; problems list the objects that need the administrator. */
function objectFinding({ artefact, state, action, onDisk, message }: StatusRow): Finding[] {
  if (action === 'renew') return [[artefact, state, 'reissued', message]];
  if (onDisk === undefined || onDisk === 'same') return [];
  const files = onDisk === 'missing' ? 'its files are not on this machine' : 'its files are not what is in the API';
  return [[artefact, state, 'published', files]];
}

/** Nothing is promised that no unit would do. */
export function whatWillBeDone(
  { renewal, byHand, outlook }: StatusRow,
  { isArmed }: Pick<NodeStatus, 'isArmed'>,
): string {
  if (renewal !== undefined) return isArmed ? renewal : `${renewal} once armed`;
  if (byHand === true) return 'nothing: bring a new one by hand';
  if (outlook === undefined) return 'nothing now';
  if (outlook.renewal !== undefined)
    return `${outlook.renewal}${isArmed ? '' : ', if armed,'} ${outlook.isBefore ? expiresText(outlook.at) : 'when it expires'}`;
  if (outlook.byHand === true) return 'nothing: bring a new one by hand before';
  return outlook.action === 'keep' ? 'nothing' : `nothing when it expires (${outlook.reason})`;
}

const authorityText = ({ location, issuer }: StatusRow): string =>
  `${location} knows its server by another CA than the own certificate of ${issuer ?? 'its issuer'}`;

/** Everything that the tables leave, and at the end the verdict. */
function lastLines(status: NodeStatus, isColoured: boolean): string {
  const inTables = nodeRows(status).map(({ artefact, message }) => `${artefact}: ${message}`);
  const problems = status.problems.filter((problem) => !inTables.includes(problem));
  const block = (title: string, lines: readonly string[]): readonly string[] =>
    lines.length === 0 ? [] : [title, ...lines.map((line) => `  ${line}`)];
  const { tone, lines } = verdictOf(status);
  return [
    ...block('To do:', problems),
    ...dueText(status),
    ...renewalText(status),
    ...webhookNotes(status.adopted?.objects ?? {}),
    ...block('Notes:', status.notes),
    ...writtenBy,
    ...lines.map((line, at) => (isColoured && at < 2 ? coloured(line, tone) : line)),
    '',
  ].join('\n');
}

/** SGR codes (ECMA-48): green, yellow, red. */
const codes = { good: 32, unarmed: 33, bad: 31 } as const;

const coloured = (line: string, tone: NodeVerdict['tone']): string => `\u001B[${codes[tone]}m${line}\u001B[0m`;

/** https://no-color.org; a terminal alone shows colours. */
export const showsColours = (
  isTerminal: boolean | undefined,
  env: Readonly<Record<string, string | undefined>>,
): boolean => isTerminal === true && (env['NO_COLOR'] ?? '') === '' && env['TERM'] !== 'dumb';

/** Healthy artefacts that the next run renews before their expiry. */
function dueText(status: NodeStatus): string[] {
  const due = nodeRows(status).filter(({ action, isAhead }) => action === 'renew' && isAhead === true);
  if (due.length === 0 || status.isForecast || !status.isArmed) return [];
  return [`Renewed before expiry by the next run of the timer: ${listed(due.map(({ artefact }) => artefact))}`];
}

/** All renewals in their order, a line for those that are made together. */
function renewalText(status: NodeStatus): string[] {
  if (!status.isArmed) return [];
  const dated = nodeRows(status).flatMap(({ artefact, renewsAt }) => (renewsAt ? [{ artefact, at: renewsAt }] : []));
  return inBatches(dated).map(({ at, names }, count) => {
    const title = count === 0 ? 'Next renewal before expiry' : 'Then';
    return `${title}: ${expiresText(at)}: ${listed(names)}`;
  });
}
