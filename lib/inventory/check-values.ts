// What an artefact says about itself and about places: kinds of location, places that two artefacts would share, lives,
// host names, use of declared parameters and directories. Pure.
import { durationText } from '../duration.ts';
import { suggestion, valueText } from '../problems.ts';
import { originalOf } from './check-references.ts';
import type { Entry, Finding } from './check-references.ts';
import { checkedHostname } from './hostname.ts';
import type { Artefact, DiskLocation, Location, Target } from './model.ts';

type What = Omit<Finding, 'index'>;
type Byname = ReadonlyMap<string, Entry>;

const invalid = (path: readonly PropertyKey[], message: string): What => ({ path, kind: 'invalid', message });

/** The kinds of location that can hold what an artefact is. */
const fitting: Readonly<Record<Artefact['kind'], readonly Location['kind'][]>> = {
  signer: ['secret', 'pemPair'],
  target: ['secret', 'pemPair'],
  caBundle: ['configMap', 'pemFile'],
  composedBundle: ['configMap', 'pemFile'],
  keyPair: ['secret'],
  opaque: ['secret', 'configMap'],
  copy: ['secret', 'configMap', 'pemPair', 'pemFile'],
};

/** A copy fits where its original would. */
function fittingLocations(artefact: Artefact, byName: Byname): readonly Location['kind'][] {
  const original = originalOf(artefact, byName);
  if (original === undefined || artefact.kind !== 'copy') return fitting[artefact.kind];
  return original.kind === 'opaque' ? [original.truth.kind] : fitting[original.kind];
}

function location(artefact: Artefact, byName: Byname): What[] {
  const { truth, kind, published } = artefact;
  const fits = fittingLocations(artefact, byName);
  const found: What[] = [];
  if (!fits.includes(truth.kind)) {
    found.push(invalid(['truth'], `must be a ${fits.join(' or a ')} for a ${kind}, got a ${truth.kind}`));
  }
  if (published !== undefined && (truth.kind === 'pemPair' || truth.kind === 'pemFile')) {
    found.push(invalid(['published'], 'must be left out: files on this host are in their place already'));
  }
  return found;
}

function life(artefact: Artefact): What[] {
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

function hostnames({ usage, hostnames: sources, commonName }: Target, parameters: ReadonlySet<string>): What[] {
  const found: What[] = [];
  if (usage === 'client') {
    const message = 'is required: the user name of a client certificate';
    if (commonName === undefined) found.push({ path: ['commonName'], kind: 'required', message });
    if (sources.length > 0) found.push(invalid(['hostnames'], 'must be left out for a client certificate'));
  } else if (sources.length === 0) {
    const message = `is required: at least one name of a ${usage} certificate`;
    found.push({ path: ['hostnames'], kind: 'required', message });
  }
  sources.forEach((source, at) => {
    if (typeof source === 'string') {
      if (checkedHostname(source) !== undefined) return;
      found.push(invalid(['hostnames', at], `must be a DNS name or an IP address, got ${valueText(source)}`));
    } else if (!parameters.has(source.parameter)) {
      const message = `must name a declared parameter, got "${source.parameter}"${suggestion(source.parameter, parameters)}`;
      found.push({ path: ['hostnames', at, 'parameter'], kind: 'notFound', message });
    }
  });
  return found;
}

function proofs(artefact: Artefact, byName: Byname): What[] {
  const original = originalOf(artefact, byName);
  if (original === undefined || original.kind === 'opaque') return [];
  return artefact.readers.flatMap(({ proof }, at): What[] => {
    const path = ['readers', at, 'proof'];
    const serves = original.kind === 'target' && original.usage !== 'client';
    if (proof.kind === 'signsCsr' && original.kind !== 'signer')
      return [invalid(path, 'must not be signsCsr: only a signer signs')];
    if (proof.kind === 'served' && !serves)
      return [invalid(path, 'must not be served: only a serving or peer target is')];
    return [];
  });
}

export function filesOf(place: DiskLocation): readonly { readonly path: readonly string[]; readonly file: string }[] {
  if (place.kind === 'pemFile') return [{ path: ['pemFile'], file: place.file }];
  return [
    { path: ['pemPair', 'certFile'], file: place.certFile },
    { path: ['pemPair', 'keyFile'], file: place.keyFile },
  ];
}

/** The directory parameter that a path begins with. */
export function directoryOf(file: string): string | undefined {
  return /^\{([^}]*)\}/.exec(file)?.[1];
}

function declaredDirectories({ truth }: Artefact, directories: ReadonlySet<string>): What[] {
  if (truth.kind !== 'pemPair' && truth.kind !== 'pemFile') return [];
  return filesOf(truth).flatMap(({ path, file }): What[] => {
    const name = directoryOf(file);
    if (name === undefined || directories.has(name)) return [];
    const message = `must begin with a declared directory, got "{${name}}"${suggestion(name, directories)}`;
    return [{ path: ['truth', ...path], kind: 'notFound', message }];
  });
}

interface Place {
  readonly path: readonly string[];
  readonly id: string;
  readonly text: string;
}

/** Every place that an artefact takes for itself: its truth, and its path below the syncer's directory. */
function placesOf({ truth, published }: Artefact): readonly Place[] {
  if (truth.kind === 'pemPair' || truth.kind === 'pemFile') {
    return filesOf(truth).map(({ path, file }) => ({ path: ['truth', ...path], id: file, text: `file "${file}"` }));
  }
  const { kind, namespace, name } = truth;
  const word = kind === 'secret' ? 'Secret' : 'ConfigMap';
  const object = { path: ['truth', kind], id: `${kind} ${namespace}/${name}`, text: `${word} "${namespace}/${name}"` };
  const directory = `${kind === 'secret' ? 'secrets' : 'configmaps'}/${name}`;
  if (published === undefined) return [object];
  return [
    object,
    { path: ['published'], id: `published ${directory}`, text: `directory "${directory}" of the syncer` },
  ];
}

/** Two artefacts in one place would overwrite each other for ever. Told once for each pair: the nearest reason. */
export function checkPlaces(entries: readonly Entry[]): Finding[] {
  const taken = new Map<string, string>();
  return entries.flatMap(({ index, artefact }): Finding[] => {
    if (artefact === undefined) return [];
    for (const { path, id, text } of placesOf(artefact)) {
      const holder = taken.get(id);
      if (holder !== undefined) {
        const who = holder === artefact.name ? 'it has itself' : `"${holder}" has`;
        return [
          { index, path, kind: 'duplicate', message: `must be a place of its own, got ${text}, which ${who} already` },
        ];
      }
      taken.set(id, artefact.name);
    }
    return [];
  });
}

export interface Declared {
  readonly parameters: ReadonlySet<string>;
  readonly directories: ReadonlySet<string>;
}

export function checkValues(entries: readonly Entry[], { parameters, directories }: Declared): Finding[] {
  const byName = new Map(entries.flatMap((entry) => (entry.name === undefined ? [] : [[entry.name, entry]])));
  return entries.flatMap(({ index, artefact }) => {
    if (artefact === undefined) return [];
    return [
      ...location(artefact, byName),
      ...life(artefact),
      ...(artefact.kind === 'target' ? hostnames(artefact, parameters) : []),
      ...proofs(artefact, byName),
      ...declaredDirectories(artefact, directories),
    ].map((what) => ({ index, ...what }));
  });
}
