// An artefact of this host as files: their paths, their content, and the changes for new entries. One layout for each
// kind of location. Layouts compute; callers pass in the disk calls, or make them from the results.
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
