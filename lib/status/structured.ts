// Reports of `status` for programs: keys of `kubeadm certs check-expiration -o json`
// (cmd/kubeadm/app/apis/output/v1alpha3 of kubernetes/kubernetes), which scripts filter on
// (`.certificates[?(@.residualTime<604800)]`), with our keys next to them. In the order of printing; undefined keys are
// left out. Pure.
import { secondsText } from '../clock.ts';
import type { NodeStatus, ServedCertificate } from './node-report.ts';
import { program } from '../program.ts';
import type { FormerFile } from '../restart/loaded.ts';
import { formerText } from './former-text.ts';
import { groupsOf, type StatusReport, type StatusRow } from './report.ts';
import { apiVersion } from '../well-known.ts';
import { toYaml } from '../yaml.ts';

export type StatusFormat = 'table' | 'json' | 'yaml';

/** Text in this format, without undefined keys, as in JSON. */
export function structured(info: object, format: Exclude<StatusFormat, 'table'>, indent: number): string {
  const json = JSON.stringify(info, undefined, indent);
  return format === 'json' ? `${json}\n` : toYaml(JSON.parse(json));
}

export function objectInfo(status: StatusReport): object {
  const { certificates, authorities, others } = groupsOf(status);
  return {
    apiVersion,
    kind: 'CertificateExpirationInfo',
    inventory: status.inventory,
    at: status.at,
    status: status.class,
    problems: status.problems,
    recheckAt: status.recheckAt,
    certificates: certificates.map(objectEntry),
    certificateAuthorities: authorities.map(objectEntry),
    objects: others.map(objectEntry),
    admissionWebhooks: status.webhooks,
    program,
  };
}

function objectEntry(row: StatusRow): object {
  const { artefact, notAfter, issuer, isForeign, kind, location, state, notBefore, onDisk, inUse } = row;
  return {
    name: artefact,
    expirationDate: notAfter,
    residualTime: residualSeconds(row),
    caName: issuer,
    externallyManaged: isForeign,
    missing: state === 'MISSING',
    kind,
    location,
    state,
    notBefore,
    ...decisionOf(row),
    recheckAt: row.recheckAt,
    onDisk,
    inUse,
  };
}

/** One kubeadm machine, with kubeadm's kind and version. */
export function nodeInfo({ adopted, ...status }: NodeStatus): object {
  return {
    kind: 'CertificateExpirationInfo',
    apiVersion: 'output.kubeadm.k8s.io/v1alpha3',
    certificates: status.certificates.map(nodeEntry),
    certificateAuthorities: status.authorities.map(nodeEntry),
    nodeCertificates: status.own.map(nodeEntry),
    served: status.served.map(servedEntry),
    notLoaded: status.former.map(formerEntry),
    inventory: status.inventory,
    at: secondsText(status.at),
    status: status.class,
    armed: status.isArmed,
    reasons: status.reasons,
    problems: status.problems,
    notes: status.notes,
    adopted: adopted && {
      containers: adopted.pods,
      objects: adopted.objects && objectInfo(adopted.objects),
      problem: adopted.problem,
    },
    recheckAt: secondsText(status.recheckAt),
    program,
  };
}

function nodeEntry(row: StatusRow): object {
  const { artefact, notAfter, issuer, isForeign, location, state, notBefore, byHand, authority } = row;
  return {
    name: artefact,
    expirationDate: notAfter === undefined ? null : secondsText(notAfter),
    residualTime: residualSeconds(row),
    externallyManaged: isForeign,
    caName: state === 'MISSING' ? undefined : issuer,
    missing: state === 'MISSING',
    location,
    state,
    notBefore: notBefore && secondsText(notBefore),
    ...decisionOf(row),
    byHand,
    recheckAt: secondsText(row.recheckAt),
    renewsAt: row.renewsAt && secondsText(row.renewsAt),
    authority,
    readBy: row.readBy?.flags,
  };
}

const residualSeconds = ({ residualMs = 0 }: Pick<StatusRow, 'residualMs'>): number => Math.trunc(residualMs / 1000);

const decisionOf = ({ action, reason, message }: StatusRow): object => ({ action, reason, message });

function servedEntry({ component, address, artefact, state, notAfter, message }: ServedCertificate): object {
  return { component, address, name: artefact, state, expirationDate: notAfter && secondsText(notAfter), message };
}

function formerEntry(one: FormerFile): object {
  const { artefact, component, process, file, state, changedAt, until, restartsAt } = one;
  return {
    name: artefact,
    component,
    process: process.pid,
    location: file,
    state,
    changedAt: secondsText(changedAt),
    expirationDate: until && secondsText(until),
    restartsAt: restartsAt && secondsText(restartsAt),
    message: formerText(one),
  };
}
