// What `status` says of a worker, which holds no CA key: the ends of its kubelet's client certificate and of the CAs that it
// knows, whether something asks for a new certificate when the present one has expired, and what to do where nothing does.
// Pure.
import type { CertificateFacts } from '../pki/certificate.ts';
import { latePart } from '../well-known.ts';
import { classOf, datesOf, type RowState, type StatusClass } from './report.ts';

export interface WorkerFile {
  /** A path, or the kubeconfig that holds it. */
  readonly location: string;
  readonly certificate?: CertificateFacts | undefined;
  /** Why it is of no use, and what helps, as a sentence. */
  readonly problem?: string | undefined;
}

interface WorkerInput {
  readonly client: WorkerFile;
  readonly authorities: readonly WorkerFile[];
  readonly now: Date;
  readonly isForecast: boolean;
  /** Which units or token are missing, as the beginnings of sentences. */
  readonly missing: readonly string[];
  /** The command of a control-plane node that prints what to run here. */
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

/** The kubelet's when the kubelet is late to rotate it; a CA when a certificate made now would outlive it. */
function announcedMs(certificate: CertificateFacts, own: CertificateFacts | undefined): number {
  const life = ({ notBefore, notAfter }: CertificateFacts): number => notAfter.getTime() - notBefore.getTime();
  return certificate === own || own === undefined ? life(certificate) * latePart : life(own);
}
