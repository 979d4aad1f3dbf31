// Entries for files that flags of the components name and the inventory does not list, and for settings that could not be
// followed to the files they name. Pure.
import type { ComponentName } from '../components.ts';
import type { FileOfFlag } from './file-flags.ts';
import type { Artefact, Location } from './model.ts';
import { filesOf, isFile } from './places.ts';
import { withKeysOfFlags, withSharedFiles } from './keys-of-flags.ts';

const year = 365 * 24 * 3_600_000;
/** kubeadm's lives (cmd/kubeadm/app/apis/kubeadm/v1beta4: CertificateValidityPeriod, CACertificateValidityPeriod). */
const lives = { leaf: { validity: year, refresh: 0.8 * year }, signer: { validity: 10 * year, refresh: 8 * year } };

/** Returns the declared entries, and one for each other file that a component reads. */
export function withFlagEntries(declared: readonly Artefact[], named: readonly FileOfFlag[]): readonly Artefact[] {
  const taken = new Set(declared.flatMap(({ location }) => pathsIn(location)));
  const names = new Set(declared.map(({ name }) => name));
  const added: Artefact[] = [];
  for (const one of named) {
    const base = `${one.component}-${one.flag}`;
    const isTaken = taken.has(one.file) && !isOtherTrust(one, declared, added);
    const entry = isTaken ? undefined : entryOf(one, unusedName(base, names));
    if (entry === undefined) continue;
    added.push(entry);
    names.add(entry.name);
    for (const path of pathsIn(entry.location)) taken.add(path);
  }
  const files: FilesHere = {
    signedBy: new Map(named.map(({ file, issuer }) => [file, issuer])),
    tokenKeys: new Set(named.flatMap(({ role, file }) => (role.holds === 'tokenKey' ? [file] : []))),
    names: new Set(declared.map(({ name }) => name)),
  };
  const all = [...declared, ...added].map((one) => withSharedFiles(withIssuer(one, files), named));
  return withKeysOfFlags(all, named, (base) => unusedName(base, names));
}

/** Whether a bundle in another entry's file needs its own entry: that entry signs for none of the component's peers. */
function isOtherTrust(
  { component, flag, role, file }: FileOfFlag,
  declared: readonly Artefact[],
  added: readonly Artefact[],
): boolean {
  const isHere = ({ location }: Artefact): boolean => pathsIn(location).includes(file);
  if (role.holds !== 'bundle' || added.some((one) => one.kind === 'external' && isHere(one))) return false;
  const holders = new Set(declared.filter(isHere).map(({ name }) => name));
  return declared.some(
    (one) =>
      one.kind === 'target' &&
      one.knownBy?.some((by) => by.component === component && by.flag === flag) === true &&
      !holders.has(one.issuer ?? ''),
  );
}

interface FilesHere {
  readonly signedBy: ReadonlyMap<string, string | undefined>;
  readonly tokenKeys: ReadonlySet<string>;
  readonly names: ReadonlySet<string>;
}

/**
 * Returns a target with its issuer. Where a flag leads elsewhere, the signer of the certificate there counts, not the
 * declared one. A certificate with a key of the service accounts has none, so that it is never renewed: a new key
 * invalidates every token.
 */
function withIssuer(artefact: Artefact, { signedBy, tokenKeys, names }: FilesHere): Artefact {
  if (artefact.kind !== 'target') return artefact;
  const paths = pathsIn(artefact.location);
  const { issuer: usual, ...others } = artefact;
  if (paths.some((path) => tokenKeys.has(path))) return { ...others, ...elsewhere };
  if (!('isElsewhere' in artefact)) return artefact;
  const signer = paths.flatMap((path) => signedBy.get(path) ?? [])[0] ?? usual;
  return signer === undefined || !names.has(signer) ? others : { ...artefact, issuer: signer };
}

const pathsIn = (location: Location): readonly string[] =>
  isFile(location) ? filesOf(location).map(({ file }) => file) : [];

function unusedName(base: string, names: ReadonlySet<string>): string {
  let name = base;
  for (let count = 2; names.has(name); count += 1) name = `${base}-${count}`;
  return name;
}

/** Makes no entry where no certificate shows that it belongs there: a damaged manifest may name any path. */
function entryOf({ component, role, file, keyFile = file, issuer }: FileOfFlag, name: string): Artefact | undefined {
  const readers = [{ component, needs: 'nothing', proof: { kind: 'none' } }] as const;
  const leaf = {
    ...elsewhere,
    ...lives.leaf,
    name,
    kind: 'target',
    template: 'present',
    organizations: [],
    hostnames: [],
    ...(issuer !== undefined && { issuer }),
  } as const;
  const pair = { kind: 'pemPair', certFile: file, keyFile } as const;
  switch (role.holds) {
    case 'pair':
      return { ...leaf, usage: role.usage, location: pair, readers };
    case 'directory': // its component makes the pair where no flag names another
      return { ...leaf, usage: 'serving', presence: 'optional', location: pair, readers };
    case 'kubeconfig':
    case 'webhook': {
      const location = { kind: 'kubeconfig', file, endpoint: 'local', context: 'current' } as const;
      const client = { ...leaf, usage: 'client', location, readers } as const;
      // A started process has no use for an optional file, and credentials for a webhook are no identity here.
      if (role.holds === 'webhook') return client;
      if (role.isOptional === true) return { ...client, presence: 'optional' };
      return { ...client, readers: [{ ...readers[0], needs: 'restart' }] };
    }
    case 'signer':
      return { kind: 'signer', name, owned: false, location: pair, ...lives.signer, readers };
    case 'bundle':
      return { kind: 'external', name, location: { kind: 'pemFile', file }, readers };
    case 'configuration':
    case 'key':
    case 'tokenKey':
    case 'nothing':
      return undefined;
  }
}

/** Marks of an entry outside the usual places: only a signature shows its signer, and it is never made from nothing. */
const elsewhere = { mayBeOfOthers: true, isElsewhere: true } as const;

/** `file`: the manifest, the unit or the configuration that has them; `message`: all its problems, and the remedy. */
export interface UnreadSettings {
  readonly component: ComponentName;
  /** Whether the whole manifest is broken, or only its setting of a file. */
  readonly scope: 'manifest' | 'settings';
  readonly file: string;
  readonly message: string;
}

/** Returns the entries, and one for each component whose settings could not be read. */
export function withUnreadEntries(
  artefacts: readonly Artefact[],
  unread: readonly UnreadSettings[],
): readonly Artefact[] {
  const names = new Set(artefacts.map(({ name }) => name));
  const added = unread.map(({ component, scope, file, message }): Artefact => {
    const base = `${component}-${scope}`;
    const entry = {
      kind: 'external',
      name: names.has(base) ? `unread-${base}` : base,
      location: { kind: 'pemFile', file },
      readers: [],
      unread: message,
    } as const;
    return entry;
  });
  return [...artefacts, ...added];
}
