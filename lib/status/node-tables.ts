// The report of one kubeadm machine as text: kubeadm's two tables as `kubeadm certs check-expiration` prints them, byte
// for byte, then ours. Pure.
import type { ContainerSight } from './adopted.ts';
import { expiresText, objectTables, residualText, webhookNotes } from './render.ts';
import type { StatusClass, StatusRow } from './report.ts';
import { isDifferent, type NodeRow, type NodeStatus, rowsOf, type ServedSight } from './node-report.ts';

export function nodeTables(status: NodeStatus): string {
  const { certificates, authorities, own, served, adopted } = status;
  const parts = [
    columns(['CERTIFICATE', ...dates, 'CERTIFICATE AUTHORITY', 'EXTERNALLY MANAGED'], certificates.map(leafCells)),
    columns(['CERTIFICATE AUTHORITY', ...dates, 'EXTERNALLY MANAGED'], authorities.map(authorityCells)),
    columns(['NODE CERTIFICATE', ...dates, 'CERTIFICATE AUTHORITY', 'EXTERNALLY MANAGED'], own.map(leafCells)),
    columns(['SERVED BY', 'ADDRESS', 'CERTIFICATE', 'EXPIRES', 'SERVED'], served.map(servedCells)),
    adopted?.objects === undefined ? '' : objectTables(adopted.objects),
    columns(['CONTAINER IN', 'STATE', 'WHY'], (adopted?.pods ?? []).map(podCells)),
    columns(['CERTIFICATE', 'STATE', 'WHAT WILL BE DONE', 'WHY'], findings(status)),
    verdict(status),
  ];
  return parts.filter((part) => part !== '').join('\n');
}

const dates = ['EXPIRES', 'RESIDUAL TIME'] as const;

const padding = 3;

/** As Go's text/tabwriter with kubeadm's padding: each cell but the last fills its column. */
function columns(title: readonly string[], rows: readonly (readonly string[])[]): string {
  if (rows.length === 0) return '';
  const lines = [title, ...rows];
  const widths = title.map((_, at) => Math.max(...lines.map((line) => (line[at] ?? '').length + padding)));
  const text = lines.map((line) =>
    line.map((cell, at) => (at === title.length - 1 ? cell : cell.padEnd(widths[at] ?? 0))).join(''),
  );
  return `${text.join('\n')}\n`;
}

const nameText = ({ artefact, isMissing }: NodeRow): string => (isMissing ? `!MISSING! ${artefact}` : artefact);

function dateCells({ notAfter, residualMs, isMissing, state }: NodeRow): readonly [string, string] {
  if (isMissing) return ['', ''];
  if (notAfter === undefined || residualMs === undefined) return [state === 'OK' ? "<others'>" : '<unreadable>', ''];
  return [expiresText(notAfter), residualText(residualMs)];
}

const externalText = ({ isForeign, isMissing }: NodeRow): string =>
  isMissing ? '' : (isForeign ? 'yes' : 'no').padEnd(8);

function leafCells(row: NodeRow): string[] {
  const issuer = row.isMissing ? '' : (row.issuer ?? 'self-signed');
  return [nameText(row), ...dateCells(row), issuer, externalText(row)];
}

const authorityCells = (row: NodeRow): string[] => [nameText(row), ...dateCells(row), externalText(row)];

const podCells = ({ pod, state, message }: ContainerSight): string[] => [pod, state, message];

const servedTexts = { same: 'same', different: 'different', unreachable: '-' } as const;

function servedCells({ component, address, artefact, state, notAfter }: ServedSight): string[] {
  return [component, address, artefact, notAfter === undefined ? '' : expiresText(notAfter), servedTexts[state]];
}

/** Whatever is not as it should be, and what comes of it. */
function findings(status: NodeStatus): string[][] {
  const rows = rowsOf(status).filter(
    ({ state, action, reason }) =>
      (state !== 'OK' || action !== 'keep') && !(state === 'MISSING' && reason === 'Healthy'),
  );
  const strangers = rowsOf(status).filter((row) => row.authority === 'different' && !rows.includes(row));
  return [
    ...rows.map((row) => [row.artefact, row.state, whatWillBeDone(row), row.message]),
    ...strangers.map((row) => [row.artefact, 'OTHER CA', 'nothing now', authorityText(row)]),
    ...status.served
      .filter(isDifferent)
      .map(({ artefact, component, message }) => [artefact, 'NOT SERVED', `restart ${component}`, message]),
    ...(status.adopted?.objects?.rows ?? []).flatMap(objectFinding),
  ];
}

/** Of an object in the API; what only a person puts right is among the problems. */
function objectFinding({ artefact, state, action, onDisk, message }: StatusRow): string[][] {
  if (action === 'renew') return [[artefact, state, 'made anew', message]];
  if (onDisk === undefined || onDisk === 'same') return [];
  const files = onDisk === 'missing' ? 'its files are not on this machine' : 'its files are not what is in the API';
  return [[artefact, state, 'published', files]];
}

function whatWillBeDone({ action, byHand, isForeign, state, kind }: NodeRow): string {
  if (action === 'renew') return 'made anew';
  if (byHand) return 'nothing: bring a new one by hand';
  if (state !== 'EXPIRING') return 'nothing now';
  return isForeign || kind === 'signer' ? 'nothing: bring a new one by hand before' : 'made anew when it has ended';
}

const authorityText = ({ location, issuer }: NodeRow): string =>
  `${location} knows its server by another CA than the first certificate of ${issuer ?? 'its issuer'}`;

const verdicts = {
  today: {
    healthy: 'Everything is as it should be.',
    recovering:
      'Something is wrong; mode regen puts it right by itself, at the latest before the kubelet starts again.',
    unarmed: 'Something is wrong, and nothing on this machine is known to put it right by itself (see the notes).',
    stuck: 'Something is wrong that cannot be put right automatically:',
  },
  forecast: {
    healthy: 'this node would find every certificate valid.',
    recovering: 'this node would come back by itself: mode regen makes them anew before the kubelet starts.',
    unarmed:
      'this node would not come back by itself: nothing on it is known to make them anew before the kubelet starts (see the notes).',
    stuck: 'this node would not come back by itself:',
  },
} as const;

function verdict(status: NodeStatus): string {
  const { isForecast, at, problems, notes } = status;
  const text = isForecast ? `Off until ${expiresText(at)}, ${verdicts.forecast[verdictOf(status)]}` : todayText(status);
  const webhooks = webhookNotes(status.adopted?.objects ?? {});
  const noted = notes.length === 0 ? [] : ['Notes:', ...notes.map((note) => `  ${note}`)];
  return [text, ...problems.map((problem) => `  ${problem}`), ...webhooks, ...noted, ''].join('\n');
}

/** What only a repair brings back needs somebody who runs it. */
function verdictOf({ class: state, isArmed }: NodeStatus): StatusClass | 'unarmed' {
  return state === 'recovering' && !isArmed ? 'unarmed' : state;
}

/** What was not looked at is said, not counted as well. */
function todayText(status: NodeStatus): string {
  const { class: state, served, adopted } = status;
  if (state === 'stuck' && adopted?.problem !== undefined) return 'Not everything could be looked at:';
  const silent = served.filter((sight) => sight.state === 'unreachable').map(({ component }) => component);
  if (state !== 'healthy' || silent.length === 0) return verdicts.today[verdictOf(status)];
  const names = [...new Set(silent)].join(', ');
  const verb = names.includes(',') ? 'do' : 'does';
  return `Every certificate on disk is as it should be. ${names} ${verb} not answer, so what is in use was not looked at.`;
}
