// Files of this machine, or below another root, as far as discovery reads them.
import type { Dirent } from 'node:fs';
import { access, readdir, readlink } from 'node:fs/promises';
import { join } from 'node:path';
import { realDisk } from '../../disk/disk.ts';
import { readRegularFile } from '../../disk/files.ts';
import { errorText, systemCode } from '../../errors.ts';
import { yamlText } from '../../yaml.ts';

export interface MachineFiles {
  /** Undefined for a file that is absent or cannot be read. */
  readonly text: (file: string) => Promise<string | undefined>;
  /** Names of all entries except directories, sorted; none where the directory is absent or cannot be read. */
  readonly names: (directory: string) => Promise<readonly string[]>;
  /** Names of directories, sorted; none where the directory is absent or cannot be read. */
  readonly directories: (directory: string) => Promise<readonly string[]>;
  /** The literal target of a symbolic link; undefined where there is none. */
  readonly link: (file: string) => Promise<string | undefined>;
  /** A sentence for each place that exists and could not be read. */
  readonly unread: string[];
}

/** Returns a reader of files below `root`. Reading never fails because of a file. */
export function readerBelow(root: string): MachineFiles {
  const unread: string[] = [];
  const attempt = async <T, E>(place: string, read: () => Promise<T>, otherwise: E): Promise<T | E> => {
    try {
      return await read();
    } catch (err) {
      const code = systemCode(err);
      if (code !== 'ENOENT' && code !== 'ENOTDIR') unread.push(`"${place}" could not be read: ${errorText(err)}`);
      return otherwise;
    }
  };
  const listed = (directory: string, wanted: (entry: Dirent) => boolean): Promise<readonly string[]> =>
    attempt(directory, async () => {
      const entries = await readdir(join(root, directory), { withFileTypes: true });
      return entries.flatMap((entry) => (wanted(entry) ? [entry.name] : [])).toSorted();
    }, []);
  return {
    text: (file) => attempt(file, async () => yamlText(await readRegularFile(realDisk, join(root, file))), undefined),
    names: (directory) => listed(directory, (entry) => !entry.isDirectory()),
    directories: (directory) => listed(directory, (entry) => entry.isDirectory()),
    link: (file) => readlink(join(root, file)).catch(() => undefined),
    unread,
  };
}

/** Whether the file exists: a file without read permission does. */
export async function isOnMachine(path: string): Promise<boolean> {
  try {
    await access(path);
    return true;
  } catch (err) {
    const code = systemCode(err);
    return code !== 'ENOENT' && code !== 'ENOTDIR';
  }
}
