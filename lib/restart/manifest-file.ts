// How the manifest of a static pod is written, by whoever changes one: it is never absent and never half, because for the
// kubelet an absent manifest is a pod to be stopped. Owner, mode and attributes stay. The temporary file lies in the same directory,
// where the kubelet passes over names that begin with a dot (pkg/kubelet/config/file.go, extractFromDir; file_linux.go,
// produceWatchEvent); no other copy ever does, because the kubelet would run it, too.
import { dirname } from 'node:path';
import { attempt, type Disk, realDisk } from '../disk/disk.ts';
import { removeLeftovers, syncDirectory, temporaryName, writeNewFile } from '../disk/files.ts';
import { readRegularFile } from '../disk/read.ts';
import { RecoveryError } from '../errors.ts';

export interface ManifestEdit {
  /** `conflict`: somebody else has written it between our look and our write, and it is theirs. */
  readonly outcome: 'written' | 'unchanged' | 'conflict';
  /** What was there, and what was to be there: the same bytes when nothing had to change. */
  readonly before: Buffer;
  readonly after: Buffer;
}

/**
 * `change` gets what is there and returns what is to be there; undefined: it is right as it is. Throws what `change`
 * throws, ReadFailed, WriteFailed, and MaterialInvalid for a symbolic link.
 */
export async function editManifest(
  path: string,
  change: (before: Buffer) => string | Uint8Array | undefined,
  disk: Disk = realDisk,
): Promise<ManifestEdit> {
  const what = `manifest "${path}"`;
  const directory = dirname(path);
  const { before, stats } = await attempt({ code: 'ReadFailed', action: 'read', what, directory }, async () => {
    // The kubelet would follow a link, but whoever has made it wants the target changed, and not the link replaced.
    const link = await disk.lstat(path);
    if (link.isSymbolicLink()) {
      const message = `Cannot write ${what}: it is a symbolic link, wanted the file itself; put the file in its place`;
      throw new RecoveryError('MaterialInvalid', message);
    }
    return { stats: link, before: await readRegularFile(disk, path) };
  });
  const next = change(before);
  if (next === undefined) return { outcome: 'unchanged', before, after: before };
  const after = Buffer.from(next);
  const remains = 'the manifest stays as it is';
  return attempt<ManifestEdit>({ code: 'WriteFailed', action: 'write', what, directory, remains }, async () => {
    await removeLeftovers(disk, path);
    const temporary = temporaryName(path);
    try {
      const { mode, uid, gid } = stats;
      await writeNewFile(disk, temporary, after, { mode, uid, gid, like: path });
      if (!before.equals(await readRegularFile(disk, path))) {
        await disk.rm(temporary, { force: true });
        return { outcome: 'conflict', before, after };
      }
      await disk.rename(temporary, path);
    } catch (err) {
      await disk.rm(temporary, { force: true });
      throw err;
    }
    await syncDirectory(disk, directory);
    return { outcome: 'written', before, after };
  });
}
