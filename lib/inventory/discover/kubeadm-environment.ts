// The environment of an inventory of kubeadm on this machine: the targets of its components' flags, files that these
// name and the inventory does not list, and the servers of its kubeconfigs. Impure: it reads files, and nothing else.
import { realpath } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { FileOfFlag } from '../file-flags.ts';
import { allDirectories, allFiles, filesOf, isFile, pathHere, type PlacesHere } from '../places.ts';
import type { Inventory } from '../model.ts';
import { namedHere } from '../named-entries.ts';
import type { Environment } from '../resolve.ts';
import { isConfirmedBy } from './address-witnesses.ts';
import {
  movedPaths,
  namedDirectories,
  type NamedFiles,
  namedFiles,
  type SettingsHere,
  shownDirectory,
} from './named-files.ts';
import { componentServers } from './component-servers.ts';
import { demandedHostnames } from './demanded-hostnames.ts';
import { electsLeader } from './documents.ts';
import { directoriesOfKubeadm, discoverKubeadm, type Machine } from './kubeadm-machine.ts';
import { filesOfFlags, unreadSettings, withIssuers } from './files-of-flags.ts';
import { type Discovered, isOnMachine, readerBelow } from './machine-files.ts';
import { filesOfSigners, signerChoices } from './signer-places.ts';

/** Discovers the environment. Throws ConfigInvalid on a machine that is no control plane of kubeadm. */
export async function environmentOfKubeadm(
  inventory: Inventory,
  given: Environment,
  machine: Machine,
): Promise<Discovered> {
  const usual = allDirectories(inventory, {});
  const asked = allDirectories(inventory, given.directories ?? {});
  const moved = movedPaths(usual, asked);
  const filesIn = (settings: SettingsHere, more: Parameters<typeof namedFiles>[2] = {}): NamedFiles =>
    namedFiles(inventory.files, settings, { moved, ...more });
  const isOpen = Object.hasOwn(usual, 'pkiDir') && given.directories?.['pkiDir'] === undefined;
  const discovery = await discoverKubeadm({
    ...machine,
    directories: directoriesOfKubeadm(asked),
    given,
    ...(isOpen && { shown: (settings) => shownDirectory('pkiDir', inventory.files, filesIn(settings)) }),
  });
  const { parameters, lacks, unknown, reads, manifests, broken, settings, without, pkiDir, witnesses } = discovery;
  // An inventory of your own may declare fewer.
  const declared = Object.entries(parameters).filter(
    ([name]) => Object.hasOwn(inventory.parameters, name) || Object.hasOwn(given.parameters ?? {}, name),
  );
  const shown = { ...(isOpen && { pkiDir }), ...namedDirectories(inventory.directories, settings, moved) };
  const directories = { ...shown, ...given.directories };
  const inUse = allDirectories(inventory, directories);
  const usualFiles = { directories: inUse, files: allFiles(inventory, { directories: inUse }) };
  const known = inventory.artefacts.flatMap(({ location }) =>
    isFile(location) ? filesOf(location).map(({ file }) => pathHere(file, usualFiles)) : [],
  );
  const all = filesOfFlags(settings, moved).flatMap(({ file, keyFile }) => [
    file,
    ...(keyFile === undefined ? [] : [keyFile]),
  ]);
  const names = await namesOfFiles([...known, ...all], machine.root ?? '/');
  const placed = (path: string): string => names.get(moved(path)) ?? moved(path);
  const machineFiles = readerBelow(machine.root ?? '/');
  const flags = filesOfFlags(settings, placed);
  const byFlags = filesIn(settings, { moved: placed, without });
  const usualPath = (path: string): string => placed(pathHere(path, { directories: inUse }));
  const signers = await filesOfSigners(signerChoices(inventory.files, { named: byFlags, flags, usual: usualPath }), {
    artefacts: inventory.artefacts,
    places: { directories: inUse, files: allFiles(inventory, { directories: inUse, files: byFlags }) },
    files: machineFiles,
    root: machine.root ?? '/',
  });
  const files = { ...byFlags, ...signers };
  const here = { directories: inUse, files };
  const places = { ...here, files: allFiles(inventory, here) };
  const present = inventory.artefacts.filter(({ when }) => when === undefined || !lacks.includes(when));
  const artefacts = namedHere(present, places, usualFiles);
  const named = await withIssuers(flags, { artefacts, files: machineFiles });
  const servers = await componentServers(inventory.artefacts, places, machineFiles.text);
  const components = [...new Set(servers.map(({ url }) => url))];
  const demanded = demandedHostnames(artefacts, {
    settings,
    servers,
    isConfirmed: (address) => isConfirmedBy(witnesses, address),
    own: witnesses.own,
  });
  const endpoints = { ...discovery.endpoints, ...(components.length > 0 && { components }) };
  const withoutLease = Object.keys(manifests).filter(
    (component) => !electsLeader(manifests[component] ?? '', component),
  );
  const unread = [...broken, ...unreadSettings(settings)];
  const more = { files, named, unread, endpoints, lacks, reads, withoutLease, demanded, unknown };
  const found = { parameters: Object.fromEntries(declared), directories, ...more };
  const notes = [...discovery.notes, ...(await unreadCopies(inventory, here, { named, root: machine.root ?? '/' }))];
  return { environment: { ...given, ...found }, notes };
}

/** Returns the first path of each file that has several, by links of directories or of its own. */
async function namesOfFiles(paths: readonly string[], root: string): Promise<ReadonlyMap<string, string>> {
  const first = new Map<string, string>();
  const names = new Map<string, string>();
  for (const path of new Set(paths)) {
    const real = await realPath(join(root, path));
    names.set(path, first.get(real) ?? path);
    if (!first.has(real)) first.set(real, path);
  }
  return names;
}

/** Resolves links; only its directory is resolved where the file is absent. */
async function realPath(path: string): Promise<string> {
  return realpath(path).catch(async () => {
    const directory = await realpath(dirname(path)).catch(() => dirname(path));
    return join(directory, basename(path));
  });
}

interface Told {
  readonly named: readonly FileOfFlag[];
  readonly root: string;
}

/** Reports a file in its usual place that no component reads: it is no evidence for the file in its stead. */
async function unreadCopies(
  { files: declared = {} }: Inventory,
  { directories, files = {} }: PlacesHere,
  { named, root }: Told,
): Promise<readonly string[]> {
  const read = new Set([...named.map(({ file }) => file), ...Object.values(files)]);
  const notes = Object.entries(declared).map(async ([name, { namedBy, default: usual, description, alone }]) => {
    const instead = files[name];
    if (namedBy === undefined || usual === undefined || instead === undefined) return [];
    if (alone === true && instead === null) return [];
    const path = pathHere(usual, { directories });
    if (read.has(path) || !(await isOnMachine(join(root, path)))) return [];
    const place = instead === null ? 'no flag names one' : `--${namedBy.flag} names "${instead}"`;
    return [`"${path}" is read by no component and left alone: of ${description} ${place} (${namedBy.component})`];
  });
  return [...new Set((await Promise.all(notes)).flat())];
}
