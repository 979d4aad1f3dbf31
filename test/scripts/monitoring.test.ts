// Alerts and dashboard against the real promtool and Prometheus: hours pass in promtool; and a real node, whose text file is
// scraped, makes alerts fire and resolve while it expires, is stuck and recovers.
import { execFile } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runModes } from '../../cmd/modes.ts';
import { type Clock, systemClock } from '../../lib/clock.ts';
import { parseConfig } from '../../lib/config/load.ts';
import { Health, serveHealth } from '../../lib/health.ts';
import { installedPresets } from '../../lib/inventory/preset.ts';
import { createLog } from '../../lib/log.ts';
import { createMetrics, type Metrics } from '../../lib/metrics.ts';
import { toYaml } from '../../lib/yaml.ts';
import { alerts, panels } from '../../scripts/monitoring.ts';
import { page, root } from '../docs/markdown.ts';
import { movedClock } from '../regen/disk-world.ts';
import { createAuthority, createLeaf } from '../support/certificates/certificates.ts';
import { Prometheus, serveTextFile } from '../support/prometheus.ts';

const run = promisify(execFile);
let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'monitoring-'));
});
afterAll(() => rm(directory, { recursive: true, force: true }));
const at = (...names: readonly string[]): string => join(directory, ...names);

const named = (labels: string): string => `{instance="n",artefact="a"${labels}}`;
const decided = named(',action="renew",reason="Expired"');
const day = 86_400;

interface Hours {
  readonly alert: string;
  readonly severity?: string;
  /** A sample each minute, as promtool writes them: bad up to minute 99, good from then on. */
  readonly series: Readonly<Record<string, string>>;
  /** Minutes; default: 99 and 110. */
  readonly fires?: number;
  readonly ended?: number;
  /** The last minute without it. */
  readonly silent: number;
}

const gauge = (alert: string, series: string, [bad, good]: readonly [number, number], silent: number): Hours => ({
  alert,
  series: { [series]: `${bad}x99 ${good}x50` },
  silent,
});
const time = (alert: string, series: string, silent: number): Hours => ({
  alert,
  series: { [series]: '0x99 6000+60x50' },
  silent,
});
const ending = (severity: string, seconds: number): Hours => ({
  alert: 'CertificateExpiring',
  severity,
  series: {
    [`x509_cert_not_after${named('')}`]: `${seconds}x99 ${30 * day}x50`,
    [`kube_cert_recovery_artefact${decided}`]: '1x150',
  },
  silent: 14,
});

const hours: readonly Hours[] = [
  {
    alert: 'CertificateExpired',
    series: {
      [`x509_cert_expired${named('')}`]: '1x99 0x50',
      [`kube_cert_recovery_artefact${decided}`]: '1x150',
    },
    silent: 9,
  },
  ending('critical', day - 60),
  ending('warning', 2 * day),
  {
    alert: 'CertRecoveryBlocked',
    series: { [`kube_cert_recovery_artefact${named(',action="blocked"')}`]: '1x99 _x50' },
    silent: 9,
  },
  time('CertRecoveryNotSucceeding', 'kube_cert_recovery_last_success_timestamp_seconds', 65),
  time('CertRecoveryNotRunning', 'kube_cert_recovery_last_look_timestamp_seconds', 20),
  gauge('CertRecoveryUnitsNotLoaded', 'kube_cert_recovery_units_loaded', [0, 1], 14),
  gauge('CertRecoveryUnproven', 'kube_cert_recovery_unproven', [1, 0], 29),
  gauge('CertRecoveryClockUnconfirmed', 'kube_cert_recovery_clock_confirmed', [0, 1], 59),
  gauge('CertRecoveryWatchSilent', 'kube_cert_recovery_watch_age_seconds', [301, 300], 9),
  gauge('CertRecoveryQueued', 'kube_cert_recovery_queue{queue="events"}', [1, 0], 29),
  gauge('CertRecoveryRequestsPending', 'kube_cert_recovery_requests_pending{signer="s",reason="r"}', [1, 0], 29),
  {
    alert: 'CertRecoveryDone',
    series: { kube_cert_recovery_last_recovery_timestamp_seconds: '_x9 600x140' },
    fires: 69,
    ended: 71,
    silent: 8,
  },
];

describe('rules.yaml', () => {
  it('is taken by promtool', async () => {
    await run('promtool', ['check', 'rules', join(root, 'manifests/monitoring/rules.yaml')]);
  });

  it('has a page of the runbook for each alert', () => {
    const runbook = page('docs/monitoring.md');
    for (const { alert } of alerts) expect(runbook).toContain(`\n### ${alert}\n`);
  });

  it('lets each alert fire after its time, and end', async () => {
    expect(hours.map(({ alert }) => alert)).toEqual(alerts.map(({ alert }) => alert));
    const tests = hours.map(({ alert, severity, series, fires = 99, ended = 110, silent }) => ({
      interval: '1m',
      name: `${alert} ${severity ?? ''}`,
      input_series: Object.entries(series).map(([one, values]) => ({ series: one, values })),
      promql_expr_test: [[silent, 0] as const, [fires, 1] as const, [ended, 0] as const].map(([minute, value]) => ({
        expr:
          `count(ALERTS{alertstate="firing",alertname="${alert}"` +
          `${severity === undefined ? '' : `,severity="${severity}"`}}) or vector(0)`,
        eval_time: `${minute}m`,
        exp_samples: [{ labels: '{}', value }],
      })),
    }));
    const rules = join(root, 'manifests/monitoring/rules.yaml');
    await writeFile(at('hours.yaml'), toYaml({ rule_files: [rules], evaluation_interval: '1m', tests }));
    await run('promtool', ['test', 'rules', at('hours.yaml')]);
  });
});

describe('a Prometheus', () => {
  const stop = new AbortController();
  let textfile: Awaited<ReturnType<typeof serveTextFile>>;
  let prometheus: Prometheus;
  /** Of a process that runs for long; its values are set here. */
  let metrics: Metrics;

  beforeAll(async () => {
    const notBefore = new Date(systemClock.now().getTime() - 30 * day * 1000);
    const etcd = await createAuthority(at('pki/etcd'), { commonName: 'etcd', notBefore });
    await rename(etcd.cert, at('pki/etcd/ca.crt'));
    await rename(etcd.key, at('pki/etcd/ca.key'));
    await mkdir(at('textfiles'));
    textfile = await serveTextFile(() => readFile(at('textfiles/certs.prom'), 'utf8'));
    const ca = await createAuthority(at('clients'), { commonName: 'monitoring' });
    const dnsNames = ['localhost'];
    const own = await createLeaf(at('server'), ca, { commonName: 'metrics', dnsNames, usages: ['serverAuth'] });
    const client = await createLeaf(at('client'), ca, { commonName: 'prometheus' });
    metrics = await createMetrics({ clock: systemClock, version: '1', modes: ['approver', 'syncer'] });
    metrics.approved('kubelet-client', 2);
    const { port } = await serveHealth({
      address: { host: '127.0.0.1', port: 0 },
      health: new Health(),
      metrics,
      tls: { certFile: own.cert, keyFile: own.key, clientCaFile: ca.cert },
      clock: systemClock,
      signal: stop.signal,
    });
    const tls = { ca_file: ca.cert, cert_file: client.cert, key_file: client.key, server_name: 'localhost' };
    prometheus = await Prometheus.start(directory, [
      { name: 'node', port: textfile.port },
      { name: 'pods', port, more: { scheme: 'https', tls_config: tls } },
    ]);
  });
  afterAll(async () => {
    stop.abort();
    await (prometheus as Prometheus | undefined)?.[Symbol.asyncDispose]();
    await (textfile as AsyncDisposable | undefined)?.[Symbol.asyncDispose]();
  });

  const recover = ({ clock = systemClock, synchronised = true }: { clock?: Clock; synchronised?: boolean } = {}) => {
    const text = `apiVersion: kube-cert-recovery/v1alpha1
kind: Configuration
preset: kubernetes
policy: { kind: OnlyWhenExpired }
parameters: { apiServerHostnames: [127.0.0.1] }
directories: { pkiDir: ${at('pki')} }
regen: { backupDir: ${at('backups')}, lockDir: ${at('lock')}, clockSynchronised: ${synchronised}, metricsFile: ${at('textfiles/certs.prom')} }
`;
    const config = parseConfig({
      flags: { mode: 'regen', once: true, locations: 'disk' },
      file: { path: at('config.yaml'), text },
      env: {},
      cwd: directory,
      presets: installedPresets,
    });
    const log = createLog({ level: 'error', write: () => undefined });
    const signal = AbortSignal.timeout(60_000);
    return runModes(config, { clock, log, signal, builtAt: new Date('2025-01-01T00:00:00Z') });
  };

  async function leafUntil(notAfter: number): Promise<void> {
    const ca = { cert: at('pki/etcd/ca.crt'), key: at('pki/etcd/ca.key') };
    const now = systemClock.now().getTime();
    const dates = { notBefore: new Date(now - 30 * day * 1000), notAfter: new Date(now + notAfter * 1000) };
    const present = new X509Certificate(await readFile(at('pki/etcd/server.crt'))).subjectAltName ?? '';
    const of = (kind: string): string[] =>
      present.split(', ').flatMap((one) => (one.startsWith(kind) ? one.slice(kind.length) : []));
    const names = { dnsNames: of('DNS:'), ipAddresses: of('IP Address:') };
    const usages = ['serverAuth', 'clientAuth'] as const;
    const leaf = await createLeaf(at('leaf'), ca, { commonName: 'etcd', ...names, usages, ...dates });
    await rename(leaf.cert, at('pki/etcd/server.crt'));
    await rename(leaf.key, at('pki/etcd/server.key'));
  }

  const fires = (...wanted: readonly string[]): Promise<void> => prometheus.fires(...wanted);

  it('sees alerts fire and end while a real node expires, is stuck and recovers', async () => {
    await recover({ clock: movedClock(-2 * 3_600_000) });
    await fires('CertRecoveryNotRunning critical node', 'CertRecoveryNotSucceeding critical node');
    await recover({ synchronised: false });
    await fires('CertRecoveryClockUnconfirmed warning node');
    await recover();
    await fires();
    await leafUntil(3 * day);
    await recover();
    await fires('CertificateExpiring warning etcd-server');
    await leafUntil(day / 2);
    await recover();
    await fires('CertificateExpiring critical etcd-server');
    await leafUntil(-3600);
    await rename(at('pki/etcd/ca.key'), at('ca.key'));
    await recover();
    await fires('CertificateExpired critical etcd-server', 'CertRecoveryBlocked warning etcd-server');
    await rename(at('ca.key'), at('pki/etcd/ca.key'));
    await recover();
    await fires('CertRecoveryDone info node');
  });

  it('sees those of a process that runs for long, over TLS with its own certificate', async () => {
    const set = (value: number): void => {
      metrics.set('kube_cert_recovery_units_loaded', 1 - Math.min(value, 1));
      metrics.set('kube_cert_recovery_unproven', value);
      metrics.set('kube_cert_recovery_watch_age_seconds', value);
      metrics.set('kube_cert_recovery_requests_pending', [[{ signer: 'kubelet-client', reason: 'NodeAlive' }, value]]);
      metrics.queue('events', () => value);
    };
    set(0);
    await fires('CertRecoveryDone info node');
    set(301);
    await fires(
      'CertRecoveryDone info node',
      'CertRecoveryUnitsNotLoaded critical pods',
      'CertRecoveryQueued warning pods',
      'CertRecoveryRequestsPending warning',
      'CertRecoveryUnproven warning pods',
      'CertRecoveryWatchSilent warning pods',
    );
    set(0);
    await fires('CertRecoveryDone info node');
  });

  it('has data for each panel of the dashboard', async () => {
    for (const { title, expr } of panels) expect(await prometheus.ask(expr), title).not.toEqual([]);
  });
});
