// The report of one kubeadm machine for programs: kind, version and keys of `kubeadm certs check-expiration -o json`
// (cmd/kubeadm/app/apis/output/v1alpha3 of kubernetes/kubernetes), in its order, with keys of ours beside them. Pure.
import { toYaml } from '../yaml.ts';
import type { NodeRow, NodeStatus, ServedSight } from './node-report.ts';
import { nodeTables } from './node-tables.ts';
import type { AdoptedSight } from './adopted.ts';
import { structured as ofObjects, type StatusFormat } from './render.ts';

export function renderNode(status: NodeStatus, format: StatusFormat): string {
  switch (format) {
    case 'json':
      return `${JSON.stringify(structured(status), null, 4)}\n`;
    case 'yaml':
      return toYaml(JSON.parse(JSON.stringify(structured(status))));
    case 'table':
      break;
  }
  return nodeTables(status);
}

function structured(status: NodeStatus): Record<string, unknown> {
  return {
    kind: 'CertificateExpirationInfo',
    apiVersion: 'output.kubeadm.k8s.io/v1alpha3',
    certificates: status.certificates.map(entry),
    certificateAuthorities: status.authorities.map(entry),
    nodeCertificates: status.own.map(entry),
    served: status.served.map(servedEntry),
    inventory: status.inventory,
    at: time(status.at),
    status: status.class,
    armed: status.isArmed,
    problems: status.problems,
    notes: status.notes,
    ...(status.adopted !== undefined && { adopted: adoptedEntry(status.adopted) }),
    recheckAt: time(status.recheckAt),
  };
}

function adoptedEntry({ pods, objects, problem }: AdoptedSight): Record<string, unknown> {
  return {
    containers: pods,
    ...(objects !== undefined && { objects: ofObjects(objects) }),
    ...(problem !== undefined && { problem }),
  };
}

/** As metav1.Time: whole seconds. */
const time = (date: Date): string => date.toISOString().replace(/\.\d+Z$/, 'Z');

function entry(row: NodeRow): Record<string, unknown> {
  const { isMissing, notAfter, notBefore, issuer } = row;
  return {
    name: row.artefact,
    expirationDate: isMissing || notAfter === undefined ? null : time(notAfter),
    residualTime: isMissing ? 0 : Math.trunc((row.residualMs ?? 0) / 1000),
    externallyManaged: row.isForeign,
    ...(issuer !== undefined && !isMissing && { caName: issuer }),
    missing: isMissing,
    location: row.location,
    state: row.state,
    ...(notBefore !== undefined && { notBefore: time(notBefore) }),
    action: row.action,
    reason: row.reason,
    message: row.message,
    byHand: row.byHand,
    recheckAt: time(row.recheckAt),
    ...(row.authority !== undefined && { authority: row.authority }),
  };
}

function servedEntry({ component, address, artefact, state, notAfter, message }: ServedSight): Record<string, unknown> {
  return {
    component,
    address,
    name: artefact,
    state,
    ...(notAfter !== undefined && { expirationDate: time(notAfter) }),
    message,
  };
}
