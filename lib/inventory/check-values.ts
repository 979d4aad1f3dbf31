// What an artefact says about itself and about places: kinds of location, places that two artefacts would share, lives,
// host names, use of declared parameters and directories. Pure.
import { durationText } from '../duration.ts';
import { suggestion, valueText } from '../problems.ts';
import { understood } from './check-references.ts';
import type { ArtefactEntry, InventoryFinding } from './check-references.ts';
import { artefactContent, keysOf } from './content.ts';
import { locationKeys, locationKinds } from './location-kinds.ts';
import { checkedHostname } from './values.ts';
import type { Artefact, Location, Signer, Target } from './model.ts';
import { originalOf } from './order.ts';
import { kubeconfigPlaceholder, proofKinds } from './reader.ts';
import { directoryOf, filesOf, isFile, parametersIn, placesOf } from './places.ts';

type What = Omit<InventoryFinding, 'index'>;

const invalid = (path: readonly PropertyKey[], message: string): What => ({ path, kind: 'invalid', message });

/** A copy fits where its original would. */
function fittingLocations(artefact: Artefact, all: readonly Artefact[]): readonly Location['kind'][] {
  const original = originalOf(all, artefact);
  const holding = (kind: Artefact['kind']): Location['kind'][] =>
    locationKeys.filter((key) => {
      const { holds }: { readonly holds: readonly Artefact['kind'][] } = locationKinds[key];
      return holds.includes(kind);
    });
  if (original === undefined || artefact.kind !== 'copy') return holding(artefact.kind);
  return original.kind === 'opaque' || original.kind === 'external' ? [original.location.kind] : holding(original.kind);
}

function fittingLocation(artefact: Artefact, all: readonly Artefact[]): What[] {
  const { location, kind, published } = artefact;
  const fits = fittingLocations(artefact, all);
  const found: What[] = [];
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

/** A forgotten issuer must not make a certificate that nobody trusts: self-signed is only what is found to be so. */
function selfSigned(artefact: Artefact): What[] {
  if (artefact.kind !== 'target' || artefact.issuer !== undefined) return [];
  if (artefact.usage === 'serving' && artefact.template === 'present' && isFile(artefact.location)) return [];
  const message =
    'is required: the signer that signs it (self-signed may be a serving certificate of this host with template: present)';
  return [{ path: ['issuer'], kind: 'required', message }];
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

/** What is renewed again before it is promoted would never be in use. */
function promotion(artefact: Artefact, all: readonly Artefact[]): What[] {
  if (artefact.kind !== 'copy' || artefact.promoteAfter === undefined) return [];
  const original = originalOf(all, artefact);
  if (original?.kind !== 'signer' && original?.kind !== 'target') return [];
  if (original.kind === 'target' && original.template === 'present') {
    const message = `must be left out: a renewal of "${original.name}" begins with its CA (template: present), so nothing tells its age`;
    return [invalid(['promoteAfter'], message)];
  }
  const { promoteAfter } = artefact;
  if (promoteAfter > 0 && promoteAfter < original.refresh) return [];
  const wanted = `more than 0s and less than the refresh ${durationText(original.refresh)} of "${original.name}"`;
  return [invalid(['promoteAfter'], `must be ${wanted}, got ${durationText(promoteAfter)}`)];
}

/** Where nothing else tells whom a renewal is for. */
function keptSubject({ keepsSubject, usage, template }: Target): What[] {
  if (keepsSubject !== true) return [];
  if (usage !== 'client')
    return [invalid(['keepsSubject'], `must be left out: only a client has rights, got ${usage}`)];
  if (template !== 'present') return [];
  return [invalid(['keepsSubject'], 'must be left out: template: present keeps the subject already')];
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
  const unknown = parametersIn(commonName ?? '').filter((name) => !parameters.has(name));
  return [
    ...found,
    ...unknown.map((name): What => ({
      path: ['commonName'],
      kind: 'notFound',
      message: `must hold declared parameters only, got "{${name}}"${suggestion(name, parameters)}`,
    })),
  ];
}

/** A misspelt one would make a CA on each of several machines. */
function ownership({ owned }: Signer, parameters: ReadonlySet<string>): What[] {
  if (typeof owned !== 'object' || parameters.has(owned.unlessSet)) return [];
  const message = `must name a declared parameter, got "${owned.unlessSet}"${suggestion(owned.unlessSet, parameters)}`;
  return [{ path: ['owned', 'unlessSet'], kind: 'notFound', message }];
}

function proofs(artefact: Artefact, all: readonly Artefact[]): What[] {
  const original = originalOf(all, artefact);
  if (original === undefined || original.kind === 'opaque') return [];
  return artefact.readers.flatMap(({ proof }, at): What[] => {
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

/** A flag with the name of an entry that is not there would never be given. */
function flagValues(artefact: Artefact, all: readonly Artefact[]): What[] {
  const keys = keysOf(artefactContent(artefact, all));
  return Object.entries(artefact.flags ?? {}).flatMap(([component, flags]) => {
    const hasKubeconfig = artefact.readers.some((one) => one.component === component && one.kubeconfig !== undefined);
    const known = hasKubeconfig ? [...keys, kubeconfigPlaceholder] : keys;
    return Object.entries(flags).flatMap(([flag, text]) =>
      parametersIn(text)
        .filter((key) => !known.includes(key))
        .map((key) => ({
          path: ['flags', component, flag],
          kind: 'notFound' as const,
          message: `must name entries of it, got "{${key}}"${suggestion(key, known)}`,
        })),
    );
  });
}

/** Only a client has an identity that a kubeconfig could name. */
function kubeconfigs(artefact: Artefact): What[] {
  if (artefact.kind === 'target' && artefact.usage === 'client') return [];
  return artefact.readers.flatMap(({ kubeconfig }, at) => {
    const path = ['readers', at, 'kubeconfig'];
    return kubeconfig === undefined ? [] : [invalid(path, 'must be left out: only a client target has one')];
  });
}

function declaredDirectories({ location }: Artefact, directories: ReadonlySet<string>): What[] {
  if (!isFile(location)) return [];
  return filesOf(location).flatMap(({ path, file }): What[] => {
    const name = directoryOf(file);
    if (name === undefined || directories.has(name)) return [];
    const message = `must begin with a declared directory, got "{${name}}"${suggestion(name, directories)}`;
    return [{ path, kind: 'notFound', message }];
  });
}

/** Two artefacts in one place would overwrite each other for ever. Told once for each pair: the nearest reason. */
export function checkPlaces(entries: readonly ArtefactEntry[]): InventoryFinding[] {
  const taken = new Map<string, string>();
  return entries.flatMap(({ index, artefact }): InventoryFinding[] => {
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

interface Declarations {
  readonly parameters: ReadonlySet<string>;
  readonly directories: ReadonlySet<string>;
  /** Whether something finds out what the machine has. */
  readonly discovers: boolean;
}

function condition({ when }: Artefact, discovers: boolean): What[] {
  if (when === undefined || discovers) return [];
  return [invalid(['when'], 'must be left out: the inventory has no `discover`, so nobody finds out')];
}

export function checkValues(
  entries: readonly ArtefactEntry[],
  { parameters, directories, discovers }: Declarations,
): InventoryFinding[] {
  const all = understood(entries);
  return entries.flatMap(({ index, artefact }) => {
    if (artefact === undefined) return [];
    return [
      ...fittingLocation(artefact, all),
      ...condition(artefact, discovers),
      ...selfSigned(artefact),
      ...life(artefact),
      ...promotion(artefact, all),
      ...(artefact.kind === 'target' ? [...keptSubject(artefact), ...hostnames(artefact, parameters)] : []),
      ...(artefact.kind === 'signer' ? ownership(artefact, parameters) : []),
      ...proofs(artefact, all),
      ...flagValues(artefact, all),
      ...kubeconfigs(artefact),
      ...declaredDirectories(artefact, directories),
    ].map((what) => ({ index, ...what }));
  });
}
