// Entries for files that flags of the components name and the inventory does not know. Pure.
import type { ComponentName } from '../components.ts';
import type { FileRole } from './file-flags.ts';
import type { Artefact, Location } from './model.ts';
import { filesOf, isFile } from './places.ts';

/** A file of this host that a flag of a component names. */
export interface NamedFile {
  readonly component: ComponentName;
  readonly flag: string;
  readonly role: FileRole;
  readonly file: string;
  /** Of a certificate: the file of its key. */
  readonly keyFile?: string;
  /** The signer of this inventory whose key has signed the certificate that is there; undefined: none of them. */
  readonly issuer?: string | undefined;
}

const year = 365 * 24 * 3_600_000;
/** kubeadm's lives (cmd/kubeadm/app/apis/kubeadm/v1beta4: CertificateValidityPeriod, CACertificateValidityPeriod). */
const lives = { leaf: { validity: year, refresh: 0.8 * year }, signer: { validity: 10 * year, refresh: 8 * year } };

/** The entries that are declared, and one for each other file that somebody reads. */
export function withFlagEntries(declared: readonly Artefact[], named: readonly NamedFile[]): readonly Artefact[] {
  const taken = new Set(declared.flatMap(({ location }) => pathsIn(location)));
  const names = new Set(declared.map(({ name }) => name));
  const added: Artefact[] = [];
  for (const one of named) {
    const base = `${one.component}-${one.flag}`;
    const entry = taken.has(one.file) ? undefined : entryOf(one, unusedName(base, names));
    if (entry === undefined) continue;
    added.push(entry);
    names.add(entry.name);
    for (const path of pathsIn(entry.location)) taken.add(path);
  }
  const signedBy = new Map(named.map(({ file, issuer }) => [file, issuer]));
  return [...declared.map((one) => withIssuer(one, signedBy)), ...added];
}

/** Where a flag leads elsewhere, who has signed what is there counts, and not who would have signed it in its usual place. */
function withIssuer(artefact: Artefact, signedBy: ReadonlyMap<string, string | undefined>): Artefact {
  if (artefact.kind !== 'target' || !('isElsewhere' in artefact)) return artefact;
  const [issuer] = pathsIn(artefact.location).flatMap((path) => signedBy.get(path) ?? []);
  return issuer === undefined ? artefact : { ...artefact, issuer };
}

const pathsIn = (location: Location): readonly string[] =>
  isFile(location) ? filesOf(location).map(({ file }) => file) : [];

function unusedName(base: string, names: ReadonlySet<string>): string {
  let name = base;
  for (let count = 2; names.has(name); count += 1) name = `${base}-${count}`;
  return name;
}

/** Nothing is made where no certificate shows that one belongs there: a damaged manifest may name any path. */
function entryOf({ component, role, file, keyFile, issuer }: NamedFile, name: string): Artefact | undefined {
  const base = { name, ...(issuer !== undefined && { issuer }) };
  const reader = { component, needs: 'nothing', proof: { kind: 'none' } } as const;
  const leaf = {
    ...base,
    kind: 'target',
    template: 'present',
    organizations: [],
    hostnames: [],
    mayBeOfOthers: true,
    isElsewhere: true,
    ...lives.leaf,
  } as const;
  switch (role.holds) {
    case 'pair':
      return {
        ...leaf,
        usage: role.usage,
        location: { kind: 'pemPair', certFile: file, keyFile: keyFile ?? file },
        readers: [reader],
      };
    case 'kubeconfig':
      return {
        ...leaf,
        usage: 'client',
        location: { kind: 'kubeconfig', file, endpoint: 'local' },
        ...(role.mayLack === true && { presence: 'optional' }),
        // One that may be absent is of no use to a process that has started.
        readers: [role.mayLack === true ? reader : { ...reader, needs: 'restart' }],
      };
    case 'signer':
      return {
        kind: 'signer',
        name,
        owned: false,
        location: { kind: 'pemPair', certFile: file, keyFile: keyFile ?? file },
        ...lives.signer,
        readers: [reader],
      };
    case 'bundle':
      return { kind: 'external', name, location: { kind: 'pemFile', file }, readers: [reader] };
    case 'directory':
      return {
        ...leaf,
        usage: 'serving',
        presence: 'optional', // its component makes it where no other is named
        location: { kind: 'pemPair', certFile: file, keyFile: keyFile ?? file },
        readers: [reader],
      };
    case 'configuration':
    case 'key':
    case 'nothing':
      return undefined;
  }
}
