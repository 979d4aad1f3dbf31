// The report of one kubeadm machine as text: kubeadm's two tables as `kubeadm certs check-expiration` prints them, byte
// for byte, then ours. Pure.
import { expiresText, residualText } from './render.ts';
import { isDifferent, type NodeRow, type NodeStatus, rowsOf, type ServedSight } from './node-report.ts';

export function nodeTables(status: NodeStatus): string {
  const { certificates, authorities, own, served } = status;
  const parts = [
    columns(['CERTIFICATE', ...dates, 'CERTIFICATE AUTHORITY', 'EXTERNALLY MANAGED'], certificates.map(leafCells)),
    columns(['CERTIFICATE AUTHORITY', ...dates, 'EXTERNALLY MANAGED'], authorities.map(authorityCells)),
    columns(['NODE CERTIFICATE', ...dates, 'CERTIFICATE AUTHORITY', 'EXTERNALLY MANAGED'], own.map(leafCells)),
    columns(['SERVED BY', 'ADDRESS', 'CERTIFICATE', 'EXPIRES', 'SERVED'], served.map(servedCells)),
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
  ];
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
    stuck: 'Something is wrong that cannot be put right automatically:',
  },
  forecast: {
    healthy: 'this node would find every certificate valid.',
    recovering: 'this node would come back by itself: mode regen makes them anew before the kubelet starts.',
    stuck: 'this node would not come back by itself:',
  },
} as const;

function verdict({ isForecast, at, class: state, problems, notes }: NodeStatus): string {
  const text = isForecast ? `Off until ${expiresText(at)}, ${verdicts.forecast[state]}` : verdicts.today[state];
  const noted = notes.length === 0 ? [] : ['Notes:', ...notes.map((note) => `  ${note}`)];
  return [text, ...problems.map((problem) => `  ${problem}`), ...noted, ''].join('\n');
}
