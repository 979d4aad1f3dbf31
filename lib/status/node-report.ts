// What `status` says of one kubeadm machine: its certificates as `kubeadm certs check-expiration` lists them, the ones
// that kubeadm leaves out, and what the running servers show. Pure: the general report, read with a machine's eyes (a CA
// without its key is as it should be, a kubeconfig has a CA of its own, a NotBefore says nothing about an age).
import type { Resolved, ResolvedArtefact } from '../inventory/model.ts';
import type { CertificateFacts } from '../pki/certificate.ts';
import { type ArtefactFacts, type Facts, isClosed } from '../plan/facts.ts';
import { certificatesOf } from '../plan/facts.ts';
import { adoptedClass, adoptedProblems, type AdoptedSight, worse } from './adopted.ts';
import { report, type ReportInput, type RowState, type StatusClass, type StatusRow } from './report.ts';

/** A row of the general report; `isForeign` says that its CA's key is not on this machine. */
export interface NodeRow extends StatusRow {
  /** No certificate file: as kubeadm sees it, also where the key is there. An optional one may be missing. */
  readonly isMissing: boolean;
  /** Of a kubeconfig: whether it knows its server by the CA of its issuer's file. What comes of it the plan decides. */
  readonly authority?: 'same' | 'different';
  /** It has ended or is broken, and nothing here can make a new one. */
  readonly byHand: boolean;
}

/** What a server of this machine shows, held against the file that it reads. */
export interface ServedSight {
  readonly component: string;
  readonly address: string;
  readonly artefact: string;
  readonly state: 'same' | 'different' | 'unreachable';
  readonly notAfter?: Date;
  /** What was met; for `different` also what makes the process read its file again. */
  readonly message: string;
}

export interface NodeStatus {
  readonly inventory: string;
  /** The time that the report speaks of. */
  readonly at: Date;
  /** Another time than now was asked for. */
  readonly isForecast: boolean;
  readonly class: StatusClass;
  /** Whether something on this machine puts right what can be put right. */
  readonly isArmed: boolean;
  readonly problems: readonly string[];
  /** Those of kubeadm, sorted by name as kubeadm does. */
  readonly certificates: readonly NodeRow[];
  readonly authorities: readonly NodeRow[];
  /** What kubeadm leaves out: the kubelet's, and what the inventory has besides. */
  readonly own: readonly NodeRow[];
  /** Empty in a forecast: nobody knows what will be served. */
  readonly served: readonly ServedSight[];
  /** Of an adopted machine. */
  readonly adopted?: AdoptedSight;
  /** What else is to be known: what could not be found out about this machine, what is not installed on it. */
  readonly notes: readonly string[];
  readonly recheckAt: Date;
}

/** Names in cmd/kubeadm/app/phases/certs/certlist.go and phases/certs/renewal/manager.go of kubernetes/kubernetes. */
const ofKubeadm: ReadonlySet<string> = new Set([
  'admin.conf',
  'apiserver',
  'apiserver-etcd-client',
  'apiserver-kubelet-client',
  'controller-manager.conf',
  'etcd-healthcheck-client',
  'etcd-peer',
  'etcd-server',
  'front-proxy-client',
  'scheduler.conf',
  'super-admin.conf',
]);

/** kubeadm puts it on every control-plane node, so who misses it is told; super-admin.conf is on the first one only. */
const administrator = 'admin.conf';

export interface NodeInput extends ReportInput {
  readonly isForecast?: boolean;
  readonly served?: readonly ServedSight[];
  readonly notes?: readonly string[];
  /** Default: true. */
  readonly isArmed?: boolean;
  readonly adopted?: AdoptedSight;
  /** Artefacts of which only the key is there. */
  readonly keyOnly?: ReadonlySet<string>;
}

export function nodeReport(input: NodeInput): NodeStatus {
  const { resolved, served = [], notes = [], isForecast = false, isArmed = true, adopted } = input;
  const general = report(input);
  const artefacts = new Map(resolved.artefacts.map((artefact) => [artefact.name, artefact]));
  const rows = general.rows
    .flatMap((row) => {
      const artefact = artefacts.get(row.artefact);
      return artefact === undefined ? [] : [nodeRow(row, artefact, input)];
    })
    .toSorted((a, b) => (a.artefact < b.artefact ? -1 : 1)); // by code unit, as Go sorts
  const authorities = rows.filter(({ kind }) => kind === 'signer');
  const certificates = rows.filter(({ artefact }) => ofKubeadm.has(artefact));
  const ofFiles = general.class === 'healthy' && served.some(isDifferent) ? 'recovering' : general.class;
  return {
    inventory: general.inventory,
    at: general.at,
    isForecast,
    isArmed,
    class: adopted === undefined ? ofFiles : worse(ofFiles, adoptedClass(adopted)),
    problems: [...general.problems, ...(adopted === undefined ? [] : adoptedProblems(adopted))],
    ...(adopted !== undefined && { adopted }),
    certificates,
    authorities,
    own: rows.filter(
      (row) => !authorities.includes(row) && !certificates.includes(row) && !isNoConcern(row, artefacts, input.facts),
    ),
    served,
    notes: [...notes, ...absenceNotes(certificates, artefacts)],
    recheckAt: general.recheckAt,
  };
}

export const rowsOf = ({ certificates, authorities, own }: NodeStatus): readonly NodeRow[] => [
  ...certificates,
  ...authorities,
  ...own,
];

export const isDifferent = ({ state }: ServedSight): boolean => state === 'different';

function absenceNotes(
  certificates: readonly NodeRow[],
  artefacts: ReadonlyMap<string, ResolvedArtefact>,
): readonly string[] {
  const row = certificates.find(({ artefact }) => artefact === administrator);
  const declared = artefacts.get(administrator);
  if (row?.isMissing !== true || declared?.kind !== 'target' || declared.presence !== 'optional') return [];
  return [
    `${administrator} is absent, and stays so: nothing of the control plane reads it. For a new one run ` +
      `"kubeadm init phase kubeconfig admin"; the last copy of a replaced one comes back by ` +
      `"kube-cert-recovery restore ${administrator}"`,
  ];
}

/** An option that is not there, or the end of what nobody reads because its successor is there. */
function isNoConcern(
  { artefact, isMissing, state }: NodeRow,
  artefacts: ReadonlyMap<string, ResolvedArtefact>,
  facts: Facts,
): boolean {
  const declared = artefacts.get(artefact);
  if (declared?.kind !== 'target') return false;
  if (isMissing) return declared.presence === 'optional';
  if (state === 'OK') return false;
  const successor = declared.supersededBy === undefined ? undefined : facts.get(declared.supersededBy);
  return successor !== undefined && successor.state !== 'absent';
}

function nodeRow(
  row: StatusRow,
  artefact: ResolvedArtefact,
  { facts, plan, now, resolved, keyOnly }: NodeInput,
): NodeRow {
  const fact: ArtefactFacts = facts.get(artefact.name) ?? { state: 'unavailable', message: '' };
  const [certificate] = certificatesOf(fact);
  const isMissing = fact.state === 'absent' || keyOnly?.has(artefact.name) === true;
  const state = stateOf({ row, artefact, fact, isMissing, certificate, now, resolved });
  const signer = artefact.kind === 'target' ? artefact.issuer : artefact.name;
  // As kubeadm: what is not there is managed by nobody.
  const isForeign = !isMissing && signer !== undefined && isElsewhere(facts.get(signer));
  const authority = authorityOf(artefact, fact, facts);
  return {
    ...row,
    state,
    isMissing,
    isForeign,
    byHand: plan.decisions.some((decision) => decision.artefact === artefact.name && decision.byHand === true),
    ...(certificate !== undefined && {
      notBefore: certificate.notBefore,
      notAfter: certificate.notAfter,
      residualMs: certificate.notAfter.getTime() - now.getTime(),
    }),
    ...(authority !== undefined && { authority }),
  };
}

/** A CA certificate without its key on this machine: what it signs is managed elsewhere. */
function isElsewhere(fact: ArtefactFacts | undefined): boolean {
  return fact !== undefined && isClosed(fact);
}

function authorityOf(artefact: ResolvedArtefact, fact: ArtefactFacts, facts: Facts): NodeRow['authority'] {
  if (artefact.kind !== 'target' || artefact.issuer === undefined) return undefined;
  if (fact.state !== 'present' || fact.authorities === undefined) return undefined;
  const signer = facts.get(artefact.issuer);
  const [authority] = signer === undefined ? [] : certificatesOf(signer);
  if (authority === undefined) return undefined;
  return fact.authorities.includes(authority.fingerprint) ? 'same' : 'different';
}

interface Judged {
  readonly row: StatusRow;
  readonly artefact: ResolvedArtefact;
  readonly fact: ArtefactFacts;
  readonly isMissing: boolean;
  readonly certificate: CertificateFacts | undefined;
  readonly now: Date;
  readonly resolved: Resolved;
}

function stateOf({ row, artefact, fact, isMissing, certificate, now, resolved }: Judged): RowState {
  if (fact.state === 'unavailable') return 'UNKNOWN';
  if (isMissing) return 'MISSING';
  if (fact.state === 'broken' && fact.problem === 'foreign') return 'OK'; // others keep it, and nothing is known of it
  const isWhole = fact.state === 'present' || (artefact.kind === 'signer' && isElsewhere(fact));
  if (!isWhole || certificate === undefined) return isWhole ? row.state : 'BROKEN';
  if (now >= certificate.notAfter) return 'EXPIRED';
  if (now < certificate.notBefore) return 'NOT YET VALID';
  if (row.action !== 'keep') return row.state === 'EXPIRING' ? 'EXPIRING' : 'BROKEN';
  const left = certificate.notAfter.getTime() - now.getTime();
  return left < warningMs(artefact, certificate, resolved) ? 'EXPIRING' : 'OK';
}

const lastPart = 0.2;

/**
 * From how much remaining time on an end is announced. A kubeconfig's NotBefore may be its CA's, so the declared validity
 * bounds its life. A CA is announced when a leaf made now would outlive it.
 */
function warningMs(
  artefact: ResolvedArtefact,
  { notBefore, notAfter }: CertificateFacts,
  { artefacts }: Resolved,
): number {
  const life = notAfter.getTime() - notBefore.getTime();
  if (artefact.kind === 'target') return Math.min(life, artefact.validity) * lastPart;
  const leaves = artefacts.flatMap((row) =>
    row.kind === 'target' && row.issuer === artefact.name ? [row.validity] : [],
  );
  return Math.min(life * lastPart, ...(leaves.length === 0 ? [] : [Math.max(...leaves)]));
}
