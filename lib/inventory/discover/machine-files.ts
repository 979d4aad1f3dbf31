// Files of this machine, or of one below another root, as far as discovery reads them.
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { realDisk } from '../../disk/disk.ts';
import { readRegularFile } from '../../disk/files.ts';
import { errorText, systemCode } from '../../errors.ts';
import { yamlText } from '../../yaml.ts';

/** Texts of files below `root`; what could not be read is told as a sentence. Never fails because of a file. */
export function readerBelow(root: string): { text: (file: string) => Promise<string | undefined>; unread: string[] } {
  const unread: string[] = [];
  const text = async (file: string): Promise<string | undefined> => {
    try {
      return yamlText(await readRegularFile(realDisk, join(root, file)));
    } catch (err) {
      const code = systemCode(err);
      if (code !== 'ENOENT' && code !== 'ENOTDIR') unread.push(`"${file}" could not be read: ${errorText(err)}`);
      return undefined;
    }
  };
  return { text, unread };
}

/** What may not be looked at is there all the same. */
export async function isOnMachine(path: string): Promise<boolean> {
  try {
    await access(path);
    return true;
  } catch (err) {
    const code = systemCode(err);
    return code !== 'ENOENT' && code !== 'ENOTDIR';
  }
}
