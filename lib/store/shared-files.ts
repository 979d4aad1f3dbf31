// Files that are links sometimes lead to files of another artefact: a leaf that is a link to its CA, a key that is a
// link to sa.key. Content written there would be lost for its owner, and two artefacts would overwrite each other for
// ever. Two artefacts that are one whole pair, file by file, are so by an administrator's decision. Certificate and key
// that are one file by links would each replace the other. Writes of this process to one file take turns: the preparation
// of a write removes leftovers of killed runs next to the file, and must not remove a file that another write has just
// put there.
import { basename } from 'node:path';
import type { Disk } from '../disk/disk.ts';
import { RecoveryError } from '../errors.ts';
import type { Artefact, DiskLocation } from '../inventory/model.ts';
import { fileKinds } from '../inventory/location-kinds.ts';
import { filesOf, isFile } from '../inventory/places.ts';
import { finalTarget } from './dated-files.ts';
import type { Placement } from './disk-replace.ts';
import { locationText } from './store.ts';

/** Another artefact whose files must not change. */
export type Owner = Pick<Artefact, 'name' | 'kind' | 'location'>;

/** Files of kubeadm (cmd/kubeadm/app/constants): no artefact of any preset, and never written. */
const serviceAccountFiles: ReadonlySet<string> = new Set(['sa.key', 'sa.pub']);

/** Final target of links; the path itself where they cannot be followed: no component reads a file that way either. */
const realFile = (disk: Disk, file: string): Promise<string> => disk.realpath(file).catch(() => file);

/** Throws WriteFailed where certificate and key of a pair are the same file: it would hold only either. */
export async function refuseOneFile(
  disk: Disk,
  { location, placements }: { location: DiskLocation; placements: readonly Placement[] },
): Promise<void> {
  if (location.kind !== 'pemPair') return;
  const realOf = async (path: string): Promise<string> =>
    placements.find(({ change }) => change.file === path)?.file ?? (await realFile(disk, path));
  const [certificate, key] = await Promise.all([realOf(location.certFile), realOf(location.keyFile)]);
  if (certificate !== key) return;
  const problem = `"${location.certFile}" and "${location.keyFile}" are one file, "${key}"`;
  const message = `Cannot write ${locationText(location)}: ${problem}; give certificate and key a file each`;
  throw new RecoveryError('WriteFailed', message);
}

/**
 * Whether a file is the certificate of a key pair, which may belong to the artefact that is written; its key may not.
 */
const isCertificateOf = ({ entry, file }: { entry: string | null; file: string }, paths: readonly string[]): boolean =>
  entry !== fileKinds.keyFiles.files.privateKeyFile && paths.includes(file);

/** Throws WriteFailed where a file to be written belongs to another artefact. */
export async function refuseFilesOfOthers(
  disk: Disk,
  {
    location,
    placements,
    owners,
  }: { location: DiskLocation; placements: readonly Placement[]; owners: readonly Owner[] },
): Promise<void> {
  const what = locationText(location);
  const refuse = (path: string, file: string, owner: string): never => {
    const problem = `"${path}" leads to "${file}", which belongs to ${owner}; replace the link by a file of its own`;
    throw new RecoveryError('WriteFailed', `Cannot write ${what}: ${problem}`);
  };
  for (const { change, file } of placements) {
    const name = basename(file);
    if (serviceAccountFiles.has(name) && basename(change.file) !== name) {
      refuse(change.file, file, 'the service accounts');
    }
  }
  const paths = filesOf(location).map(({ file }) => file);
  const realFiles = ({ kind, location: place }: Pick<Owner, 'location'> & Partial<Owner>): Promise<string[]> => {
    const files = isFile(place) ? filesOf(place) : [];
    const theirs = kind === 'keyPair' ? files.filter((one) => !isCertificateOf(one, paths)) : files;
    return Promise.all(theirs.map(({ file }) => realFile(disk, file)));
  };
  const own = await realFiles({ location });
  const isSigner = owners.find((owner) => locationText(owner.location) === what)?.kind === 'signer';
  for (const owner of owners) {
    if (!isFile(owner.location) || locationText(owner.location) === what) continue;
    // A CA flag may name this very file: external artefacts are only read, and this artefact is its owner.
    if (owner.kind === 'external' && filesOf(owner.location).every(({ file }) => paths.includes(file))) continue;
    const theirs = await realFiles(owner);
    const isWhole = own.length === theirs.length && own.every((file, index) => file === theirs[index]);
    if (isWhole && isSigner === (owner.kind === 'signer')) continue;
    const taken = placements.find(({ file }) => theirs.includes(file));
    if (taken !== undefined) refuse(taken.change.file, taken.file, owner.name);
  }
}

/** End of the last write that has taken its turn, by file. */
const turns = new Map<string, Promise<void>>();

/** Runs `work` once no other write of this process uses any of these files. */
export async function inTurn<T>(disk: Disk, files: readonly string[], work: () => Promise<T>): Promise<T> {
  // An absent file is identified by the target of its link.
  const targets = files.map(async (file) => realFile(disk, await finalTarget(disk, file).catch(() => file)));
  const keys = [...new Set(await Promise.all(targets))];
  // All turns are taken in one step, so no writes wait for each other in a circle.
  const before = keys.flatMap((key) => turns.get(key) ?? []);
  const { promise: own, resolve: end } = Promise.withResolvers<void>();
  for (const key of keys) turns.set(key, own);
  try {
    await Promise.all(before);
    return await work();
  } finally {
    end();
    for (const key of keys) if (turns.get(key) === own) turns.delete(key);
  }
}
