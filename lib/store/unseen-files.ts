// Files that are to be replaced and that are not among the present files of an artefact: a backup of a kubeconfig, or
// the inventory, names other files for its credentials than the present document. They are read and backed up like the
// present files, and their content may be foreign.
import { basename } from 'node:path';
import type { Change, Layout, Part } from './disk-layout.ts';

const role = 'other-';

/** The layout with the files of the changes among those that it reads. */
export function lookingAt(layout: Layout, changes: readonly Change[]): Layout {
  return {
    ...layout,
    async look(read) {
      const parts = await layout.look(read);
      const isSeen = (file: string): boolean => parts.some((part) => part.file === file && part.foreign !== true);
      const unseen = changes.filter(({ file }) => !isSeen(file));
      const seen = unseen.map(async ({ file }, at) => ({
        role: `${role}${at}-${basename(file).slice(0, 100)}`,
        file,
        bytes: await read(file),
      }));
      return [...parts, ...(await Promise.all(seen))];
    },
  };
}

/** Parts that only the changes name. */
export const unseenParts = (parts: readonly Part[]): readonly Part[] =>
  parts.filter((part) => part.role.startsWith(role));
