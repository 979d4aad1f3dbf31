// Inventory + environment -> Resolved: directories filled in, host names known, artefacts in a safe order. Pure: what
// the environment is was read elsewhere. All that is missing or wrong is told in one error.
import { nearest, problemsError } from '../problems.ts';
import type { Problem } from '../problems.ts';
import type { Entry } from './check-references.ts';
import { checkPlaces, directoryOf } from './check-values.ts';
import { checkedHostname } from './hostname.ts';
import type { Artefact, HostnameSource, Inventory, Location, Parameters, Resolved, ResolvedArtefact } from './model.ts';
import { topologicalOrder } from './order.ts';

/** What the inventory cannot know by itself. */
export interface Environment {
  readonly parameters?: Parameters;
  /** Absolute paths by the name of the directory parameter. */
  readonly directories?: Readonly<Record<string, string>>;
  /** For a process that makes no certificate: a parameter without value counts as empty, a directory stays open. */
  readonly mayLack?: boolean;
}

interface Declared<T> {
  readonly description: string;
  readonly default?: T;
}

/** Names given but not declared, and names declared that have neither value nor default. */
function givenAndDeclared<T>(
  group: 'parameters' | 'directories',
  declared: Readonly<Record<string, Declared<T>>>,
  given: Readonly<Record<string, T>>,
): Problem[] {
  const unknown = Object.keys(given).filter((name) => !Object.hasOwn(declared, name));
  const missing = Object.entries(declared).filter(
    ([name, one]) => one.default === undefined && !Object.hasOwn(given, name),
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

/** A target that has only parameters for names, all of them empty: a serving certificate that serves nobody. */
function namelessTargets(inventory: Inventory, parameters: Parameters): Problem[] {
  return inventory.artefacts.flatMap((artefact): Problem[] => {
    if (artefact.kind !== 'target' || artefact.usage === 'client') return [];
    const asked = artefact.hostnames.flatMap((source) => (typeof source === 'string' ? [] : [source.parameter]));
    if (asked.length < artefact.hostnames.length) return [];
    const missing = asked.some(
      (name) => !Object.hasOwn(parameters, name) && inventory.parameters[name]?.default === undefined,
    );
    if (missing || flat(artefact.hostnames, inventory, parameters).length > 0) return [];
    const message = `must have at least one name between them, which "${artefact.name}" is to serve, got none`;
    return [{ path: asked.map((name) => `parameters.${name}`).join(', '), kind: 'required', message }];
  });
}

function flat(sources: readonly HostnameSource[], inventory: Inventory, parameters: Parameters): readonly string[] {
  const names = sources.flatMap((source) => {
    if (typeof source === 'string') return [source];
    return parameters[source.parameter] ?? inventory.parameters[source.parameter]?.default ?? [];
  });
  // By code unit, not by locale: the order is compared across machines.
  return [...new Set(names.map((name) => checkedHostname(name) ?? name))].toSorted();
}

function inDirectory(file: string, directories: Readonly<Record<string, string>>): string {
  const name = directoryOf(file);
  if (name === undefined) return file;
  const directory = directories[name];
  return directory === undefined ? file : `${directory.replace(/\/+$/, '')}${file.slice(name.length + 2)}`;
}

function onThisHost(truth: Location, directories: Readonly<Record<string, string>>): Location {
  if (truth.kind === 'pemFile') return { ...truth, file: inDirectory(truth.file, directories) };
  if (truth.kind !== 'pemPair') return truth;
  return {
    ...truth,
    certFile: inDirectory(truth.certFile, directories),
    keyFile: inDirectory(truth.keyFile, directories),
  };
}

function allDirectories(
  { directories = {} }: Inventory,
  given: Readonly<Record<string, string>>,
): Record<string, string> {
  const defaults = Object.entries(directories).flatMap(([name, one]) =>
    one.default === undefined ? [] : [[name, one.default]],
  );
  return { ...(Object.fromEntries(defaults) as Record<string, string>), ...given };
}

/** Two paths that differ in the inventory may be one on this host. */
function sharedPlaces(inventory: Inventory, given: Readonly<Record<string, string>>): Problem[] {
  const directories = allDirectories(inventory, given);
  const entries = inventory.artefacts.map((artefact, index): Entry => {
    const placed: Artefact = { ...artefact, truth: onThisHost(artefact.truth, directories) };
    return { index, name: artefact.name, artefact: placed };
  });
  return checkPlaces(entries).map(({ index, kind, message }) => ({
    path: `artefacts[${inventory.artefacts[index]?.name ?? index}]`,
    kind,
    message,
  }));
}

/** All that keeps the environment from filling in the inventory. Empty: resolve() succeeds. */
export function checkEnvironment(inventory: Inventory, environment: Environment): Problem[] {
  const { parameters = {}, directories = {}, mayLack = false } = environment;
  const problems = [
    ...givenAndDeclared('parameters', inventory.parameters, parameters),
    ...givenAndDeclared('directories', inventory.directories ?? {}, directories),
    ...wrongHostnames(parameters),
    ...namelessTargets(inventory, parameters),
  ].filter(({ kind }) => !(mayLack && kind === 'required'));
  return problems.length > 0 ? problems : sharedPlaces(inventory, directories);
}

/** Throws InventoryInvalid, which lists every missing parameter and every name that is no host name. */
export function resolve(inventory: Inventory, environment: Environment): Resolved {
  const problems = checkEnvironment(inventory, environment);
  if (problems.length > 0)
    throw problemsError('InventoryInvalid', `Cannot resolve inventory "${inventory.name}"`, problems);
  const directories = allDirectories(inventory, environment.directories ?? {});
  const { ordered } = topologicalOrder(inventory.artefacts);
  const artefacts = ordered.map((artefact): ResolvedArtefact => {
    const truth = onThisHost(artefact.truth, directories);
    if (artefact.kind !== 'target') return { ...artefact, truth };
    return { ...artefact, truth, hostnames: flat(artefact.hostnames, inventory, environment.parameters ?? {}) };
  });
  return { name: inventory.name, artefacts };
}
