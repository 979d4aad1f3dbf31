// Inventory + environment -> Resolved: directories filled in, host names known, artefacts in a safe order. Pure: the
// environment was read elsewhere. All missing and wrong values are reported in one error.
import { nearest, problemsError } from '../problems.ts';
import type { Problem } from '../problems.ts';
import { finderOf } from './finders.ts';
import type { ArtefactEntry } from './check-references.ts';
import { checkPlaces } from './check-values.ts';
import type {
  Artefact,
  Endpoints,
  External,
  Feature,
  HostnameSource,
  Inventory,
  Parameters,
  Reader,
  Resolved,
  ResolvedArtefact,
  Signer,
  Target,
} from './model.ts';
import { type FileOfFlag, flagName } from './file-flags.ts';
import { type UnreadSettings, withFlagEntries, withUnreadEntries } from './flag-entries.ts';
import { topologicalOrder } from './order.ts';
import {
  allDirectories,
  allFiles,
  filesOf,
  isFile,
  parametersIn,
  parametersOf,
  pathHere,
  type PlacesHere,
  withFiles,
  withParameters,
} from './places.ts';
import { namedHere } from './named-entries.ts';
import { checkedHostname } from './values.ts';

/** Facts that the inventory cannot have. */
export interface Environment {
  readonly parameters?: Parameters;
  /** Absolute paths by the name of the directory parameter. */
  readonly directories?: Readonly<Record<string, string>>;
  /** Absolute paths by the name of the file, named by flags of a component; null: it runs without that file. */
  readonly files?: Readonly<Record<string, string | null>>;
  /** Files that flags of this machine's components name: a file without an entry becomes an entry. */
  readonly named?: readonly FileOfFlag[];
  /** Files of CAs that are also the certificate of a signer, whose key is beside them. */
  readonly signerFiles?: readonly string[];
  /** Settings of this machine's components that could not be followed. */
  readonly unread?: readonly UnreadSettings[];
  /** Endpoints discovered on this machine. */
  readonly endpoints?: Endpoints;
  /** Features that this machine lacks; artefacts that need such a feature do not exist here. */
  readonly lacks?: readonly Feature[];
  /** Files that a component reads, by component, where its manifest names files other than kubeadm's: only these. */
  readonly reads?: Readonly<Record<string, readonly string[]>>;
  /** Why a parameter has no value, as the last part of a sentence: artefacts that need it have to wait. */
  readonly unknown?: Readonly<Record<string, string>>;
  /** Addresses that flags and kubeconfigs of this machine demand, by the entry that must hold them. */
  readonly demanded?: Readonly<Record<string, readonly string[]>>;
  /** Components that elect no leader here, so that no Lease shows whether they work. */
  readonly withoutLease?: readonly string[];
  /** Marks a process that makes no certificate: a parameter without value counts as empty, a directory stays open. */
  readonly mayLack?: boolean;
}

interface Declared<T> {
  readonly description: string;
  readonly default?: T;
}

/** Names given but not declared, and names declared that have neither value nor default. */
function undeclaredOrMissing<T>(
  group: 'parameters' | 'directories',
  declared: Readonly<Record<string, Declared<T>>>,
  given: Readonly<Record<string, T>>,
  asked: readonly string[] = [],
): Problem[] {
  const unknown = Object.keys(given).filter((name) => !Object.hasOwn(declared, name));
  const missing = Object.entries(declared).filter(
    ([name, one]) => one.default === undefined && !Object.hasOwn(given, name) && !asked.includes(name),
  );
  return [
    ...unknown.map((name): Problem => {
      const near = nearest(name, Object.keys(declared));
      const known = Object.keys(declared).join(', ') || 'none';
      const hint = near === undefined ? ` (known: ${known})` : ` (did you mean "${near}"?)`;
      return { path: `${group}.${name}`, kind: 'unknown', message: `must be declared by the inventory${hint}` };
    }),
    ...missing.map(([name, { description }]): Problem => ({
      path: `${group}.${name}`,
      kind: 'required',
      message: `is required: ${description}`,
    })),
  ];
}

function wrongHostnames(parameters: Parameters): Problem[] {
  return Object.entries(parameters).flatMap(([name, values]) =>
    values.flatMap((value, at): Problem[] => {
      if (checkedHostname(value) !== undefined) return [];
      const message = `must be a DNS name or an IP address, got "${value}"`;
      return [{ path: `parameters.${name}[${at}]`, kind: 'invalid', message }];
    }),
  );
}

/** Values of a parameter; undefined: neither given nor with a default. */
type ValuesOf = (parameter: string) => readonly string[] | undefined;

const valuesIn =
  ({ parameters }: Inventory, given: Parameters): ValuesOf =>
  (name) =>
    given[name] ?? parameters[name]?.default;

/** Finds targets whose names are only parameters, all of them empty: a serving certificate without any name. */
function namelessTargets({ artefacts }: Inventory, valuesOf: ValuesOf): Problem[] {
  return artefacts.flatMap((artefact): Problem[] => {
    // A target copied from its present certificate has its names from there.
    if (artefact.kind !== 'target' || artefact.usage === 'client' || artefact.template === 'present') return [];
    const asked = artefact.hostnames.flatMap((source) => (typeof source === 'string' ? [] : [source.parameter]));
    if (asked.length < artefact.hostnames.length) return [];
    const isMissing = asked.some((name) => valuesOf(name) === undefined);
    if (isMissing || flat(artefact.hostnames, valuesOf).length > 0) return [];
    const message = `must have at least one name between them, which "${artefact.name}" is to serve, got none`;
    return [{ path: asked.map((name) => `parameters.${name}`).join(', '), kind: 'required', message }];
  });
}

/** Finds parameters in user names of client certificates that do not have exactly one value. */
function ambiguousNames({ artefacts }: Inventory, valuesOf: ValuesOf): Problem[] {
  return artefacts.flatMap((artefact): Problem[] => {
    if (artefact.kind !== 'target') return [];
    return parametersIn(artefact.commonName ?? '').flatMap((name): Problem[] => {
      const values = valuesOf(name);
      if (values === undefined || values.length === 1) return [];
      if (values.length === 0 && artefact.template === 'present') return [];
      const message = `must have one value, which "${artefact.name}" carries in its name, got ${values.length}`;
      return [{ path: `parameters.${name}`, kind: values.length === 0 ? 'required' : 'invalid', message }];
    });
  });
}

/** Returns parameters whose values are read in the API in each pass. */
function askedIn(inventory: Inventory, given: Parameters): readonly string[] {
  const { asks = [] } = finderOf(inventory) ?? {};
  return asks.filter((name) => Object.hasOwn(inventory.parameters, name) && !Object.hasOwn(given, name));
}

/** Returns none where a parameter in it has no value: then only a template knows the name. */
function commonNameOf({ commonName }: Target, valuesOf: ValuesOf): Pick<Target, 'commonName'> {
  if (commonName === undefined) return {};
  const single = (name: string): string | undefined => valuesOf(name)?.[0];
  if (parametersIn(commonName).some((name) => single(name) === undefined)) return {};
  const spelled = (name: string): string => checkedHostname(single(name) ?? '') ?? '';
  return { commonName: withParameters(commonName, spelled) };
}

function flat(sources: readonly HostnameSource[], valuesOf: ValuesOf): readonly string[] {
  const names = sources.flatMap((source) => (typeof source === 'string' ? source : (valuesOf(source.parameter) ?? [])));
  // Sorted by code unit, not by locale: the order is compared across machines.
  return [...new Set(names.map((name) => checkedHostname(name) ?? name))].toSorted();
}

/** Two paths that differ in the inventory may be one on this host. */
function sharedPlaces(inventory: Inventory, given: Readonly<Record<string, string>>): Problem[] {
  const directories = allDirectories(inventory, given);
  const places: PlacesHere = { directories, files: allFiles(inventory, { directories }) };
  const entries = inventory.artefacts.map((artefact, index): ArtefactEntry => {
    const location = withFiles(artefact.location, (file) => pathHere(file, places));
    return { index, artefact: { ...artefact, location } };
  });
  return checkPlaces(entries).map(({ index, kind, message }) => ({
    path: `artefacts[${inventory.artefacts[index]?.name ?? index}]`,
    kind,
    message,
  }));
}

/** Returns all problems that keep the environment from filling in the inventory. Empty: resolve() succeeds. */
export function checkEnvironment(inventory: Inventory, environment: Environment): Problem[] {
  const { parameters = {}, directories = {}, mayLack = false } = environment;
  const valuesOf = valuesIn(inventory, parameters);
  const problems = [
    ...undeclaredOrMissing('parameters', inventory.parameters, parameters, askedIn(inventory, parameters)),
    ...undeclaredOrMissing('directories', inventory.directories ?? {}, directories),
    ...wrongHostnames(parameters),
    ...namelessTargets(inventory, valuesOf),
    ...ambiguousNames(inventory, valuesOf),
  ].filter(({ kind }) => !(mayLack && kind === 'required'));
  return problems.length > 0 ? problems : sharedPlaces(inventory, directories);
}

function readersHere(
  { location, readers }: Pick<Artefact, 'location' | 'readers'>,
  { reads = {}, withoutLease = [] }: Pick<Environment, 'reads' | 'withoutLease'>,
): readonly Reader[] {
  const provable = readers.map((reader): Reader => {
    const isShown = reader.proof.kind !== 'lease' || !withoutLease.includes(reader.component);
    return isShown ? reader : { ...reader, proof: { kind: 'none' } };
  });
  if (!isFile(location)) return provable;
  const files = filesOf(location).map(({ file }) => file);
  return provable.filter(({ component }) => reads[component]?.some((file) => files.includes(file)) !== false);
}

/** Returns a signer's ownership here: other machines with the same CA exclude it, so that none makes its own. */
function ownedHere({ owned }: Signer, valuesOf: ValuesOf): Pick<Signer, 'owned'> {
  if (typeof owned !== 'object') return {};
  return { owned: valuesOf(owned.unlessSet)?.length === 0 ? owned : false };
}

/** Returns the mark of a file that kube-controller-manager signs with, too: of two certificates in it, it takes none. */
function signerFileHere({ location }: External, { signerFiles = [] }: Environment): { readonly isOfSigner?: true } {
  return isFile(location) && filesOf(location).some(({ file }) => signerFiles.includes(file))
    ? { isOfSigner: true }
    : {};
}

/** Throws InventoryInvalid, which lists every missing parameter and every name that is no host name. */
export function resolve(inventory: Inventory, environment: Environment): Resolved {
  const problems = checkEnvironment(inventory, environment);
  if (problems.length > 0)
    throw problemsError('InventoryInvalid', `Cannot resolve inventory "${inventory.name}"`, problems);
  const {
    parameters = {},
    lacks = [],
    endpoints,
    files = {},
    named = [],
    unread = [],
    reads = {},
    demanded = {},
    unknown = {},
  } = environment;
  const directories = allDirectories(inventory, environment.directories ?? {});
  const usual: PlacesHere = { directories, files: allFiles(inventory, { directories }) };
  const places: PlacesHere = { directories, files: allFiles(inventory, { directories, files }) };
  const asked = askedIn(inventory, parameters);
  const valuesOf = valuesIn(inventory, parameters);
  const found = inventory.artefacts.filter(({ when }) => when === undefined || !lacks.includes(when));
  const here = withUnreadEntries(withFlagEntries(namedHere(found, places, usual), named), unread);
  const artefacts = topologicalOrder(here).ordered.map((artefact): ResolvedArtefact => {
    const { location } = artefact;
    const readers = readersHere({ location, readers: artefact.readers }, environment);
    if (artefact.kind === 'signer') {
      return { ...artefact, ...ownedHere(artefact, valuesOf), location, readers };
    }
    if (artefact.kind === 'external')
      return { ...artefact, location, readers, ...signerFileHere(artefact, environment) };
    if (artefact.kind !== 'target') return { ...artefact, location, readers };
    const { commonName: _, organizationsBefore, demandedBy: _demandedBy, ...target } = artefact;
    const namesUnknown = parametersOf(artefact).flatMap((name) => unknown[name] ?? []);
    const demandedHostnames = demanded[artefact.name];
    const asks = asked.filter((name) => parametersOf(artefact).includes(name));
    return {
      ...target,
      ...commonNameOf(artefact, valuesOf),
      ...(organizationsBefore && lacks.includes('clusterAdmins') && { organizations: organizationsBefore }),
      ...(asks.length > 0 && { asks }),
      location,
      readers,
      hostnames: flat(artefact.hostnames, valuesOf),
      ...(namesUnknown.length > 0 && { namesUnknown: namesUnknown.join('; ') }),
      ...(demandedHostnames !== undefined && { demandedHostnames }),
    };
  });
  return {
    name: inventory.name,
    ...(endpoints !== undefined && { endpoints }),
    ...(finderOf(inventory)?.looksAt === 'api' && { asks: inventory.discover }),
    ...(inventory.tlsRegistry !== undefined && { tlsRegistry: inventory.tlsRegistry }),
    ...(named.length > 0 && { flagsByFile: flagsByFile(named, reads) }),
    artefacts,
  };
}

/** Flags by the file that they name: `kube-apiserver --tls-cert-file`. */
function flagsByFile(
  named: readonly FileOfFlag[],
  reads: NonNullable<Environment['reads']>,
): Readonly<Record<string, readonly string[]>> {
  const told = named
    .filter(({ component, file }) => reads[component]?.includes(file) !== false)
    .map((one) => [one.file, flagName(one)] as const);
  return Object.fromEntries(
    [...Map.groupBy(told, ([file]) => file)].map(([file, all]) => [file, [...new Set(all.map(([, one]) => one))]]),
  );
}
