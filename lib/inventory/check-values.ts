// Checks the fields of each artefact, and places: kinds of location, places that two artefacts would share, lives, host
// names, use of declared parameters and directories; and the list of all checks. Pure.
import { durationText } from '../duration.ts';
import { suggestion, valueText } from '../problems.ts';
import {
  type ArtefactEntry,
  type FieldProblem,
  heldSigner,
  type InventoryFinding,
  invalid,
  kindText,
  noCycles,
  notFound,
  required,
  servedServerName,
  soundReferences,
  type Surroundings,
  surroundingsOf,
  uniqueName,
} from './check-references.ts';
import { checksOfExternals } from './check-externals.ts';
import { artefactContent, keysOf } from './content.ts';
import { contentIn, locationKeys, locationKinds } from './location-kinds.ts';
import { checkedHostname } from './values.ts';
import type { Artefact, Location } from './model.ts';
import { originalOf } from './order.ts';
import { kubeconfigPlaceholder, proofKinds } from './reader.ts';
import { directoryOf, filesOf, isFile, namedFileOf, parametersIn, placesOf } from './places.ts';

/** Returns the kinds of location for an artefact; a copy fits where its original would. */
function fittingLocations(artefact: Artefact, all: readonly Artefact[]): readonly Location['kind'][] {
  const original = originalOf(all, artefact);
  const holding = (kind: Artefact['kind']): Location['kind'][] =>
    locationKeys.filter((key) => {
      const { holds }: { readonly holds: readonly Artefact['kind'][] } = locationKinds[key];
      return holds.includes(kind);
    });
  if (original === undefined || artefact.kind !== 'copy') return holding(artefact.kind);
  if (original.kind === 'external' && contentIn(original.location) === 'registryAuths') return ['registryAuths'];
  return original.kind === 'opaque' || original.kind === 'external' ? [original.location.kind] : holding(original.kind);
}

function fittingLocation(artefact: Artefact, { all }: Surroundings): FieldProblem[] {
  const { location, kind, published } = artefact;
  const fits = fittingLocations(artefact, all);
  const found: FieldProblem[] = [];
  if (!fits.includes(location.kind)) {
    found.push(invalid(['location'], `must be a ${fits.join(' or a ')} for a ${kind}, got a ${location.kind}`));
  }
  if (published !== undefined && isFile(location)) {
    found.push(invalid(['published'], 'must be left out: files on this host are in their place already'));
  }
  if (artefact.kind === 'target' && location.kind === 'kubeconfig' && artefact.usage !== 'client') {
    found.push(invalid(['usage'], `must be client for a kubeconfig, got ${artefact.usage}`));
  }
  return found;
}

/** Checks the issuer: a forgotten one must not make a self-signed certificate; only a present one stays so. */
function selfSigned(artefact: Artefact): FieldProblem[] {
  if (artefact.kind !== 'target' || artefact.issuer !== undefined || artefact.obtainedBy !== undefined) return [];
  if (artefact.usage === 'serving' && artefact.template === 'present' && isFile(artefact.location)) return [];
  const message =
    'is required: the signer that signs it (self-signed may be a serving certificate of this host with template: present)';
  return [required(['issuer'], message)];
}

/** Checks obtainedBy: a kubelet keeps its pair in files. */
function requested(artefact: Artefact): FieldProblem[] {
  if (artefact.kind !== 'target' || artefact.obtainedBy === undefined) return [];
  const isPair = ['combinedPem', 'pemPair'].includes(artefact.location.kind) && artefact.usage === 'client';
  return isPair
    ? []
    : [invalid(['obtainedBy'], 'must be left out: only client certificates in files of this host are requested')];
}

function life(artefact: Artefact): FieldProblem[] {
  if (artefact.kind !== 'signer' && artefact.kind !== 'target') return [];
  const { validity, refresh } = artefact;
  if (refresh > 0 && refresh < validity) return [];
  return [
    invalid(
      ['refresh'],
      `must be more than 0s and less than the validity ${durationText(validity)}, got ${durationText(refresh)}`,
    ),
  ];
}

/** Checks promoteAfter: a copy renewed again before its promotion would never be used. */
function promotion(artefact: Artefact, { all }: Surroundings): FieldProblem[] {
  if (artefact.kind !== 'copy' || artefact.promoteAfter === undefined) return [];
  const original = originalOf(all, artefact);
  if (original === undefined) return [];
  // Trust in a bundle needs no time before it is used.
  if (original.kind !== 'signer' && original.kind !== 'target') {
    const got = `got a copy of "${original.name}", ${kindText(original.kind)}`;
    return [invalid(['promoteAfter'], `must be left out: only a signer or a target is promoted, ${got}`)];
  }
  if (original.kind === 'target' && original.template === 'present') {
    const message = `must be left out: a renewal of "${original.name}" begins with its CA (template: present), so nothing tells its age`;
    return [invalid(['promoteAfter'], message)];
  }
  const { promoteAfter } = artefact;
  if (promoteAfter > 0 && promoteAfter < original.refresh) return [];
  const wanted = `more than 0s and less than the refresh ${durationText(original.refresh)} of "${original.name}"`;
  return [invalid(['promoteAfter'], `must be ${wanted}, got ${durationText(promoteAfter)}`)];
}

/** Checks keepsSubject: only where nothing else gives the subject of a renewal. */
function keptSubject(artefact: Artefact): FieldProblem[] {
  if (artefact.kind !== 'target' || artefact.keepsSubject !== true) return [];
  const { usage, template } = artefact;
  if (usage !== 'client')
    return [invalid(['keepsSubject'], `must be left out: only a client has rights, got ${usage}`)];
  if (template !== 'present') return [];
  return [invalid(['keepsSubject'], 'must be left out: template: present keeps the subject already')];
}

function declaredParameter(name: string, path: FieldProblem['path'], { parameters }: Declarations): FieldProblem[] {
  if (parameters.has(name)) return [];
  return [notFound(path, `must name a declared parameter, got "${name}"${suggestion(name, parameters)}`)];
}

function hostnames(artefact: Artefact, declared: Declarations): FieldProblem[] {
  if (artefact.kind !== 'target') return [];
  const { usage, hostnames: sources, commonName } = artefact;
  const found: FieldProblem[] = [];
  if (usage === 'client') {
    if (commonName === undefined)
      found.push(required(['commonName'], 'is required: the user name of a client certificate'));
    if (sources.length > 0) found.push(invalid(['hostnames'], 'must be left out for a client certificate'));
  } else if (sources.length === 0) {
    found.push(required(['hostnames'], `is required: at least one name of a ${usage} certificate`));
  }
  sources.forEach((source, at) => {
    if (typeof source !== 'string') {
      found.push(...declaredParameter(source.parameter, ['hostnames', at, 'parameter'], declared));
    } else if (checkedHostname(source) === undefined) {
      found.push(invalid(['hostnames', at], `must be a DNS name or an IP address, got ${valueText(source)}`));
    }
  });
  const { parameters } = declared;
  const unknown = parametersIn(commonName ?? '').filter((name) => !parameters.has(name));
  const inName = unknown.map(
    (name) => `must hold declared parameters only, got "{${name}}"${suggestion(name, parameters)}`,
  );
  return [...found, ...inName.map((message) => notFound(['commonName'], message))];
}

/** Checks that the parameter is declared: a misspelt one would make a CA on each of several machines. */
function ownership(artefact: Artefact, declared: Declarations): FieldProblem[] {
  if (artefact.kind !== 'signer' || typeof artefact.owned !== 'object') return [];
  return declaredParameter(artefact.owned.unlessSet, ['owned', 'unlessSet'], declared);
}

function proofs(artefact: Artefact, { all }: Surroundings): FieldProblem[] {
  const original = originalOf(all, artefact);
  if (original === undefined || original.kind === 'opaque') return [];
  return artefact.readers.flatMap(({ proof }, at): FieldProblem[] => {
    const path = ['readers', at, 'proof'];
    const { of } = proofKinds[proof.kind];
    const serves = original.kind === 'target' && original.usage !== 'client';
    if (of === 'signer' && original.kind !== 'signer')
      return [invalid(path, `must not be ${proof.kind}: only a signer signs`)];
    if (of === 'server' && !serves)
      return [invalid(path, `must not be ${proof.kind}: only a serving or peer target is`)];
    return [];
  });
}

/** Checks that flags name existing entries: a flag for a missing entry would never be given. */
function flagValues(artefact: Artefact, { all }: Surroundings): FieldProblem[] {
  const keys = keysOf(artefactContent(artefact, all));
  return Object.entries(artefact.flags ?? {}).flatMap(([component, flags]) => {
    const hasKubeconfig = artefact.readers.some((one) => one.component === component && one.kubeconfig !== undefined);
    const known = hasKubeconfig ? [...keys, kubeconfigPlaceholder] : keys;
    return Object.entries(flags).flatMap(([flag, text]) =>
      parametersIn(text)
        .filter((key) => !known.includes(key))
        .map((key) => {
          const message = `must name entries of it, got "{${key}}"${suggestion(key, known)}`;
          return notFound(['flags', component, flag], message);
        }),
    );
  });
}

/** Checks that only a client, which has an identity, has a kubeconfig. */
function kubeconfigs(artefact: Artefact): FieldProblem[] {
  if (artefact.kind === 'target' && artefact.usage === 'client') return [];
  return artefact.readers.flatMap(({ kubeconfig }, at) => {
    const path = ['readers', at, 'kubeconfig'];
    return kubeconfig === undefined ? [] : [invalid(path, 'must be left out: only a client target has one')];
  });
}

function declaredDirectories({ location }: Artefact, { directories, files }: Declarations): FieldProblem[] {
  if (!isFile(location)) return [];
  return filesOf(location).flatMap(({ path, file }): FieldProblem[] => {
    const name = directoryOf(file);
    const whole = namedFileOf(file);
    if (whole !== undefined && !directories.has(whole)) {
      if (files.has(whole)) return [];
      return [notFound(path, `must be a declared file, got "{${whole}}"${suggestion(whole, files)}`)];
    }
    if (name === undefined || directories.has(name)) return [];
    return [notFound(path, `must begin with a declared directory, got "{${name}}"${suggestion(name, directories)}`)];
  });
}

/** No two artefacts may share a place: they would overwrite each other for ever. One report per pair: the nearest. */
export function checkPlaces(entries: readonly ArtefactEntry[]): InventoryFinding[] {
  const taken = new Map<string, string>();
  return entries.flatMap(({ index, artefact }): InventoryFinding[] => {
    if (artefact === undefined) return [];
    for (const { path, id, text } of placesOf(artefact)) {
      const holder = taken.get(id);
      if (holder !== undefined) {
        const who = holder === artefact.name ? 'it has itself' : `"${holder}" has`;
        const message = `must be a place of its own, got ${text}, which ${who} already`;
        return [{ index, path, kind: 'duplicate', message }];
      }
      taken.set(id, artefact.name);
    }
    return [];
  });
}

interface Declarations {
  readonly parameters: ReadonlySet<string>;
  readonly directories: ReadonlySet<string>;
  readonly files: ReadonlySet<string>;
  /** Whether a finder discovers the features of the machine. */
  readonly discovers: boolean;
}

function condition({ when }: Artefact, { discovers }: Declarations): FieldProblem[] {
  if (when === undefined || discovers) return [];
  return [invalid(['when'], 'must be left out: the inventory has no `discover`, so nobody finds out')];
}

const checks: readonly ((artefact: Artefact, around: Surroundings & Declarations) => FieldProblem[])[] = [
  soundReferences,
  heldSigner,
  servedServerName,
  fittingLocation,
  condition,
  selfSigned,
  requested,
  ...checksOfExternals,
  life,
  promotion,
  keptSubject,
  hostnames,
  ownership,
  proofs,
  flagValues,
  kubeconfigs,
  declaredDirectories,
];

/** Returns all problems of artefacts, by themselves and between each other. */
export function checkArtefacts(entries: readonly ArtefactEntry[], declared: Declarations): InventoryFinding[] {
  const around = { ...surroundingsOf(entries), ...declared };
  const found = entries.flatMap((entry) => {
    const { index, artefact } = entry;
    const own = artefact === undefined ? [] : checks.flatMap((check) => check(artefact, around));
    return [...uniqueName(entry, around), ...own].map((what) => ({ index, ...what }));
  });
  return [...found, ...noCycles(around), ...checkPlaces(entries)];
}
