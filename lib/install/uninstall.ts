// `uninstall`: removes everything that `init` made, or parts of it (uninstall-parts.ts): rights first, then identities,
// then the files with their tokens. Certificate objects stay, because the control plane needs them, and so does the
// binding by which the API server may reach kubelets; with `purge` they are deleted too. Our objects are found by their
// label, so those of an earlier inventory are removed as well; the record of the installation names the other objects
// that `init` has created. A second run finds nothing to do.
import { join } from 'node:path';
import { getIfPresent, objectPath } from '../kube/objects.ts';
import { RecoveryError } from '../errors.ts';
import type { ApiLocation, Resolved } from '../inventory/model.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { leasePath, leaseText } from '../kube/leases.ts';
import { renewalLease, restartLease } from '../restart/machine-lease.ts';
import { dataLink } from '../publish/scan.ts';
import { giveBack } from '../publish/unpublish.ts';
import { locationText } from '../store/store.ts';
import { type Api, deleteObject, manifestText, ownObjects, pathInApi } from './apply.ts';
import { isThere, namesIn, removeDirectory } from './existing-files.ts';
import { type Installed, isInstalledRecord, isShared, purgeable, readInstalled } from './install-record.ts';
import { publishedPlace } from '../inventory/places.ts';
import { hostLayout } from './layout.ts';
import { type LeavingApprover, waitForLeaving } from './leaving-approver.ts';
import { kubeletClientBinding } from './rbac.ts';
import { partOf, whoIsLeft, type UninstallPart, uninstallParts } from './uninstall-parts.ts';
import type { Given } from '../next-command.ts';

interface UninstallOptions {
  /** Administrator's connection. */
  readonly connection: KubeConnection;
  /** The named inventory; without it the recorded one. */
  readonly resolved?: Resolved | undefined;
  readonly directory: string;
  /** Also delete every Secret and ConfigMap that `init` has created, signers' keys included. */
  readonly purge?: boolean;
  /** Remove parts in use, and objects although no record lists the created ones. */
  readonly force?: boolean;
  /** Default: all. */
  readonly parts?: readonly UninstallPart[] | undefined;
  /** Only objects of this namespace. Default: of all. */
  readonly namespace?: string | undefined;
  /** Whether the units of `init host` are on this machine. Default: false. */
  readonly isHost?: boolean;
  /** Approver of this machine that may be about to end. */
  readonly leaving?: LeavingApprover | undefined;
  /** Flags of the command line except the parts. */
  readonly typed?: Given;
  readonly dryRun?: boolean;
  readonly signal: AbortSignal;
}

export interface UninstallOutcome {
  /** Objects and directories that were (with dryRun: would be) removed. */
  readonly removed: readonly string[];
  /** Remaining objects, removed only with `purge`. */
  readonly kept: readonly string[];
  /** Objects of the parts that were not to be removed. */
  readonly others: readonly string[];
  /** Users that still need a part, with dryRun and without `force`. */
  readonly left?: string | undefined;
}

const kinds = [
  'DaemonSet',
  'Deployment',
  'NetworkPolicy',
  'ClusterRoleBinding',
  'RoleBinding',
  'ClusterRole',
  'Role',
  'Secret',
  'ConfigMap',
  'ServiceAccount',
] as const;

/**
 * Throws KubeConflict while a removed part has users and when purged objects may belong to another controller,
 * ConfigInvalid when the inventory is ambiguous, and the API's refusals.
 */
export async function runUninstall(options: UninstallOptions): Promise<UninstallOutcome> {
  const { connection, signal, dryRun = false, purge = false, isHost = false, typed = {} } = options;
  const { parts = uninstallParts, namespace, leaving, force = false } = options;
  const api: Api = { connection, signal };
  if (leaving !== undefined && parts.includes('approver') && !dryRun && !force) await waitForLeaving(api, leaving);
  const found = (await Promise.all(kinds.map((kind) => ownObjects(api, kind)))).flat();
  const own = found.filter(({ metadata }) => namespace === undefined || metadata.namespace === namespace);
  const left = force ? undefined : await whoIsLeft({ api, parts, objects: own, isHost, typed });
  if (left !== undefined && !dryRun) throw new RecoveryError('KubeConflict', `Cannot uninstall: ${left}`);
  const takesModes = parts.includes('modes');
  const records = takesModes ? await readInstalled(api) : [];
  const { objects, record } = takesModes ? wanted(records, options) : { objects: [] };
  const removed: string[] = [];
  const kept: string[] = [];
  const remove = async (path: string, what: string): Promise<void> => {
    if (dryRun ? (await getIfPresent(api, path)) !== undefined : (await deleteObject(api, path)) === 'deleted')
      removed.push(what);
  };
  for (const manifest of own.filter((one) => parts.includes(partOf(one)))) {
    if (isInstalledRecord(manifest)) continue; // goes with its objects
    const { kind, metadata } = manifest;
    const isNeeded = kind === 'ClusterRoleBinding' && metadata.name === kubeletClientBinding && !purge;
    if (isNeeded) kept.push(`${manifestText(manifest)}, without which "kubectl logs" and "exec" are refused`);
    else await remove(pathInApi(manifest), manifestText(manifest));
  }
  // Its holders have no identity any more.
  if (takesModes) await remove(leasePath(restartLease), leaseText(restartLease));
  if (parts.includes('hosts')) await remove(leasePath(renewalLease), leaseText(renewalLease));
  if (purge) {
    for (const object of objects) await remove(objectPath(object), locationText(object));
    // Last: a killed run is completed by the next one.
    if (record !== undefined) await remove(pathInApi(record.manifest), manifestText(record.manifest));
  }
  for (const each of records.filter((one) => !purge || one !== record)) {
    const {
      inventory,
      manifest,
      objects: { length },
    } = each;
    const what = `${length} Secrets and ConfigMaps of inventory "${inventory}"`;
    if (length === 0) await remove(pathInApi(manifest), manifestText(manifest));
    else if (!purge) kept.push(`${what}, the CAs' keys among them, which ${manifestText(manifest)} names`);
  }
  const { credentials } = hostLayout(options.directory);
  if (takesModes && (await namesIn(credentials)).length > 0) {
    if (!dryRun) await removeDirectory(credentials);
    removed.push(credentials);
  }
  const others = own.filter((one) => !parts.includes(partOf(one))).map(manifestText);
  return { removed, kept, others, left };
}

interface Wanted {
  readonly objects: readonly ApiLocation[];
  readonly record?: Installed | undefined;
}

/** Objects that `purge` deletes. Pure. */
export function wanted(
  records: readonly Installed[],
  { resolved, purge = false, force = false }: Pick<UninstallOptions, 'resolved' | 'purge' | 'force'>,
): Wanted {
  const names = records.map(({ inventory }) => `"${inventory}"`).join(', ');
  const [only, ...others] = records.filter(({ objects }) => objects.length > 0);
  const record = resolved === undefined ? only : records.find(({ inventory }) => inventory === resolved.name);
  // Another inventory than the installed one would leave the keys of its CAs behind.
  if (resolved !== undefined && record === undefined && records.length > 0) {
    const message = `Cannot uninstall inventory "${resolved.name}": what is installed is ${names}; leave out --preset and --config, or name that one`;
    throw new RecoveryError('ConfigInvalid', message);
  }
  if (!purge) return { objects: [] };
  if (resolved === undefined && (records.length === 0 || others.length > 0)) {
    const state = records.length === 0 ? 'no record tells what was installed' : `several are installed (${names})`;
    const message = `Cannot delete the objects of the inventory: ${state}; name one with --preset or --config`;
    throw new RecoveryError('ConfigInvalid', message);
  }
  if (record !== undefined || resolved === undefined) return { objects: record?.objects ?? [], record };
  const objects = purgeable(resolved);
  if (force || objects.length === 0 || !isShared(resolved)) return { objects };
  const message = `Cannot delete the objects of inventory "${resolved.name}": nothing tells which of its ${objects.length} Secrets and ConfigMaps init has created. What an operator keeps is among them, with the keys of its CAs: without these its clients would be refused. Without --purge identities and rights are removed, and no object; --force deletes all of them`;
  throw new RecoveryError('KubeConflict', message);
}

// `uninstall --give-back`: turns the objects that the syncer has published into plain files, at the same paths and with
// the same bytes, for their next writer. No path is ever absent, so components may run. It runs after the syncer's
// rights are removed: a syncer that may still read the API would take the files over again.

interface GiveBackOptions {
  readonly resolved: Resolved;
  /** Destination directory of the syncer. */
  readonly destinationDir: string;
  readonly dryRun?: boolean;
}

/** Directories whose links became (with dryRun: would become) plain files. Throws WriteFailed. */
export async function giveBackFiles({ resolved, destinationDir, dryRun = false }: GiveBackOptions): Promise<string[]> {
  const given: string[] = [];
  for (const artefact of resolved.artefacts) {
    const place = publishedPlace(artefact, destinationDir);
    if (place === undefined) continue;
    const { directory } = place;
    // An unreadable directory does not stop the rest.
    if (!(await isThere(join(directory, dataLink), `link in "${directory}"`).catch(() => false))) continue;
    if (!dryRun) await giveBack({ ...place, what: locationText(artefact.location) });
    given.push(directory);
  }
  return given;
}
