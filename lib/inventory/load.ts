// YAML text -> Inventory. Strict: unknown keys, wrong values, and dangling names are errors, all of them reported
// together, each with its path, its line, the value and the wanted value.
import type * as z from 'zod';
import { problemsError } from '../problems.ts';
import type { Problem } from '../problems.ts';
import { readYaml } from '../yaml.ts';
import {
  type ArtefactEntry,
  type FieldProblem,
  invalid,
  type InventoryFinding,
  notFound,
  required,
} from './check-references.ts';
import { checkArtefacts } from './check-values.ts';
import { finderOf, flagReaders } from './finders.ts';
import { directoryOf, filesOf, isFile, namedFileOf, parametersOf } from './places.ts';
import { checkedHostname } from './values.ts';
import { fileKinds, locationKeys, locationKeysText, type RawLocation } from './location-kinds.ts';
import type { ApiLocation, Artefact, DiskLocation, FieldLocation, Inventory, Location } from './model.ts';
import { artefactSchema, inventoryFileSchema, inventoryHead, inventorySchema } from './schema.ts';
import type { RawInventory } from './schema.ts';
import { checkShape, problemAt } from './shape.ts';
import type { DocumentPlace } from './shape.ts';

export interface LoadOptions {
  /** Replaces the inventory's own default namespace (flag --namespace). */
  readonly namespace?: string | undefined;
  /** Namespace of the pod in which this runs: for an inventory with `inPodNamespace`. */
  readonly podNamespace?: string | undefined;
  /** Name of the file, for messages. */
  readonly source?: string;
}

interface Checked {
  /** Undefined when there are problems. */
  readonly inventory: Inventory | undefined;
  readonly problems: readonly Problem[];
}

type Head = Omit<RawInventory, 'artefacts'>;

function locationOf(raw: RawLocation, namespace: string | undefined): Location | FieldProblem {
  const given = locationKeys.filter((key) => raw[key] !== undefined);
  const [kind, ...others] = given;
  if (kind === undefined || others.length > 0) {
    const got = given.join(' and ') || 'none';
    return invalid(['location'], `must have exactly one of ${locationKeysText}, got ${got}`);
  }
  const value = raw[kind];
  const path = ['location', 'namespace'];
  const content = raw.content !== undefined && { content: raw.content };
  if (kind in fileKinds) {
    const beside = (['namespace', 'key', 'content'] as const).find((key) => raw[key] !== undefined);
    if (beside !== undefined) return invalid(['location', beside], 'must be left out for files on this host');
    return { kind, ...(typeof value === 'string' ? { file: value } : value) } as DiskLocation;
  }
  if (kind === 'field') {
    if (raw.namespace !== undefined) return invalid(path, 'must be left out for an object without a namespace');
    return { kind, ...raw.field, ...content } as FieldLocation;
  }
  const where = raw.namespace ?? namespace;
  if (where === undefined) {
    return required(path, 'is required: the namespace of the object, here or for the whole inventory');
  }
  const key = raw.key !== undefined && { key: raw.key };
  return { kind, namespace: where, name: value, ...key, ...content } as ApiLocation;
}

interface Reading {
  readonly entries: readonly ArtefactEntry[];
  readonly findings: readonly InventoryFinding[];
}

/** Parses every item as far as possible, so that one broken item does not hide the problems of the rest. */
function readArtefacts(list: unknown, namespace: string | undefined): Reading {
  const findings: InventoryFinding[] = [];
  const items: readonly unknown[] = Array.isArray(list) ? list : [];
  const entries = items.map((item, index): ArtefactEntry => {
    const name: unknown = (item as { readonly name?: unknown } | null)?.name;
    const known = { index, ...(typeof name === 'string' ? { name } : {}) };
    const shape = checkShape(artefactSchema, item);
    if (!('value' in shape)) return known;
    const location = locationOf(shape.value.location, namespace);
    if ('message' in location) {
      findings.push({ index, ...location });
      return known;
    }
    return { ...known, artefact: { ...shape.value, location } };
  });
  return { entries, findings };
}

function unusedDeclarations(head: Head, artefacts: readonly Artefact[]): FieldProblem[] {
  const { parameters, directories, files } = head;
  const paths = artefacts.flatMap(({ location }) => (isFile(location) ? filesOf(location) : []));
  const used = {
    parameters: new Set<string | undefined>(artefacts.flatMap((one) => parametersOf(one))),
    directories: new Set<string | undefined>([
      ...(finderOf(head)?.readsIn ?? []),
      ...[
        ...paths.map(({ file }) => file),
        ...[...Object.values(files), ...Object.values(directories)].flatMap((one) => one.default ?? []),
      ].map((file) => directoryOf(file)),
    ]),
    files: new Set(paths.map(({ file }) => namedFileOf(file))),
  };
  return Object.entries({ parameters, directories, files }).flatMap(([group, declared]) =>
    Object.keys(declared)
      .filter((name) => !used[group as keyof typeof used].has(name))
      .map((name) => invalid([group, name], 'must be used by an artefact, got no use of it')),
  );
}

/** Checks files for a flag that names them: without one they would never be found. */
function namelessFiles({ files, ...head }: Head): FieldProblem[] {
  return Object.entries(files).flatMap(([name, { namedBy, keyOf }]): FieldProblem[] => {
    const path = ['files', name];
    // kubelet.conf names them, in fields and by no flags.
    if (head.discover === 'kubelet' && namedBy === undefined && keyOf === undefined) return [];
    if ((namedBy === undefined) === (keyOf === undefined))
      return [invalid(path, 'must have exactly one of namedBy and keyOf')];
    if (keyOf !== undefined && files[keyOf]?.namedBy === undefined)
      return [notFound([...path, 'keyOf'], `must name a file that a flag names, got "${keyOf}"`)];
    if (finderOf(head)?.readsFlags === true) return [];
    const message = `must be left out without \`discover: ${flagReaders.join(' or ')}\`, which reads the flags of static pods`;
    return [invalid(path, message)];
  });
}

/** Checks that a default lies below a directory declared before it, so that no two wait for each other. */
function wrongDirectories({ directories }: Head): FieldProblem[] {
  const names = Object.keys(directories);
  return Object.entries(directories).flatMap(([name, declaration], at) => {
    const above = declaration.default === undefined ? undefined : directoryOf(declaration.default);
    if (above === undefined || names.slice(0, at).includes(above)) return [];
    const message = `must begin with a directory that is declared before it, got "{${above}}"`;
    return [invalid(['directories', name, 'default'], message)];
  });
}

function wrongDefaults({ parameters }: Head): FieldProblem[] {
  return Object.entries(parameters).flatMap(([name, declaration]) =>
    (declaration.default ?? []).flatMap((text, at) => {
      if (checkedHostname(text) !== undefined) return [];
      return [invalid(['parameters', name, 'default', at], `must be a DNS name or an IP address, got "${text}"`)];
    }),
  );
}

/** Rewrites `artefacts[3].issuer` to `artefacts[kubelet-client].issuer`: a place that people find without counting. */
function named(problem: Problem, entries: readonly ArtefactEntry[]): Problem {
  const path = problem.path.replace(/(^|\.)artefacts\[(\d+)\]/, (whole, before: string, index: string) => {
    const name = entries[Number(index)]?.name;
    const unique = entries.filter((entry) => entry.name === name).length === 1;
    return name === undefined || name === '' || !unique ? whole : `${before}artefacts[${name}]`;
  });
  return { ...problem, path };
}

interface CheckOptions extends Omit<LoadOptions, 'source'> {
  /** A file of its own has apiVersion and kind; an inventory inside a configuration file does not. */
  readonly form: 'file' | 'inline';
}

/** Checks a value read from YAML; returns the inventory, or all problems. */
export function checkInventory(
  value: unknown,
  place: DocumentPlace,
  { namespace, podNamespace, form }: CheckOptions,
): Checked {
  const shape = checkShape(form === 'file' ? inventoryFileSchema : inventorySchema, value, place);
  const headShape = checkShape(inventoryHead, value);
  const head: Head =
    'value' in headShape ? headShape.value : { name: 'custom', parameters: {}, directories: {}, files: {} };
  const list: unknown = (value as { readonly artefacts?: unknown } | null)?.artefacts;
  const ofPod = head.inPodNamespace === true ? podNamespace : undefined;
  const { entries, findings } = readArtefacts(list, namespace ?? ofPod ?? head.namespace);
  const raw = (value ?? {}) as Readonly<Record<'parameters' | 'directories' | 'files', object | undefined>>;
  const declared = {
    parameters: new Set(Object.keys(raw.parameters ?? {})),
    directories: new Set(Object.keys(raw.directories ?? {})),
    files: new Set(Object.keys(raw.files ?? {})),
    discovers: head.discover !== undefined,
  };
  const artefacts = entries.flatMap(({ artefact }) => artefact ?? []);
  const isWhole = artefacts.length > 0 && artefacts.length === entries.length;
  const all = [
    ...wrongDefaults(head),
    ...wrongDirectories(head),
    ...namelessFiles(head),
    ...(isWhole ? unusedDeclarations(head, artefacts) : []),
    ...[...findings, ...checkArtefacts(entries, declared)].map(({ index, path, ...what }) => ({
      path: ['artefacts', index, ...path],
      ...what,
    })),
  ];
  const problems = [
    ...('problems' in shape ? shape.problems : []),
    ...all.map(({ path, ...what }) => problemAt(place, path, what)),
  ].map((problem) => named(problem, entries));
  if (problems.length > 0)
    return { inventory: undefined, problems: problems.toSorted((a, b) => (a.line ?? 0) - (b.line ?? 0)) };
  const { namespace: _namespace, inPodNamespace: _inPodNamespace, ...told } = head;
  return { inventory: { ...told, artefacts }, problems };
}

/** Checks the text of an inventory file. */
export function checkInventoryText(text: string, { namespace, podNamespace, source }: LoadOptions = {}): Checked {
  const { value, problems, lineOf } = readYaml(text);
  const place = { path: [], lineOf, source };
  if (problems.length === 0) return checkInventory(value, place, { namespace, podNamespace, form: 'file' });
  const told = problems.map(({ line, message }) => ({ ...problemAt(place, [], { kind: 'syntax', message }), line }));
  return { inventory: undefined, problems: told };
}

export type RawInventoryFile = z.output<typeof inventoryFileSchema>;

/** Returns a checked inventory file with its defaults, to be placed in a namespace. Throws InventoryInvalid. */
export function checkedInventory(text: string, options: LoadOptions): RawInventoryFile {
  loadInventory(text, options);
  return inventoryFileSchema.parse(readYaml(text).value);
}

/** Returns a checked inventory in its namespace. */
export function placedInventory(raw: RawInventoryFile, { namespace, podNamespace }: LoadOptions): Inventory {
  const { apiVersion: _apiVersion, kind: _kind, namespace: own, inPodNamespace, artefacts, ...head } = raw;
  const where = namespace ?? (inPodNamespace === true ? podNamespace : undefined) ?? own;
  const placed = artefacts.map((one) => ({ ...one, location: locationOf(one.location, where) as Location }));
  return { ...head, artefacts: placed };
}

/** Reads an inventory file. Throws InventoryInvalid, which lists all problems. */
export function loadInventory(text: string, options: LoadOptions = {}): Inventory {
  const { inventory, problems } = checkInventoryText(text, options);
  if (inventory !== undefined) return inventory;
  throw problemsError(
    'InventoryInvalid',
    `Cannot load inventory${options.source === undefined ? '' : ` "${options.source}"`}`,
    problems,
  );
}
