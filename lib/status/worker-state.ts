// `status` of a worker, which holds no CA key: expiry of its kubelet's client certificate and of the CAs that it
// trusts, whether its units request a new certificate after that expiry, and the command that installs them. Pure.
import type { CertificateFacts } from '../pki/certificate.ts';
import { latePart } from '../well-known.ts';
import { classOf, datesOf, type RowState, type StatusClass } from './report.ts';

export interface WorkerFile {
  /** Path of the certificate, or of the kubeconfig that embeds it. */
  readonly location: string;
  readonly certificate?: CertificateFacts | undefined;
  /** Why it is unusable, and the remedy, as a sentence. */
  readonly problem?: string | undefined;
}

interface WorkerInput {
  readonly client: WorkerFile;
  readonly authorities: readonly WorkerFile[];
  readonly now: Date;
  readonly isForecast: boolean;
  /** Missing units or token, as the beginnings of sentences. */
  readonly missing: readonly string[];
  /** Command on a control-plane node that prints the command to run here. */
  readonly arming: string;
}

export interface WorkerRow extends ReturnType<typeof datesOf> {
  readonly location: string;
  readonly state: RowState;
}

export interface WorkerStatus {
  readonly node: string | undefined;
  readonly at: Date;
  readonly isForecast: boolean;
  readonly isArmed: boolean;
  readonly class: StatusClass;
  readonly client: WorkerRow;
  readonly authorities: readonly WorkerRow[];
  readonly problems: readonly string[];
  readonly notes: readonly string[];
}

export function workerReport(input: WorkerInput): WorkerStatus {
  const { client, authorities, now, isForecast, missing, arming } = input;
  const rows = [client, ...authorities].map((file) => rowOf(file, input));
  const [own = rowOf(client, input), ...others] = rows;
  const problems = [client, ...authorities].flatMap(({ problem }) => problem ?? []);
  return {
    node: client.certificate?.commonName.replace(/^system:node:/, ''),
    at: now,
    isForecast,
    isArmed: missing.length === 0,
    class: classOf(
      problems,
      rows.some(({ state }) => state !== 'OK' && state !== 'EXPIRING'),
    ),
    client: own,
    authorities: others,
    problems,
    notes: missing.map(
      (state) =>
        `${state}: nothing asks for a new certificate by itself until the command has been run here that ` +
        `"${arming}" prints on a control-plane node`,
    ),
  };
}

function rowOf({ location, certificate, problem }: WorkerFile, { client, now }: WorkerInput): WorkerRow {
  if (certificate === undefined) return { location, state: problem === undefined ? 'MISSING' : 'BROKEN' };
  const dates = { location, ...datesOf(certificate, now) };
  if (now >= certificate.notAfter) return { ...dates, state: 'EXPIRED' };
  if (problem !== undefined) return { ...dates, state: 'BROKEN' };
  const left = certificate.notAfter.getTime() - now.getTime();
  return { ...dates, state: left < announcedMs(certificate, client.certificate) ? 'EXPIRING' : 'OK' };
}

/** The kubelet's certificate is announced when its rotation is late; a CA when a new leaf would outlive it. */
function announcedMs(certificate: CertificateFacts, own: CertificateFacts | undefined): number {
  const life = ({ notBefore, notAfter }: CertificateFacts): number => notAfter.getTime() - notBefore.getTime();
  return certificate === own || own === undefined ? life(certificate) * latePart : life(own);
}
