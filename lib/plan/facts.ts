// What is known about each artefact when a plan is made: plain data, gathered by gather.ts, no bytes and no keys.
import type { CertificateFacts, KeyAlgorithm } from '../pki/facts.ts';

export type { CertificateFacts, KeyAlgorithm };

export type ArtefactFacts =
  /** Nothing there. */
  | { readonly state: 'absent' }
  /** It could not be read now: nothing may be concluded from that. */
  | { readonly state: 'unavailable'; readonly message: string }
  /**
   * There, but not what it should be: broken PEM, an entry missing, a certificate and a key that do not belong
   * together. `keyAbsent`: the certificate is whole and its key is not on this machine.
   */
  | {
      readonly state: 'broken';
      readonly problem: 'unreadable' | 'mismatchedPair' | 'keyAbsent';
      readonly version: string;
      readonly message: string;
      /** Where they can be read all the same. */
      readonly certificates?: readonly CertificateFacts[];
    }
  | {
      readonly state: 'present';
      readonly version: string;
      /** In the order of the file: for a pair the leaf first. Empty for a key pair or an opaque object. */
      readonly certificates: readonly CertificateFacts[];
      /** SHA-256 over the entries: equal for a copy and its original. */
      readonly digest: string;
      /** This version has been there at least since then; undefined on a single look. */
      readonly since?: Date;
    };

/** By artefact name. */
export type Facts = ReadonlyMap<string, ArtefactFacts>;
