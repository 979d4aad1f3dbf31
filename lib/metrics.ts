// Metrics in the Prometheus text form, in a registry of their own. Home of prom-client, which is loaded only when
// metrics are created; a process that nobody asks for metrics uses `noMetrics` and does not pay for it.
import type { Counter, Gauge } from 'prom-client';
import type { Clock } from './clock.ts';

export interface MeasuredCertificate {
  readonly notBefore: Date;
  readonly notAfter: Date;
  readonly commonName: string;
  /** RFC 2253 text. */
  readonly issuer: string;
  /** Hexadecimal. */
  readonly serial: string;
}

export interface MeasuredDecision {
  readonly action: string;
  readonly reason: string;
  /** Outcome of the last attempt to renew it; empty: there was none. */
  readonly outcome: string;
}

type Labels = Readonly<Record<string, string>>;
type Sample = readonly [labels: Labels, value: number];
type Samples = number | readonly Sample[];
type WriteResult = 'written' | 'conflict' | 'failed';

export const certificateLabels = [
  'artefact',
  // As x509-certificate-exporter names them.
  'filepath',
  'secret_namespace',
  'secret_name',
  'configmap_namespace',
  'configmap_name',
  'subject_CN',
  'issuer_CN',
  'serial_number',
];

/** All gauges. Those of certificates have the names and labels of x509-certificate-exporter. */
export const gauges = {
  x509_cert_not_before: ['Start of validity, Unix time in seconds', certificateLabels],
  x509_cert_not_after: ['End of validity, Unix time in seconds', certificateLabels],
  x509_cert_expired: ['1 after the end of validity, otherwise 0', certificateLabels],
  kube_cert_recovery_artefact: ['Always 1; labels: last decision', ['artefact', 'action', 'reason', 'outcome']],
  kube_cert_recovery_last_look_timestamp_seconds: ['Last look at all artefacts, Unix time', []],
  kube_cert_recovery_last_success_timestamp_seconds: ['Last look that left nothing to do, Unix time', []],
  kube_cert_recovery_last_recovery_timestamp_seconds: ['End of the last recovery, Unix time', []],
  kube_cert_recovery_last_recovery_duration_seconds: ['Duration of the last recovery', []],
  kube_cert_recovery_last_recovery_artefacts: ['Artefacts that the last recovery has written', []],
  kube_cert_recovery_run_duration_seconds: ['Duration of the last run on a host', []],
  kube_cert_recovery_units_loaded: ['Whether the units that repair this host are loaded', []],
  kube_cert_recovery_clock_confirmed: ['Whether the clock is known to be synchronised', []],
  kube_cert_recovery_unproven: ['Files that may differ from what their readers use', []],
  kube_cert_recovery_watch_age_seconds: ['Longest time since a watch has heard something', []],
  kube_cert_recovery_queue: ['What waits: changed objects, Events', ['queue']],
  kube_cert_recovery_requests_pending: ['Requests that are left, by reason', ['signer', 'reason']],
  kube_cert_recovery_build_info: ['Always 1; the version is a label', ['version']],
} as const satisfies Readonly<Record<string, readonly [help: string, labelNames: readonly string[]]>>;

const counterTable = {
  kube_cert_recovery_writes_total: ['Attempts to write an artefact', ['mode', 'result']],
  kube_cert_recovery_failures_total: ['Failures by error code', ['mode', 'code']],
} as const;

type GaugeName = keyof typeof gauges;

/** Counters and times with which a later run on the same host goes on. */
export type Totals = Readonly<Record<string, readonly Sample[]>>;

export interface Metrics {
  /** The certificate of an artefact (of a bundle: the first to expire); undefined: there is none now. */
  certificate(artefact: string, location: Labels, certificate: MeasuredCertificate | undefined): void;
  decided(artefact: string, decision: MeasuredDecision): void;
  /** A look at all artefacts. `isGood`: it has left nothing to do. */
  looked(isGood: boolean): void;
  /** The end of a recovery. */
  recovered(count: number, durationMs: number): void;
  /** A value, or a function that is called whenever the metrics are read. Replaces all former samples. */
  set(name: GaugeName, value: Samples | (() => Samples)): void;
  /** Length of a queue, counted whenever the metrics are read. */
  queue(name: string, length: () => number): void;
  /** One attempt to write an artefact. */
  wrote(mode: string, result: WriteResult): void;
  /** One failure of a mode, with its error code. */
  failed(mode: string, code: string): void;
  /** A request for a certificate was approved, so long after it was created. */
  approved(signer: string, seconds: number): void;
  /** Adds the counters of former runs, and takes over the times that this one has not set. */
  resume(former: Totals): void;
  totals(): Promise<Totals>;
  readonly contentType: string;
  render(): Promise<string>;
}

/** Characters of a name in a label: a CA may have one of a megabyte, and the file of metrics has it many times. */
const longestLabel = 256;
const labelOf = (text: string): string => (text.length > longestLabel ? `${text.slice(0, longestLabel)}...` : text);

export const noMetrics: Metrics = {
  certificate() {},
  decided() {},
  looked() {},
  recovered() {},
  set() {},
  queue() {},
  wrote() {},
  failed() {},
  approved() {},
  resume() {},
  totals: () => Promise.resolve({}),
  contentType: 'text/plain',
  render: () => Promise.resolve(''),
};

interface MetricsOptions {
  readonly version: string;
  readonly clock: Pick<Clock, 'now'>;
  /** The modes that run here: their counters begin at 0, so that a first failure is an increase. */
  readonly modes: readonly string[];
}

const writeResults: readonly WriteResult[] = ['written', 'conflict', 'failed'];
/** A run for which a kubelet waits does not ask for units. */
const isOfFormerRuns = (name: string): name is GaugeName =>
  name === 'kube_cert_recovery_units_loaded' || name.startsWith('kube_cert_recovery_last_');

export async function createMetrics({ version, clock, modes }: MetricsOptions): Promise<Metrics> {
  // The package is CommonJS: bundled, it has its names on the default export only.
  const { default: prometheus } = await import('prom-client');
  const registry = new prometheus.Registry();
  const registers = [registry];
  const counters = Object.fromEntries(
    Object.entries(counterTable).map(([name, [help, labelNames]]) => {
      return [name, new prometheus.Counter<string>({ name, help, labelNames, registers })];
    }),
  ) as Record<keyof typeof counterTable, Counter>;
  const { kube_cert_recovery_writes_total: writes, kube_cert_recovery_failures_total: failures } = counters;
  // A kubelet waits for 15 minutes (pkg/kubelet/certificate/bootstrap), and requests again.
  const buckets = [1, 2, 5, 10, 30, 60, 300, 900, 3600];
  const decision = { name: 'kube_cert_recovery_request_seconds', help: 'From a request to its approval', buckets };
  const labelNames = ['signer'] as const;
  const approvals = modes.includes('approver')
    ? new prometheus.Histogram({ ...decision, labelNames, registers })
    : undefined;
  for (const mode of modes) for (const result of writeResults) writes.inc({ mode, result }, 0);

  const made = new Map<GaugeName, Gauge>();
  const certificates = new Map<string, readonly [Labels, MeasuredCertificate]>();
  const decisions = new Map<string, MeasuredDecision>();
  const queues = new Map<string, () => number>();
  const dates = (valueOf: (one: MeasuredCertificate) => number) => (): Samples =>
    [...certificates.values()].map(([labels, one]) => [labels, valueOf(one)]);
  const states = new Map<GaugeName, Samples | (() => Samples)>([
    ['x509_cert_not_before', dates(({ notBefore }) => seconds(notBefore))],
    ['x509_cert_not_after', dates(({ notAfter }) => seconds(notAfter))],
    ['x509_cert_expired', dates(({ notAfter }) => Number(notAfter <= clock.now()))],
    ['kube_cert_recovery_artefact', () => [...decisions].map(([artefact, one]) => [{ artefact, ...one }, 1])],
    ['kube_cert_recovery_build_info', [[{ version }, 1]]],
  ]);
  const show = (name: GaugeName, samples: Samples): void => {
    const [help, names] = gauges[name];
    const gauge = made.get(name) ?? new prometheus.Gauge<string>({ name, help, labelNames: names, registers });
    made.set(name, gauge);
    gauge.reset();
    for (const [labels, value] of samplesOf(samples)) gauge.set(labels, value);
  };

  return {
    certificate(artefact, location, one) {
      if (one === undefined) return void certificates.delete(artefact);
      const { commonName, issuer, serial } = one;
      const names = {
        subject_CN: labelOf(commonName),
        issuer_CN: labelOf(commonNameIn(issuer)),
        serial_number: decimal(serial),
      };
      certificates.set(artefact, [{ artefact, ...location, ...names }, one]);
    },
    decided: (artefact, { action, reason, outcome }) => void decisions.set(artefact, { action, reason, outcome }),
    looked(isGood) {
      states.set('kube_cert_recovery_last_look_timestamp_seconds', seconds(clock.now()));
      if (isGood) states.set('kube_cert_recovery_last_success_timestamp_seconds', seconds(clock.now()));
    },
    recovered(count, durationMs) {
      states.set('kube_cert_recovery_last_recovery_timestamp_seconds', seconds(clock.now()));
      states.set('kube_cert_recovery_last_recovery_duration_seconds', durationMs / 1000);
      states.set('kube_cert_recovery_last_recovery_artefacts', count);
    },
    set: (name, state) => void states.set(name, state),
    queue(name, length) {
      queues.set(name, length);
      states.set('kube_cert_recovery_queue', () => [...queues].map(([queue, count]) => [{ queue }, count()]));
    },
    wrote: (mode, result) => writes.inc({ mode, result }),
    failed: (mode, code) => failures.inc({ mode, code }),
    approved: (signer, took) => approvals?.observe({ signer }, took),
    resume(former) {
      for (const [name, samples] of Object.entries(former)) {
        if (isOfFormerRuns(name) && !states.has(name)) states.set(name, samples);
        for (const [labels, value] of samples) (counters as Partial<Record<string, Counter>>)[name]?.inc(labels, value);
      }
    },
    async totals() {
      const counted = await Promise.all(
        Object.entries(counters).map(async ([name, one]) => {
          const { values } = await one.get();
          return [name, values.map(({ labels, value }): Sample => [labels as Labels, value])] as const;
        }),
      );
      const times = [...states].flatMap(([name, state]) =>
        isOfFormerRuns(name) && typeof state !== 'function' ? [[name, samplesOf(state)] as const] : [],
      );
      return Object.fromEntries([...counted, ...times]);
    },
    contentType: registry.contentType,
    render() {
      for (const [name, state] of states) show(name, typeof state === 'function' ? state() : state);
      return registry.metrics();
    },
  };
}

const seconds = (time: Date): number => time.getTime() / 1000;

const samplesOf = (samples: Samples): readonly Sample[] => (typeof samples === 'number' ? [[{}, samples]] : samples);

/** The first common name of an RFC 2253 text; empty where it has none. */
const commonNameIn = (name: string): string =>
  (/(?:^|[,+])CN=((?:\\.|[^\\,+])*)/.exec(name)?.[1] ?? '').replaceAll(/\\(.)/g, '$1');

/** As Go prints a serial number. */
const decimal = (hex: string): string => BigInt(`0x${hex || '0'}`).toString();
