// Report of a worker as text. Pure.
import { programText } from '../program.ts';
import { type Column, table } from '../table.ts';
import { expiresText, residualText } from './expiry-text.ts';
import type { StatusView } from './print.ts';
import { structured, workerInfo } from './structured.ts';
import type { WorkerRow, WorkerStatus } from './worker-state.ts';

/** Report as a table, or in kubeadm's JSON keys. */
export function renderWorkerStatus(status: WorkerStatus, { output: format }: StatusView): string {
  if (format !== 'table') return structured(workerInfo(status), format, 4);
  const { client, authorities, problems, notes } = status;
  const columns = (title: string): readonly Column<WorkerRow>[] => [
    [title, ({ location }) => location],
    ['EXPIRES', ({ notAfter }) => (notAfter === undefined ? '' : expiresText(notAfter))],
    ['RESIDUAL TIME', ({ residualMs }) => (residualMs === undefined ? '' : residualText(residualMs))],
    ['STATE', ({ state }) => state],
  ];
  return [
    table([client], columns('NODE CERTIFICATE')),
    table(authorities, columns('CERTIFICATE AUTHORITY')),
    [
      verdictText(status),
      ...problems.map((problem) => `  ${problem}`),
      ...(status.isArmed ? [armedText] : []),
      ...(notes.length === 0 ? [] : ['Notes:', ...notes.map((note) => `  ${note}`)]),
      `kube-cert-recovery ${programText}`,
      '',
    ].join('\n'),
  ].join('\n');
}

const armedText =
  'Armed: an expired certificate is asked for anew before each start of the kubelet, and once a minute; an approver of the ' +
  'cluster has to approve it.';

function verdictText({ class: state, isForecast, isArmed, at }: WorkerStatus): string {
  const kind = state === 'recovering' && !isArmed ? 'unarmed' : state;
  return isForecast ? `Off until ${expiresText(at)}, ${verdicts.forecast[kind]}` : verdicts.today[kind];
}

const verdicts = {
  today: {
    healthy: 'Everything is as it should be.',
    recovering:
      'Something is wrong; this worker puts it right by itself, at the latest before the kubelet starts again.',
    unarmed: 'Something is wrong, and nothing on this worker is known to put it right by itself (see the notes).',
    stuck: 'Something is wrong that cannot be put right automatically:',
  },
  forecast: {
    healthy: 'this worker would find every certificate valid.',
    recovering: 'this worker would come back by itself: it asks for a new certificate before the kubelet starts.',
    unarmed: 'this worker would not come back by itself (see the notes).',
    stuck: 'this worker would not come back by itself:',
  },
} as const;
