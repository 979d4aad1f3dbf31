// `status` of one kubeadm machine: its certificates as `kubeadm certs check-expiration` lists them, those that kubeadm
// omits, and the certificates that running servers show. Pure: the general report, adapted to a machine (a CA without
// its key is healthy, a kubeconfig has a CA of its own, a NotBefore proves no age).
import type { Resolved, ResolvedArtefact } from '../inventory/model.ts';
import {
  type ArtefactFacts,
  certificatesOf,
  displayedCertificate,
  type Facts,
  isClosed,
  precedenceText,
  usableCertificates,
} from '../plan/facts.ts';
import { otherIdentity } from '../inventory/fitness.ts';
import {
  classOf,
  datesOf,
  isKeptByOthers,
  report,
  type ReportInput,
  type StatusReport,
  type StatusRow,
  tellEach,
  type Told,
} from './report.ts';
import { adoptedProblems, type AdoptionStatus } from './adoption-report.ts';
import { repairLimits } from './repair-limits.ts';
import { outlookOf } from './outlook.ts';
import { rowStateOf } from './row-state.ts';
import type { FormerFile } from '../restart/loaded.ts';
import { filesOf, isFile, pathOf } from '../inventory/places.ts';
import { formerText, isRestartedByItself } from './former-text.ts';
import { nextCommand } from '../next-command.ts';

/** Certificate that a server of this machine serves, compared with the file that it reads. */
export interface ServedCertificate {
  readonly component: string;
  readonly address: string;
  readonly artefact: string;
  /** `inMemory`: the server has made it itself, and no file holds it. */
  readonly state: 'same' | 'different' | 'unreachable' | 'inMemory';
  readonly notAfter?: Date | undefined;
  /** Set for an in-memory certificate that expires soon or has expired. */
  readonly ends?: 'EXPIRING' | 'EXPIRED';
  /** Earliest time of the server's restart for it. */
  readonly restartsAt?: Date;
  /** Result of the handshake; for `different` also the step that makes the process read its file again. */
  readonly message: string;
}

export interface NodeStatus extends Omit<StatusReport, 'apiProblem' | 'rows' | 'webhooks'> {
  /** Whether the report is for another time than now. */
  readonly isForecast: boolean;
  /** Whether units of this machine repair it automatically. */
  readonly isArmed: boolean;
  /** What keeps it from being armed, else what that rests on. */
  readonly reasons: readonly string[];
  /** Where it is not armed, the part of the units that repairs it all the same. */
  readonly stillRepairs?: 'start' | 'timer' | undefined;
  /** The command that arms it, as a sentence. */
  readonly remedy: string;
  /** Service whose start waits for the repair: `the kubelet`. */
  readonly starter: string;
  /** Certificates that kubeadm lists, and CAs, sorted by name as kubeadm does. */
  readonly certificates: readonly StatusRow[];
  readonly authorities: readonly StatusRow[];
  /** Certificates that kubeadm omits: the kubelet's, and others of the inventory. */
  readonly own: readonly StatusRow[];
  /** Empty in a forecast: future servers are unknown. */
  readonly served: readonly ServedCertificate[];
  /** Files whose current content running components have not loaded. Empty in a forecast. */
  readonly former: readonly FormerFile[];
  /** Adopted machines only: objects and containers. */
  readonly adopted?: AdoptionStatus | undefined;
  /** Further notes: unknown facts of this machine. */
  readonly notes: readonly string[];
}

interface NodeInput extends ReportInput, Partial<Pick<NodeStatus, 'reasons' | 'remedy' | 'stillRepairs'>> {
  readonly isForecast?: boolean;
  readonly served?: readonly ServedCertificate[];
  readonly notes?: readonly string[];
  /** Components that run with a former CA, and who must restart them. */
  readonly stale?: readonly string[];
  readonly former?: readonly FormerFile[];
  /** A sentence where this machine has lost the address of its API server. */
  readonly addressGone?: string | undefined;
  /** Default: true. */
  readonly isArmed?: boolean | undefined;
  /** Default: `the kubelet`. */
  readonly starter?: string | undefined;
  readonly adopted?: AdoptionStatus | undefined;
  /** Artefact whose outlook is wanted although nothing is announced. */
  readonly explained?: string | undefined;
  /** Artefacts whose key exists without its certificate. */
  readonly keyOnly?: ReadonlySet<string>;
}

export function nodeReport(input: NodeInput): NodeStatus {
  const { served = [], former = [], notes = [], isForecast = false, isArmed = true, adopted } = input;
  const { starter = 'the kubelet', reasons = [], remedy = '' } = input;
  const each = tellEach(input);
  const { inventory, at, recheckAt, ...general } = report(input, each);
  const told = each
    .map(({ artefact, row }): Told => ({ artefact, row: nodeRow(row, artefact, input) }))
    .toSorted((a, b) => (a.row.artefact < b.row.artefact ? -1 : 1)); // by code unit, as Go sorts
  const listed = told.filter(({ artefact }) => artefact.kind === 'target' && artefact.listedBy !== undefined);
  const authorities = told.filter(
    ({ artefact }) =>
      (artefact.kind === 'signer' && artefact.listedBy !== undefined) ||
      (artefact.kind === 'external' && artefact.followedAs !== undefined),
  );
  const own = told.filter(
    (one) => !listed.includes(one) && !authorities.includes(one) && !isNoConcern(one, input.facts),
  );
  const problems = [
    ...general.problems,
    ...(input.addressGone === undefined ? [] : [input.addressGone]),
    ...(input.stale ?? []),
    ...former.filter((one) => !isRestartedByItself(one)).map(formerText),
    ...(adopted === undefined ? [] : adoptedProblems(adopted)),
  ];
  const isRecovering =
    [general.class, adopted?.objects?.class].includes('recovering') ||
    served.some((one) => isDifferent(one) || one.ends === 'EXPIRED') ||
    former.length > 0 ||
    adopted?.pods.some(({ state }) => state === 'waiting') === true;
  const rowsOf = (group: readonly Told[]): StatusRow[] => group.map(({ row }) => row);
  return {
    inventory,
    at,
    isForecast,
    isArmed,
    reasons: isArmed ? [...reasons, ...repairLimits({ authorities: rowsOf(authorities), adopted })] : reasons,
    stillRepairs: input.stillRepairs,
    remedy,
    starter,
    class: classOf(problems, isRecovering),
    problems,
    adopted,
    certificates: rowsOf(listed),
    authorities: rowsOf(authorities),
    own: rowsOf(own),
    served,
    former,
    notes: [
      ...notes,
      ...listed.flatMap(absenceNote),
      ...told.flatMap((one) => unapprovedNote(one, told)),
      ...told.flatMap((one) => identityNote(one, input.facts)),
      ...told.flatMap((one) => precedenceNote(one, input.facts)),
      ...told.flatMap((one) => noteOfOthers(one, input.facts)),
    ],
    recheckAt,
  };
}

export const nodeRows = ({ certificates, authorities, own }: NodeStatus): readonly StatusRow[] => [
  ...certificates,
  ...authorities,
  ...own,
];

export const isDifferent = ({ state }: ServedCertificate): boolean => state === 'different';

/** Working foreign credentials need no action, but must not be taken for credentials of this cluster. */
function noteOfOthers({ artefact, row }: Told, facts: Facts): readonly string[] {
  const fact = facts.get(artefact.name);
  const isKept = fact !== undefined && isKeptByOthers(fact) && row.action === 'keep';
  return isKept ? [`${artefact.name}: ${row.message}`] : [];
}

function absenceNote({ artefact, row }: Told): readonly string[] {
  if (artefact.kind !== 'target' || row.state !== 'MISSING' || artefact.presence !== 'optional') return [];
  const { name, regainedBy } = artefact;
  if (regainedBy === undefined) return [];
  return [
    `${name} is absent, and stays so: nothing of the control plane reads it. For a new one run "${regainedBy}"; the ` +
      `last copy of a replaced one comes back by "${nextCommand(`restore ${name}`)}"`,
  ];
}

/** A kubelet with neither serving certificate does not make one by itself: it has requested one (serverTLSBootstrap). */
function unapprovedNote({ artefact, row }: Told, told: readonly Told[]): readonly string[] {
  if (artefact.kind !== 'target' || artefact.supersededBy === undefined || row.state !== 'MISSING') return [];
  const requested = told.find((one) => one.artefact.name === artefact.supersededBy);
  if (requested?.row.state !== 'MISSING') return [];
  return [
    'the kubelet has no serving certificate, so "kubectl logs" and "exec" fail for this node: its request waits for ' +
      'approval, which "kubectl get csr" shows (docs/approver.md)',
  ];
}

function identityNote({ artefact, row }: Told, facts: Facts): readonly string[] {
  const [certificate] = usableCertificates(facts.get(artefact.name));
  if (artefact.kind !== 'target' || certificate === undefined) return [];
  const other = otherIdentity(artefact, certificate);
  if (other === undefined) return [];
  return [`${row.artefact} is ${other}: its component works with the rights of that user, and a renewal keeps them`];
}

function precedenceNote({ artefact: { name } }: Told, facts: Facts): readonly string[] {
  const order = precedenceText(facts.get(name));
  return order === undefined ? [] : [`${name}: ${order}`];
}

/** Whether a row needs no attention: an absent optional artefact, or a superseded one whose successor exists. */
function isNoConcern({ artefact, row: { state } }: Told, facts: Facts): boolean {
  if (artefact.kind !== 'target') return false;
  if (state === 'MISSING') return artefact.presence === 'optional';
  if (state === 'OK') return false;
  const successor = artefact.supersededBy === undefined ? undefined : facts.get(artefact.supersededBy);
  return successor !== undefined && successor.state !== 'absent';
}

function nodeRow(row: StatusRow, artefact: ResolvedArtefact, input: NodeInput): StatusRow {
  const { facts, now, keyOnly } = input;
  const fact: ArtefactFacts = facts.get(artefact.name) ?? { state: 'unavailable', message: '' };
  const certificate = displayedCertificate(artefact, fact);
  const isMissing = fact.state === 'absent' || keyOnly?.has(artefact.name) === true;
  const signer = facts.get((artefact.kind === 'target' ? artefact.issuer : artefact.name) ?? '');
  const state = isMissing ? 'MISSING' : rowStateOf(row, artefact, fact, input);
  const ending = { ...row, ...(certificate && datesOf(certificate, now)) };
  const isAnnounced = (state === 'EXPIRING' || row.artefact === input.explained) && row.action === 'keep';
  return {
    ...row,
    state,
    // As in kubeadm: an absent certificate is not managed externally. A CA without its key on this machine is.
    isForeign: !isMissing && isClosed(signer),
    ...(certificate && datesOf(certificate, now)),
    authority: authorityOf(artefact, fact, facts),
    readBy: readBy(artefact, input.resolved),
    // No CA of this machine signs it.
    ...(artefact.kind === 'target' && artefact.obtainedBy !== undefined && { issuer: certificate?.issuer }),
    ...(isAnnounced && { outlook: outlookOf(ending, input.replan) }),
  };
}

/** Flags that name a file of the artefact. */
function readBy({ location }: ResolvedArtefact, { flagsByFile: named }: Resolved): StatusRow['readBy'] {
  if (named === undefined || !isFile(location)) return undefined;
  const flags = new Set(filesOf(location).flatMap(({ file }) => named[file] ?? []));
  return { file: pathOf(location), flags: [...flags] };
}

function authorityOf(artefact: ResolvedArtefact, fact: ArtefactFacts, facts: Facts): StatusRow['authority'] {
  if (artefact.kind !== 'target' || artefact.issuer === undefined) return undefined;
  if (fact.state !== 'present' || fact.authorities === undefined) return undefined;
  const [authority] = certificatesOf(facts.get(artefact.issuer));
  if (authority === undefined) return undefined;
  return fact.authorities.includes(authority.fingerprint) ? 'same' : 'different';
}
