// Metrics in the Prometheus text form, in a registry of their own. Home of prom-client, which is loaded only when
// metrics are created; a process without a metrics address uses `noMetrics` and does not pay for it.
import type { Counter, Gauge } from 'prom-client';

interface CertificateLabels {
  /** Name in the inventory. */
  readonly artefact: string;
  readonly location: string;
}

type WriteResult = 'written' | 'conflict' | 'failed';

export interface Metrics {
  /** The dates of an artefact's certificate (of a bundle: the first to expire); undefined: there is none now. */
  certificate(
    labels: CertificateLabels,
    dates: { readonly notBefore: Date; readonly notAfter: Date } | undefined,
  ): void;
  /** One attempt to write an artefact. */
  wrote(mode: string, result: WriteResult): void;
  /** One failure of a mode, with its error code. */
  failed(mode: string, code: string): void;
  /** A request for a certificate was approved, so long after it was created. */
  approved(signer: string, seconds: number): void;
  /** Sets the requests that are pending now, each with its reason. */
  pending(requests: readonly { readonly signer: string; readonly reason: string }[]): void;
  readonly contentType: string;
  render(): Promise<string>;
}

export const noMetrics: Metrics = {
  certificate() {},
  wrote() {},
  failed() {},
  approved() {},
  pending() {},
  contentType: 'text/plain',
  render: () => Promise.resolve(''),
};

interface MetricsOptions {
  readonly version: string;
  /** The modes that run here: their counters begin at 0, so that a first failure is an increase. */
  readonly modes: readonly string[];
}

const writeResults: readonly WriteResult[] = ['written', 'conflict', 'failed'];

export async function createMetrics({ version, modes }: MetricsOptions): Promise<Metrics> {
  // The package is CommonJS: bundled, it has its names on the default export only.
  const { default: prometheus } = await import('prom-client');
  const registry = new prometheus.Registry();
  const registers = [registry];
  const gauge = <T extends string>(name: string, help: string, labelNames: readonly T[]): Gauge<T> =>
    new prometheus.Gauge({ name, help, labelNames, registers });
  const counter = <T extends string>(name: string, help: string, labelNames: readonly T[]): Counter<T> =>
    new prometheus.Counter({ name, help, labelNames, registers });

  const notBefore = gauge('x509_cert_not_before', 'Start of validity, Unix time in seconds', ['artefact', 'location']);
  const notAfter = gauge('x509_cert_not_after', 'End of validity, Unix time in seconds', ['artefact', 'location']);
  const writes = counter('kube_cert_recovery_writes_total', 'Attempts to write an artefact', ['mode', 'result']);
  const failures = counter('kube_cert_recovery_failures_total', 'Failures by error code', ['mode', 'code']);
  const pending = gauge('kube_cert_recovery_requests_pending', 'Requests that are left, by reason', [
    'signer',
    'reason',
  ]);
  // A kubelet waits for 15 minutes (pkg/kubelet/certificate/bootstrap), and requests again.
  const buckets = [1, 2, 5, 10, 30, 60, 300, 900, 3600];
  const decision = { name: 'kube_cert_recovery_request_seconds', help: 'From a request to its approval', buckets };
  const labelNames = ['signer'] as const;
  const seconds = modes.includes('approver')
    ? new prometheus.Histogram({ ...decision, labelNames, registers })
    : undefined;
  gauge('kube_cert_recovery_build_info', 'Always 1; the version is a label', ['version']).set({ version }, 1);
  for (const mode of modes) for (const result of writeResults) writes.inc({ mode, result }, 0);

  return {
    certificate({ artefact, location }, dates) {
      const labels = { artefact, location };
      if (dates === undefined) {
        notBefore.remove(labels);
        notAfter.remove(labels);
        return;
      }
      notBefore.set(labels, dates.notBefore.getTime() / 1000);
      notAfter.set(labels, dates.notAfter.getTime() / 1000);
    },
    wrote: (mode, result) => writes.inc({ mode, result }),
    failed: (mode, code) => failures.inc({ mode, code }),
    approved: (signer, took) => seconds?.observe({ signer }, took),
    pending(requests) {
      pending.reset();
      for (const { signer, reason } of requests) pending.inc({ signer, reason });
    },
    contentType: registry.contentType,
    render: () => registry.metrics(),
  };
}
