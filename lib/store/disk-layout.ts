// An artefact of this host as files: which they are, what they say, and what must change in them for new entries. One
// layout for each kind of location. Layouts compute; the calls to the disk are given to them or made of what they say.
import type { Entries, Found } from './store.ts';

/** A file of an artefact as it is now. */
export interface Part {
  /** Its name in a backup, the same wherever the file lies: `tls.key`, `kubeconfig`. */
  readonly role: string;
  readonly file: string;
  /** Undefined: it is not there. */
  readonly bytes: Uint8Array | undefined;
  /** Read only: it is not this artefact's. */
  readonly foreign?: boolean;
}

/** A file that is to have other bytes. */
export interface Change {
  readonly file: string;
  readonly bytes: Uint8Array;
  /** Of a new file; an existing one keeps its own. */
  readonly mode: number;
  /** It holds a key: the world must not read it, whatever it was allowed before. */
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
  /** Undefined: the artefact is not there. Never throws. */
  understand(parts: readonly Part[]): Understood | undefined;
  /**
   * What must change, in the order in which the files take their names. `earlier`: the newest backup that can be
   * understood. Throws MaterialInvalid for an entry that has no place, WriteFailed.
   */
  change(next: Entries, parts: readonly Part[], earlier: () => Promise<readonly Part[] | undefined>): Promise<Change[]>;
  /** The files of a backup, by role, as they are to lie on this host again. */
  putBack(files: ReadonlyMap<string, Uint8Array>): Change[];
}

export const bytesOf = (parts: readonly Part[], role: string): Uint8Array | undefined =>
  parts.find((part) => part.role === role)?.bytes;
