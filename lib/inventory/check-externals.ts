// Checks what is said of content that others maintain: what it is, and which files follow it. Pure.
import { type FieldProblem, invalid, required, type Surroundings } from './check-references.ts';
import { contentIn } from './location-kinds.ts';
import type { Artefact } from './model.ts';
import { isFile } from './places.ts';

/** Checks followedAs and inputs: objects in the API are kept up to date by others. */
function followed(artefact: Artefact): FieldProblem[] {
  if (artefact.kind !== 'external') return [];
  const { followedAs, inputs, location } = artefact;
  if (followedAs === undefined)
    return inputs === undefined
      ? []
      : [required(['followedAs'], 'is required: only CAs that are followed have inputs')];
  if (isFile(location)) return [];
  return [invalid(['followedAs'], 'must be left out: only CAs in files of this host are followed')];
}

/** Checks only: a renewal of credentials needs their user. */
function authorityAlone({ kind, location }: Artefact): FieldProblem[] {
  if (location.kind !== 'kubeconfig' || location.only === undefined || kind === 'external') return [];
  return [invalid(['location', 'kubeconfig', 'only'], 'must be left out: only an external one has no credentials')];
}

/** Checks key and content: a part of an object is only ever read. */
function partly({ kind, location, published }: Artefact): FieldProblem[] {
  if (isFile(location)) return [];
  const { key, content } = { key: undefined, ...location };
  const mayHaveOne = kind === 'external' && published === undefined && (key === undefined || content === undefined);
  if (mayHaveOne || (key ?? content) === undefined) return [];
  const wanted = 'must be left out: only an external bundle that is not published has one of key and content';
  return [invalid(['location', key === undefined ? 'content' : 'key'], wanted)];
}

/** Checks that bundles by name become files by name: in one file each would be trusted for all names. */
function named(artefact: Artefact, { byName }: Surroundings): FieldProblem[] {
  const isDirectory = artefact.location.kind === 'pemDirectory';
  const { inputs = [] } = 'inputs' in artefact ? artefact : {};
  if (isDirectory && inputs.length === 0) return [required(['inputs'], 'is required: the bundles of its files')];
  return inputs.flatMap((name, at) => {
    const from = byName.get(name)?.artefact;
    if (from === undefined || (contentIn(from.location) === 'bundles') === isDirectory) return [];
    const wanted = isDirectory ? 'bundles by name (content: bundles)' : 'one bundle';
    return [invalid(['inputs', at], `must name ${wanted}, got "${name}"`)];
  });
}

export const checksOfExternals = [followed, partly, authorityAlone, named];
