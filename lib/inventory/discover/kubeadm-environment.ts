// The environment of an inventory of kubeadm on this machine: where the flags of its components lead, what they name that the
// inventory does not know, and by which servers its kubeconfigs are known. Impure: it reads files, and nothing else.
import { join } from 'node:path';
import { type NamedFile, withFlagEntries } from '../flag-entries.ts';
import { allDirectories, allFiles, pathHere, type PlacesHere } from '../located.ts';
import type { Inventory } from '../model.ts';
import type { Environment } from '../resolve.ts';
import { shownDirectory } from './certificates-directory.ts';
import { componentServers } from './component-servers.ts';
import { electsLeader } from './documents.ts';
import { directoriesOfKubeadm, discoverKubeadm, type Machine } from './kubeadm-machine.ts';
import { filesOfFlags, withIssuers } from './files-of-flags.ts';
import { isOnMachine, readerBelow } from './machine-files.ts';
import { movedPaths, namedDirectories, type NamedFiles, namedFiles, type SettingsHere } from './named-files.ts';

export interface Discovered {
  readonly environment: Environment;
  readonly notes: readonly string[];
}

/** Throws ConfigInvalid on a machine that is no control plane of kubeadm. */
export async function environmentOfKubeadm(
  inventory: Inventory,
  given: Environment,
  machine: Machine,
): Promise<Discovered> {
  const usual = allDirectories(inventory, {});
  const asked = allDirectories(inventory, given.directories ?? {});
  const moved = movedPaths(usual, asked);
  const filesIn = (settings: SettingsHere, without?: readonly string[]): NamedFiles =>
    namedFiles(inventory.files, settings, { moved, without });
  const isOpen = Object.hasOwn(usual, 'pkiDir') && given.directories?.['pkiDir'] === undefined;
  const discovery = await discoverKubeadm({
    ...machine,
    directories: directoriesOfKubeadm(asked),
    given,
    ...(isOpen && { shown: (settings) => shownDirectory('pkiDir', inventory.files, filesIn(settings)) }),
  });
  const { parameters, lacks, reads, manifests, settings, without, pkiDir } = discovery;
  // An inventory of your own may declare fewer.
  const declared = Object.entries(parameters).filter(
    ([name]) => Object.hasOwn(inventory.parameters, name) || Object.hasOwn(given.parameters ?? {}, name),
  );
  const files = filesIn(settings, without);
  const shown = { ...(isOpen && { pkiDir }), ...namedDirectories(inventory.directories, settings, moved) };
  const directories = { ...shown, ...given.directories };
  const here = { directories: allDirectories(inventory, directories), files };
  const places = { ...here, files: allFiles(inventory, here) };
  const machineFiles = readerBelow(machine.root ?? '/');
  const named = await withIssuers(filesOfFlags(settings, moved), {
    artefacts: inventory.artefacts.filter(({ when }) => when === undefined || !lacks.includes(when)),
    places,
    files: machineFiles,
  });
  const artefacts = withFlagEntries(inventory.artefacts, named);
  const components = await componentServers(artefacts, places, machineFiles.text);
  const endpoints = { ...discovery.endpoints, ...(components.length > 0 && { components }) };
  const withoutLease = Object.keys(manifests).filter(
    (component) => !electsLeader(manifests[component] ?? '', component),
  );
  const more = { files, named, endpoints, lacks, reads, withoutLease };
  const found = { parameters: Object.fromEntries(declared), directories, ...more };
  const notes = [...discovery.notes, ...(await unreadCopies(inventory, here, { named, root: machine.root ?? '/' }))];
  return { environment: { ...given, ...found }, notes };
}

interface Told {
  readonly named: readonly NamedFile[];
  readonly root: string;
}

/** A file in its usual place that no component reads is no health of the one in its stead. */
async function unreadCopies(
  { files: declared = {} }: Inventory,
  { directories, files = {} }: PlacesHere,
  { named, root }: Told,
): Promise<readonly string[]> {
  const read = new Set([...named.map(({ file }) => file), ...Object.values(files)]);
  const notes = Object.entries(declared).map(async ([name, { namedBy, default: usual, description }]) => {
    const instead = files[name];
    if (namedBy === undefined || usual === undefined || instead === undefined) return [];
    const path = pathHere(usual, { directories });
    if (read.has(path) || !(await isOnMachine(join(root, path)))) return [];
    const place = instead === null ? 'no flag names one' : `--${namedBy.flag} names "${instead}"`;
    return [`"${path}" is read by no component and left alone: of ${description} ${place} (${namedBy.component})`];
  });
  return [...new Set((await Promise.all(notes)).flat())];
}
