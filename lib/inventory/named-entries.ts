// Entries of an inventory that exist on this machine, in the files that the flags of its components name. Pure.
import type { Artefact } from './model.ts';
import { filesOf, isFile, namedFileOf, pathHere, type PlacesHere, withFiles } from './places.ts';

/**
 * Returns the entries without those whose file no flag names, and without the entries that these would sign. Where a
 * flag names the file of another entry, the other entry replaces this one: a cluster may have one CA for all. `usual`:
 * the default places. A signer that no flag names stays there for the certificates it has signed; a target that a flag
 * names elsewhere may be signed by any CA.
 */
export function namedHere(declared: readonly Artefact[], places: PlacesHere, usual: PlacesHere): readonly Artefact[] {
  const here = new Map<string, Artefact>();
  /** Entry by path. */
  const holders = new Map<string, Artefact>();
  /** Names of entries that are not here, each with its replacement, if any. */
  const gone = new Map<string, string | undefined>();
  // Entries with a place of their own first: a file brought from elsewhere may be the same one.
  const hasDefault = (artefact: Artefact): boolean => !isOpen(pathsAt(artefact, usual));
  for (const artefact of [...declared.filter(hasDefault), ...declared.filter((one) => !hasDefault(one))]) {
    const place = isOpen(pathsAt(artefact, places)) && signsHere(artefact, declared, places) ? usual : places;
    const paths = pathsAt(artefact, place);
    const holder = isNamed(artefact) ? paths.flatMap((path) => holders.get(path) ?? [])[0] : undefined;
    if (holder !== undefined) gone.set(artefact.name, holder.kind === artefact.kind ? holder.name : undefined);
    else if (isOpen(paths)) gone.set(artefact.name, undefined);
    else {
      for (const path of paths) holders.set(path, artefact);
      here.set(artefact.name, placed(artefact, place, usual));
    }
  }
  return declared.flatMap(({ name }): Artefact[] => {
    const own = here.get(name);
    if (own === undefined) return [];
    const others = declared.filter((one) => gone.get(one.name) === name);
    const artefact = withInputsOf(withReadersOf(own, others), others);
    const issuer = issuerOf(artefact);
    if (issuer === undefined || !gone.has(issuer)) return [withoutPlace(artefact, issuer, { here, declared, usual })];
    const instead = gone.get(issuer);
    return instead === undefined ? [] : [{ ...artefact, issuer: instead } as Artefact];
  });
}

const pathsAt = ({ location }: Artefact, at: PlacesHere): readonly string[] =>
  isFile(location)
    ? filesOf(withFiles(location, (file) => pathHere(file, at)) as typeof location).map(({ file }) => file)
    : [];

const isOpen = (paths: readonly string[]): boolean => paths.some((path) => namedFileOf(path) !== undefined);

const isNamed = ({ location }: Artefact): boolean =>
  isFile(location) && isOpen(filesOf(location).map(({ file }) => file));

const issuerOf = (artefact: Artefact): string | undefined =>
  artefact.kind === 'target' || artefact.kind === 'signer' ? artefact.issuer : undefined;

const signsHere = ({ kind, name }: Artefact, declared: readonly Artefact[], places: PlacesHere): boolean =>
  kind === 'signer' && declared.some((one) => issuerOf(one) === name && isNamed(one) && !isOpen(pathsAt(one, places)));

/** Places an entry. Only its readers know which CA they want for a certificate that a flag names elsewhere. */
function placed(artefact: Artefact, place: PlacesHere, usual: PlacesHere): Artefact {
  const location = withFiles(artefact.location, (file) => pathHere(file, place));
  if (artefact.kind !== 'target' || !isNamed(artefact)) return { ...artefact, location };
  if (pathsAt(artefact, place).join() === pathsAt(artefact, usual).join()) return { ...artefact, location };
  const target = { ...artefact, location, mayBeOfOthers: true, isElsewhere: true } as const;
  return target;
}

/** Adds the readers of the same file for another purpose, which may need more to pick up a change of it. */
function withReadersOf(artefact: Artefact, others: readonly Artefact[]): Artefact {
  const restarted = others.flatMap(({ readers }) => readers.filter(({ needs }) => needs === 'restart'));
  const added = restarted.filter(
    ({ component }, at) => restarted.findIndex((one) => one.component === component) === at,
  );
  if (added.length === 0) return artefact;
  const before = artefact.readers.filter((one) => !added.some(({ component }) => component === one.component));
  return { ...artefact, readers: [...before, ...added] };
}

/** Adds the CAs of the same file for another purpose. */
function withInputsOf(artefact: Artefact, others: readonly Artefact[]): Artefact {
  if (artefact.kind !== 'external' || artefact.inputs === undefined) return artefact;
  const added = others.flatMap((one) => (one.kind === 'external' ? (one.inputs ?? []) : []));
  return { ...artefact, inputs: [...new Set([...artefact.inputs, ...added])] };
}

interface Around {
  readonly here: ReadonlyMap<string, Artefact>;
  readonly declared: readonly Artefact[];
  readonly usual: PlacesHere;
}

/**
 * Makes a target optional that no component reads and whose CA is not in its usual place: its own place is unknown
 * then, so it is not made.
 */
function withoutPlace(artefact: Artefact, issuer: string | undefined, { here, declared, usual }: Around): Artefact {
  const signer = here.get(issuer ?? '');
  const before = declared.find(({ name }) => name === issuer);
  if (signer === undefined || before === undefined || artefact.readers.length > 0) return artefact;
  const isMoved = pathsAt(signer, usual).join() !== pathsAt(before, usual).join();
  return isMoved && artefact.kind === 'target' ? { ...artefact, presence: 'optional' } : artefact;
}
