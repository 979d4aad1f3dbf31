// The report as text. Tables in the form of `kubeadm certs check-expiration`, with columns of ours after kubeadm's;
// JSON and YAML with kubeadm's keys, which scripts filter on (`.certificates[?(@.residualTime<604800)]`). Pure.
import { webhookText } from '../webhooks/intercepting.ts';
import { toYaml } from '../yaml.ts';
import type { StatusReport, StatusRow } from './report.ts';

export type StatusFormat = 'table' | 'json' | 'yaml';

export function renderStatus(status: StatusReport, format: StatusFormat): string {
  switch (format) {
    case 'json':
      return `${JSON.stringify(structured(status), null, 2)}\n`;
    case 'yaml':
      return toYaml(JSON.parse(JSON.stringify(structured(status))));
    case 'table':
      break;
  }
  return tables(status);
}

const external = (row: StatusRow): string => (row.isForeign ? 'yes' : 'no');

interface Groups {
  readonly certificates: readonly StatusRow[];
  readonly authorities: readonly StatusRow[];
  readonly others: readonly StatusRow[];
}

function groups({ rows }: StatusReport): Groups {
  const others = rows.filter(({ isForeign }) => isForeign);
  const certificates = rows.filter(({ kind }) => kind === 'target');
  return {
    certificates,
    authorities: rows.filter((row) => !others.includes(row) && !certificates.includes(row)),
    others,
  };
}

function tables(status: StatusReport): string {
  return [objectTables(status), notes(status)].filter((part) => part !== '').join('\n');
}

/** Without the verdict. */
export function objectTables(status: StatusReport): string {
  const { certificates, authorities, others } = groups(status);
  const extra = extraColumns(status.rows);
  const dates: readonly Column[] = [
    ['EXPIRES', (row) => (row.notAfter === undefined ? '' : expiresText(row.notAfter))],
    ['RESIDUAL TIME', (row) => (row.residualMs === undefined ? '' : residualText(row.residualMs))],
  ];
  const parts = [
    table(certificates, [
      ['CERTIFICATE', nameText],
      ...dates,
      ['CERTIFICATE AUTHORITY', (row) => row.issuer ?? ''],
      ['EXTERNALLY MANAGED', external],
      ...extra,
    ]),
    table(authorities, [['CERTIFICATE AUTHORITY', nameText], ...dates, ['EXTERNALLY MANAGED', external], ...extra]),
    table(others, [['OBJECT', nameText], ['EXTERNALLY MANAGED', external], ...extra]),
  ];
  return parts.filter((part) => part !== '').join('\n');
}

type Column = readonly [title: string, text: (row: StatusRow) => string];

const diskTexts = { same: 'yes', different: 'other content', missing: 'no' } as const;
const useTexts = { proven: 'yes', unproven: 'not proven', notApplicable: '-' } as const;

/** Columns that only say something when it was asked: a report of another time knows nothing of disk and use. */
function extraColumns(rows: readonly StatusRow[]): Column[] {
  return [
    ['STATUS', (row) => row.state],
    ['REASON', (row) => row.reason],
    ...(rows.some(({ onDisk }) => onDisk !== undefined)
      ? [['ON DISK', (row: StatusRow) => (row.onDisk === undefined ? '-' : diskTexts[row.onDisk])] as const]
      : []),
    ...(rows.some(({ inUse }) => inUse !== undefined)
      ? [['IN USE', (row: StatusRow) => (row.inUse === undefined ? '-' : useTexts[row.inUse.state])] as const]
      : []),
  ];
}

function nameText({ artefact, state }: StatusRow): string {
  return state === 'MISSING' ? `!MISSING! ${artefact}` : artefact;
}

function table(rows: readonly StatusRow[], columns: readonly Column[]): string {
  if (rows.length === 0) return '';
  const lines = [columns.map(([title]) => title), ...rows.map((row) => columns.map(([, text]) => text(row)))];
  const widths = columns.map((_, at) => Math.max(...lines.map((line) => line[at]?.length ?? 0)));
  const text = lines.map((line) =>
    line
      .map((cell, at) => cell.padEnd(widths[at] ?? 0))
      .join('   ')
      .trimEnd(),
  );
  return `${text.join('\n')}\n`;
}

const classTexts = {
  healthy: 'Everything is as it should be.',
  recovering: 'Something is wrong; mode regen and mode syncer put it right by themselves.',
  stuck: 'Something is wrong that cannot be put right automatically:',
} as const;

function notes(status: StatusReport): string {
  const changes = status.rows
    .filter(({ action }) => action === 'renew')
    .map((row) => `  ${row.artefact}: ${row.message}`);
  const renewals = changes.length === 0 ? [] : ['To be made anew:', ...changes];
  const { apiProblem, problems } = status;
  const isUnread = apiProblem !== undefined && problems.every((problem) => problem === apiProblem);
  return [
    isUnread ? 'What is in the API is not known:' : classTexts[status.class],
    ...problems.map((problem) => `  ${problem}`),
    ...renewals,
    ...webhookNotes(status),
    '',
  ].join('\n');
}

export function webhookNotes({ webhooks }: Pick<StatusReport, 'webhooks'>): string[] {
  if (webhooks === undefined) return [];
  if (!webhooks.seen) return [`Admission webhooks were not looked at: ${webhooks.message}`];
  const found = webhooks.findings.map((finding) => `  ${webhookText(finding)}`);
  return found.length === 0 ? [] : ['Admission webhooks that could stand in the way of recovery:', ...found];
}

/** Go's layout "Jan 02, 2006 15:04 MST", in UTC. */
export function expiresText(date: Date): string {
  const [, month = '', day = ''] = /^\w+, (\d+) (\w+)/.exec(date.toUTCString()) ?? [];
  const [hours, minutes] = [date.getUTCHours(), date.getUTCMinutes()].map((part) => String(part).padStart(2, '0'));
  return `${day} ${month}, ${date.getUTCFullYear()} ${hours}:${minutes} UTC`;
}

/** As HumanDuration of k8s.io/apimachinery (pkg/util/duration): two units while the larger is small, else the larger. */
export function residualText(ms: number): string {
  const seconds = Math.trunc(ms / 1000);
  if (seconds < -1) return '<invalid>';
  if (seconds < 0) return '0s';
  if (seconds < 2 * 60) return `${seconds}s`;
  const minutes = Math.trunc(seconds / 60);
  if (minutes < 10) return units(minutes, 'm', seconds % 60, 's');
  if (minutes < 3 * 60) return `${minutes}m`;
  const hours = Math.trunc(minutes / 60);
  if (hours < 8) return units(hours, 'h', minutes % 60, 'm');
  if (hours < 48) return `${hours}h`;
  const days = Math.trunc(hours / 24);
  if (days < 8) return units(days, 'd', hours % 24, 'h');
  if (days < 2 * 365) return `${days}d`;
  const years = Math.trunc(days / 365);
  return years < 8 ? units(years, 'y', days % 365, 'd') : `${years}y`;
}

function units(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large}${largeUnit}` : `${large}${largeUnit}${small}${smallUnit}`;
}

export function structured(status: StatusReport): Record<string, unknown> {
  const { certificates, authorities, others } = groups(status);
  return {
    apiVersion: 'kube-cert-recovery/v1alpha1',
    kind: 'CertificateExpirationInfo',
    inventory: status.inventory,
    at: status.at,
    status: status.class,
    problems: status.problems,
    recheckAt: status.recheckAt,
    certificates: certificates.map(entry),
    certificateAuthorities: authorities.map(entry),
    objects: others.map(entry),
    ...(status.webhooks !== undefined && { admissionWebhooks: status.webhooks }),
  };
}

function entry(row: StatusRow): Record<string, unknown> {
  return {
    name: row.artefact,
    ...(row.notAfter !== undefined && { expirationDate: row.notAfter }),
    residualTime: Math.trunc((row.residualMs ?? 0) / 1000),
    ...(row.issuer !== undefined && { caName: row.issuer }),
    externallyManaged: row.isForeign,
    missing: row.state === 'MISSING',
    kind: row.kind,
    location: row.location,
    state: row.state,
    ...(row.notBefore !== undefined && { notBefore: row.notBefore }),
    action: row.action,
    reason: row.reason,
    message: row.message,
    recheckAt: row.recheckAt,
    ...(row.onDisk !== undefined && { onDisk: row.onDisk }),
    ...(row.inUse !== undefined && { inUse: row.inUse }),
  };
}
