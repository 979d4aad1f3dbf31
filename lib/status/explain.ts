// One entry of an inventory in words: who signs it, who reads it, what breaks without it, what happens next and when. No
// rule of its own: it shows the inventory, the relations of trust and the plan. Pure.
import { durationText } from '../duration.ts';
import type { Artefact, ResolvedArtefact } from '../inventory/model.ts';
import { filesOf, isFile } from '../inventory/places.ts';
import { locationText } from '../store/store.ts';
import type { RelationRow } from '../trust/judge-relations.ts';
import { expiresText, residualText } from './expiry-text.ts';
import { nodeRows, type NodeStatus } from './node-report.ts';
import { whatWillBeDone } from './print.ts';
import type { StatusRow } from './report.ts';

/** Facts about this machine; absent for objects in the API. */
interface MachineSight {
  readonly status: NodeStatus;
  readonly relations: readonly RelationRow[];
}

type Part = readonly [title: string, lines: readonly string[]];

type Entry = Artefact | ResolvedArtefact;

interface Known {
  readonly sight?: MachineSight;
  /** Whether objects are renewed here before they expire. */
  readonly isOwner: boolean;
}

/** `all`: the entries of its inventory. */
export function explain(artefact: Entry, all: readonly Entry[], { sight, isOwner }: Known): string {
  const rows = sight === undefined ? [] : nodeRows(sight.status);
  const row = rows.find((one) => one.artefact === artefact.name);
  const signs = all.flatMap((one) => ('issuer' in one && one.issuer === artefact.name ? one.name : []));
  const parts: readonly Part[] = [
    [artefact.name, [`${kindText(artefact)}, ${locationText(artefact.location)}`]],
    ['STATE', row === undefined ? [] : [stateText(row)]],
    ['SIGNED BY', signerText(artefact, row, rows)],
    ['SIGNS', signs.length === 0 ? [] : [signs.join(', ')]],
    ['READ BY', readers(artefact, row)],
    ['WITHOUT IT', sight === undefined ? [] : withoutIt(artefact, sight.relations)],
    ['NEXT', sight === undefined ? livesText(artefact, isOwner) : row ? nextText(artefact, row, sight.status) : []],
  ];
  const width = Math.max(...parts.map(([title]) => title.length)) + 3;
  return parts
    .flatMap(([title, lines]) => lines.map((line, at) => `${(at === 0 ? title : '').padEnd(width)}${line}\n`))
    .join('');
}

const kinds: Readonly<Record<Entry['kind'], string>> = {
  signer: 'CA with its key',
  caBundle: 'bundle of CAs',
  composedBundle: 'bundle',
  copy: 'copy',
  target: 'certificate with its key',
  kubeconfigs: 'kubeconfigs',
  keyPair: 'key pair without certificate',
  external: 'CAs that others maintain',
  opaque: 'object that is only published',
};

function kindText(artefact: Entry): string {
  if (artefact.kind === 'target') return `${artefact.usage} ${kinds.target}`;
  if (artefact.kind === 'copy') return `${kinds.copy} of ${artefact.of}`;
  if (artefact.kind === 'composedBundle') return `${kinds.composedBundle} of ${artefact.inputs.join(', ')}`;
  return kinds[artefact.kind];
}

const stateText = ({ state, notAfter, residualMs = 0 }: StatusRow): string =>
  notAfter === undefined ? state : `${state}, expires ${expiresText(notAfter)} (${residualText(residualMs)})`;

function signerText(artefact: Entry, row: StatusRow | undefined, rows: readonly StatusRow[]): string[] {
  const issuer = row?.issuer ?? ('issuer' in artefact ? artefact.issuer : undefined);
  if (issuer === undefined) return artefact.kind === 'signer' || artefact.kind === 'target' ? ['itself'] : [];
  const ca = rows.find((one) => one.artefact === issuer);
  if (ca === undefined) return [issuer];
  return [`${issuer} (${stateText(ca)}); its key is ${ca.isForeign ? 'elsewhere' : 'here'}`];
}

const needs = { nothing: 'a change is noticed', restart: 'read at its start only' } as const;

/** Readers of the inventory, and flags of this machine that name its files. */
function readers({ readers: declared }: Entry, row: StatusRow | undefined): readonly string[] {
  const flags = row?.readBy?.flags ?? [];
  const others = flags.filter((flag) => !declared.some(({ component }) => flag.startsWith(`${component} `)));
  const own = declared.map((reader) => {
    const named = flags.filter((flag) => flag.startsWith(`${reader.component} `));
    return `${named.length === 0 ? reader.component : named.join(', ')}: ${needs[reader.needs]}`;
  });
  return own.length + others.length === 0 ? ['nothing that is known here'] : [...own, ...others];
}

/** Relations of this machine in which one of its files is a side. */
function withoutIt({ location }: Entry, relations: readonly RelationRow[]): readonly string[] {
  const files = new Set(isFile(location) ? filesOf(location).map(({ file }) => file) : []);
  const own = relations.filter(
    ({ verdict, credential, trust }) =>
      verdict !== 'notApplicable' && [credential, trust].some(({ file = '' }) => files.has(file)),
  );
  const lines = [...new Set(own.map(({ id, breaks, seen }) => `${breaks}; ${seen} (${id})`))];
  return lines.length === 0 ? ['nothing of this machine is known to break'] : lines;
}

function nextText(artefact: Entry, row: StatusRow, status: NodeStatus): readonly string[] {
  const { outlook } = row;
  const at = outlook === undefined || outlook.isBefore ? '' : `: ${expiresText(outlook.at)}`;
  const rotated = artefact.kind === 'target' ? artefact.rotatedBy : undefined;
  const isArmed = status.isArmed ? '' : ' (not armed)';
  return [
    ...(rotated === undefined ? [] : [`rotated by the ${rotated} itself after 70 to 90 % of its life; if not:`]),
    `${whatWillBeDone(row, status)}${at}${isArmed}`,
  ];
}

function livesText(artefact: Entry, isOwner: boolean): readonly string[] {
  if (artefact.kind === 'copy' && artefact.promoteAfter !== undefined)
    return [`follows it ${durationText(artefact.promoteAfter)} after that was renewed, at once where this has expired`];
  if (artefact.kind !== 'signer' && artefact.kind !== 'target') return [];
  const [validity, refresh] = [artefact.validity, artefact.refresh].map(durationText);
  if (isOwner || artefact.renewAhead === true) return [`valid for ${validity}, renewed after ${refresh}`];
  return [`valid for ${validity}; its owner renews it after ${refresh}, this program once it has expired`];
}
