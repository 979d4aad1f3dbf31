// An artefact of this host as files: their paths, their content, and the changes for new entries. One layout for each
// kind of location. Layouts compute; callers pass in the disk calls, or make them from the results.
import { basename } from 'node:path';
import type { Entries, Found } from './store.ts';

/** Present state of a file of an artefact. */
export interface Part {
  /** Its name in a backup, the same wherever the file lies: `tls.key`, `kubeconfig`. */
  readonly role: string;
  readonly file: string;
  /** Undefined: absent. */
  readonly bytes: Uint8Array | undefined;
  /** Read only: it belongs to another artefact. */
  readonly foreign?: boolean;
}

/** A file that gets other bytes. */
export interface Change {
  readonly file: string;
  readonly bytes: Uint8Array;
  /** Mode of a new file; an existing file keeps its own. */
  readonly mode: number;
  /** It holds a key: the world must not read it, whatever its former mode. */
  readonly secret: boolean;
  /** A link to dated files, as the kubelet keeps it; only where it is a link, or is absent and has the name of one. */
  readonly dated?: boolean;
}

export type Understood = Pick<
  Found,
  'entries' | 'problem' | 'foreign' | 'isOtherDocument' | 'authorityIsForeign' | 'server'
>;

export type ReadFile = (file: string) => Promise<Uint8Array | undefined>;

export interface Layout {
  look(read: ReadFile): Promise<readonly Part[]>;
  /** Undefined: the artefact is absent. Never throws. */
  understand(parts: readonly Part[]): Understood | undefined;
  /**
   * Changes in the order in which the files take their names. `earlier`: the newest usable backup. Throws
   * MaterialInvalid for an entry that has no place, WriteFailed.
   */
  change(next: Entries, parts: readonly Part[], earlier: () => Promise<readonly Part[] | undefined>): Promise<Change[]>;
  /** Changes that restore the files of a backup, by role, on this host. */
  putBack(files: ReadonlyMap<string, Uint8Array>): Change[];
}

export const bytesOf = (parts: readonly Part[], role: string): Uint8Array | undefined =>
  parts.find((part) => part.role === role)?.bytes;

const unseenRole = 'other-';

/**
 * The layout with the files of the changes among those that it reads: a backup of a kubeconfig, or the inventory, names
 * other files for its credentials than the present document. They are read and backed up like the present files, and
 * their content may be foreign.
 */
export function lookingAt(layout: Layout, changes: readonly Change[]): Layout {
  return {
    ...layout,
    async look(read) {
      const parts = await layout.look(read);
      const isSeen = (file: string): boolean => parts.some((part) => part.file === file && part.foreign !== true);
      const unseen = changes.filter(({ file }) => !isSeen(file));
      const seen = unseen.map(async ({ file }, at) => ({
        role: `${unseenRole}${at}-${basename(file).slice(0, 100)}`,
        file,
        bytes: await read(file),
      }));
      return [...parts, ...(await Promise.all(seen))];
    },
  };
}

/** Parts that only the changes name. */
export const unseenParts = (parts: readonly Part[]): readonly Part[] =>
  parts.filter((part) => part.role.startsWith(unseenRole));
