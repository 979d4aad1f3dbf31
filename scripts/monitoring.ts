// Alerts and dashboard, from one table each: a rules file for Prometheus, the same as a PrometheusRule, and a dashboard
// for Grafana. Pure.
import { toYaml } from '../lib/yaml.ts';

/** Placeholder; each alert is a heading there. */
const runbooks = 'https://example.com/kube-cert-recovery/docs/monitoring.md';

export interface Alert {
  readonly alert: string;
  readonly severity: 'critical' | 'warning' | 'info';
  readonly expr: string;
  /** Default: at once. */
  readonly for?: string;
  readonly summary: string;
}

const on = 'on {{ $labels.instance }}';
/** One that has expired has an alert of its own. */
const endsIn = (least: string, most: string): string => `(x509_cert_not_after - time() > ${least}) < ${most}`;
/** Series of x509-certificate-exporter have no artefact, and rules of their own. */
const ours = 'and on (instance, artefact) kube_cert_recovery_artefact';

export const alerts: readonly Alert[] = [
  {
    alert: 'CertificateExpired',
    severity: 'critical',
    expr: `x509_cert_expired == 1 ${ours}{action!="keep"}`,
    for: '10m',
    summary: `{{ $labels.artefact }} ${on} has expired and is not renewed`,
  },
  {
    alert: 'CertificateExpiring',
    severity: 'critical',
    expr: `${endsIn('0', '86400')} ${ours}`,
    for: '15m',
    summary: `{{ $labels.artefact }} ${on} ends in {{ $value | humanizeDuration }}`,
  },
  {
    alert: 'CertificateExpiring',
    severity: 'warning',
    expr: `${endsIn('86400', '7 * 86400')} ${ours}`,
    for: '15m',
    summary: `{{ $labels.artefact }} ${on} ends in {{ $value | humanizeDuration }}`,
  },
  {
    alert: 'CertRecoveryBlocked',
    severity: 'warning',
    expr: 'kube_cert_recovery_artefact{action="blocked"} == 1',
    for: '10m',
    summary: `{{ $labels.artefact }} ${on} waits for an administrator: {{ $labels.reason }}`,
  },
  {
    alert: 'CertRecoveryNotSucceeding',
    severity: 'critical',
    // Also where none has succeeded since the boot.
    expr: `time() - kube_cert_recovery_last_success_timestamp_seconds > 3600 or time() - (kube_cert_recovery_last_look_timestamp_seconds unless on (instance) kube_cert_recovery_last_success_timestamp_seconds)`,
    for: '5m',
    summary: `No look ${on} has left nothing to do for {{ $value | humanizeDuration }}`,
  },
  {
    alert: 'CertRecoveryNotRunning',
    severity: 'critical',
    expr: 'time() - kube_cert_recovery_last_look_timestamp_seconds > 900',
    for: '5m',
    summary: `Nothing ${on} has looked for {{ $value | humanizeDuration }}`,
  },
  {
    alert: 'CertRecoveryUnitsNotLoaded',
    severity: 'critical',
    expr: 'kube_cert_recovery_units_loaded == 0',
    for: '15m',
    summary: `Not all units of the repair are loaded ${on}`,
  },
  {
    alert: 'CertRecoveryUnproven',
    severity: 'warning',
    expr: 'kube_cert_recovery_unproven > 0',
    for: '30m',
    summary: `{{ $value }} files ${on} may differ from what is in use`,
  },
  {
    alert: 'CertRecoveryClockUnconfirmed',
    severity: 'warning',
    expr: 'kube_cert_recovery_clock_confirmed == 0',
    for: '1h',
    summary: `Nothing confirms the clock ${on}`,
  },
  {
    alert: 'CertRecoveryWatchSilent',
    severity: 'warning',
    expr: 'kube_cert_recovery_watch_age_seconds > 300',
    for: '10m',
    summary: `A watch ${on} has heard nothing for {{ $value | humanizeDuration }}`,
  },
  {
    alert: 'CertRecoveryQueued',
    severity: 'warning',
    expr: 'kube_cert_recovery_queue > 0',
    for: '30m',
    summary: `{{ $value }} {{ $labels.queue }} ${on} wait`,
  },
  {
    alert: 'CertRecoveryRequestsPending',
    severity: 'warning',
    expr: 'sum by (instance, signer, reason) (kube_cert_recovery_requests_pending) > 0',
    for: '30m',
    summary: '{{ $value }} requests to {{ $labels.signer }} are left: {{ $labels.reason }}',
  },
  {
    alert: 'CertRecoveryDone',
    severity: 'info',
    expr: 'time() - kube_cert_recovery_last_recovery_timestamp_seconds < 3600',
    summary: `Certificates ${on} were renewed {{ $value | humanizeDuration }} ago`,
  },
];

const ruleGroup = (of: readonly Alert[]) => ({
  name: 'kube-cert-recovery',
  rules: of.map(({ alert, expr, for: lasts, severity, summary }) => ({
    alert,
    expr,
    ...(lasts !== undefined && { for: lasts }),
    labels: { severity },
    annotations: { summary, runbook_url: `${runbooks}#${alert.toLowerCase()}` },
  })),
});

export const ruleFile = (of: readonly Alert[]): string => toYaml({ groups: [ruleGroup(of)] });

interface Panel {
  readonly title: string;
  readonly expr: string;
  readonly legend: string;
  /** Default: a number. */
  readonly unit?: 's' | 'dtdurations';
  readonly type?: 'stat' | 'table';
}

const since = (name: string): string =>
  `time() - max by (instance) (kube_cert_recovery_last_${name}_timestamp_seconds)`;
const age = { legend: '{{instance}}', unit: 'dtdurations', type: 'stat' } as const;

export const panels: readonly Panel[] = [
  { title: 'First certificate ends in', expr: 'min by (instance) (x509_cert_not_after) - time()', ...age },
  { title: 'Since the last good look', expr: since('success'), ...age },
  { title: 'Since the last look', expr: since('look'), ...age },
  { title: 'Units loaded', expr: 'kube_cert_recovery_units_loaded', legend: '{{instance}}', type: 'stat' },
  { title: 'Clock confirmed', expr: 'kube_cert_recovery_clock_confirmed', legend: '{{instance}}', type: 'stat' },
  {
    title: 'Versions',
    expr: 'count by (version) (kube_cert_recovery_build_info)',
    legend: '{{version}}',
    type: 'stat',
  },
  {
    title: 'Certificates: seconds left',
    expr: 'sort(x509_cert_not_after - time())',
    legend: '{{instance}} {{artefact}}',
    unit: 'dtdurations',
    type: 'table',
  },
  {
    title: 'Decisions',
    expr: 'count by (action, reason) (kube_cert_recovery_artefact)',
    legend: '{{action}} {{reason}}',
  },
  {
    title: 'Not as they should be',
    expr: 'count by (instance) (kube_cert_recovery_artefact{action!="keep"}) or 0 * count by (instance) (kube_cert_recovery_artefact)',
    legend: '{{instance}}',
  },
  {
    title: 'Writes in an hour',
    expr: 'sum by (mode, result) (increase(kube_cert_recovery_writes_total[1h]))',
    legend: '{{mode}} {{result}}',
  },
  {
    title: 'Failures in an hour',
    expr: 'sum by (mode, code) (increase(kube_cert_recovery_failures_total[1h])) or vector(0)',
    legend: '{{mode}} {{code}}',
  },
  { title: 'Since the last recovery', expr: since('recovery'), ...age },
  {
    title: 'Duration of the last recovery',
    expr: 'kube_cert_recovery_last_recovery_duration_seconds',
    legend: '{{instance}}',
    unit: 's',
  },
  { title: 'Written by it', expr: 'kube_cert_recovery_last_recovery_artefacts', legend: '{{instance}}' },
  {
    title: 'Duration of runs on hosts',
    expr: 'kube_cert_recovery_run_duration_seconds',
    legend: '{{instance}}',
    unit: 's',
  },
  { title: 'Not proven in use', expr: 'kube_cert_recovery_unproven', legend: '{{instance}}' },
  { title: 'Silence of watches', expr: 'kube_cert_recovery_watch_age_seconds', legend: '{{instance}}', unit: 's' },
  { title: 'Queues', expr: 'kube_cert_recovery_queue', legend: '{{instance}} {{queue}}' },
  {
    title: 'Requests that are left',
    expr: 'sum by (signer, reason) (kube_cert_recovery_requests_pending) or vector(0)',
    legend: '{{signer}} {{reason}}',
  },
  {
    title: 'Approvals: 95 of 100 within',
    expr: 'histogram_quantile(0.95, sum by (le, signer) (kube_cert_recovery_request_seconds_bucket))',
    legend: '{{signer}}',
    unit: 's',
  },
];

function dashboard(): string {
  const datasource = { type: 'prometheus', uid: '${datasource}' };
  const [width, height, across] = [8, 7, 3];
  const shown = panels.map(({ title, expr, legend, unit = 'none', type = 'timeseries' }, at) => ({
    id: at + 1,
    title,
    type,
    datasource,
    gridPos: { x: (at % across) * width, y: Math.floor(at / across) * height, w: width, h: height },
    fieldConfig: { defaults: { unit }, overrides: [] },
    targets: [
      {
        refId: 'A',
        datasource,
        expr,
        legendFormat: legend,
        ...(type === 'table' && { format: 'table' }),
        ...(type !== 'timeseries' && { instant: true }),
      },
    ],
  }));
  const source = { name: 'datasource', type: 'datasource', query: 'prometheus', label: 'Prometheus' };
  // Added to each query by Grafana: clusters and machines among many.
  const filters = { name: 'filters', type: 'adhoc', label: 'Only', datasource };
  const about = { title: 'Certificate recovery', uid: 'kube-cert-recovery', tags: ['kubernetes', 'certificates'] };
  const times = { schemaVersion: 39, refresh: '1m', time: { from: 'now-24h', to: 'now' } };
  return `${JSON.stringify({ ...about, ...times, templating: { list: [source, filters] }, panels: shown }, null, 2)}\n`;
}

/** Text by path below manifests/. */
export function monitoring(): Readonly<Record<string, string>> {
  const about =
    '# Alerts of kube-cert-recovery. runbook_url has a placeholder for its address. See docs/monitoring.md.\n';
  const rule = {
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'PrometheusRule',
    metadata: { name: 'kube-cert-recovery', namespace: 'monitoring' },
    spec: { groups: [ruleGroup(alerts)] },
  };
  return {
    'monitoring/rules.yaml': about + ruleFile(alerts),
    'monitoring/prometheus-rule.yaml': about + toYaml(rule),
    'monitoring/dashboard.json': dashboard(),
  };
}
