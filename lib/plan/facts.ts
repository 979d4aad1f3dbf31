// What is known about each artefact when a plan is made: plain data, gathered by gather.ts, no keys. Pure.
import type { Certificate, CertificateFacts } from '../pki/certificate.ts';

export type ArtefactFacts =
  /** Nothing there. */
  | { readonly state: 'absent'; readonly madeFromNothing?: true }
  /** It could not be read now: nothing may be concluded from that. */
  | {
      readonly state: 'unavailable';
      readonly message: string;
      /** No look has been able to read it since then; undefined on a single look. */
      readonly since?: Date | undefined;
    }
  /**
   * There, but not what it should be: broken PEM, an entry missing, a certificate and a key that do not belong
   * together. `keyAbsent`: the certificate is whole and its key is not on this machine; `keyEncrypted`: of a CA on disk,
   * only its passphrase opens it. `foreign`: a kubeconfig whose credentials are others', or another document in its place;
   * neither is ever written. `damaged`: a CA certificate whose own signature is wrong, or that differs in a few bytes from its copies.
   */
  | {
      readonly state: 'broken';
      readonly problem: 'unreadable' | 'mismatchedPair' | 'keyAbsent' | 'keyEncrypted' | 'foreign' | 'damaged';
      readonly isOtherDocument?: true | undefined;
      readonly version: string;
      readonly message: string;
      /** Of a target that shares its key: whether that can be read all the same. */
      readonly hasSharedKey?: boolean;
      /** Where they can be read all the same. */
      readonly certificates?: readonly CertificateFacts[];
      /** Of a kubeconfig: neither it nor a backup can be gone by, so a new one must name its server. */
      readonly madeFromNothing?: true;
      /** Of files that have just changed: when they did. */
      readonly since?: Date | undefined;
      /** Of a signer whose certificate cannot be used: what copies of it say. */
      readonly copies?: SignerCopies | undefined;
    }
  | {
      readonly state: 'present';
      readonly version: string;
      /** In the order of the file; of a signer its own in front, wherever it stands. Empty for a key pair or an opaque object. */
      readonly certificates: readonly CertificateFacts[];
      /** Of a signer whose own certificate is not the first of its file: the subject of that. */
      readonly precededBy?: string;
      /** SHA-256 over the entries: equal for a copy and its original. */
      readonly digest: string;
      /** Of a kubeconfig: fingerprints of the CA certificates by which it knows its server; undefined where it names none. */
      readonly authorities?: readonly string[] | undefined;
      /**
       * When the last of them ends, where none has the subject or the key of the kubeconfig's own signer: it knows its
       * server by a CA of others, say that of a load balancer.
       */
      readonly othersAuthorityEnds?: Date | undefined;
      /** Of a kubeconfig: the URL of its server. */
      readonly server?: string | undefined;
      /** Of kubeconfigs in one Secret: the server of each, by key of its entry. */
      readonly servers?: Readonly<Record<string, string>>;
      /** Of a ConfigMap of others without any certificate: what it has in the place of its bundle. */
      readonly emptied?: string | undefined;
      /** They lie in a file that the kubeconfig names: a renewal of the kubeconfig does not replace them. */
      readonly authorityIsForeign?: boolean | undefined;
      /** Of a signer that has expired or ends soon: what its renewal with its own key goes by. */
      readonly successor?: SuccessorFacts | undefined;
      /** Of a signer in files that none of what it is to have signed knows: the evidence against it. */
      readonly unknownTo?: UnknownAuthority | undefined;
      /** Of a signer: what holds a copy that differs in a few bytes, where nothing shows which of the two is right. */
      readonly differingCopies?: readonly string[] | undefined;
      /** Content like this (`digest`) has been there at least since then; undefined on a single look, and of files that are older. */
      readonly since?: Date | undefined;
    };

/** Another key has signed all that lies here of a signer. */
export interface UnknownAuthority {
  /** Artefacts that it has signed. */
  readonly leaves: readonly string[];
  /** Its name, by their word. */
  readonly issuer: string;
  /** Lower-case hex; undefined where they do not say it. */
  readonly keyId: string | undefined;
  /** Of its certificate; undefined where that lies nowhere here. */
  readonly fingerprint?: string | undefined;
  /** An artefact that holds its certificate. */
  readonly heldBy?: string | undefined;
  /** Its certificate and key are the newest backup of the signer, and valid or not. */
  readonly backup?: 'valid' | 'expired' | undefined;
}

/** Why no copy is put back: they are not the same, or have expired and what is here has not, or no leaf knows their name. */
export type Doubt = 'different' | 'ended' | 'unnamed';

/** Copies of a signer's certificate that are whole and fit its key, or without its key what it has signed. */
export interface SignerCopies {
  /** The one that was there. */
  readonly certificate?: CertificateFacts | undefined;
  /** Artefacts that hold one, and `its backup`. */
  readonly from: readonly string[];
  /** Why none of them is known to have been there. */
  readonly doubt?: Doubt | undefined;
  /** Its key is there and can be used. */
  readonly hasKey: boolean;
}

export interface SuccessorFacts {
  /** One that is valid now, with the same key: of several the one that ends last. */
  readonly newer?: CertificateFacts | undefined;
  /** Artefacts that hold it. */
  readonly from: readonly string[];
  /** Artefacts that name the serial number of the signer's certificate. */
  readonly namedBy: readonly string[];
}

/** Whole but for a key that is elsewhere, or that nobody here can open. */
export const isClosed = (fact: ArtefactFacts | undefined): boolean =>
  fact?.state === 'broken' && (fact.problem === 'keyAbsent' || fact.problem === 'keyEncrypted');

/** What can be read, also of something broken: a certificate without its key, the whole blocks of a torn bundle. */
export const certificatesOf = (fact: ArtefactFacts | undefined): readonly CertificateFacts[] =>
  fact?.state === 'present' || fact?.state === 'broken' ? (fact.certificates ?? []) : [];

/** Of what can be used as it is. */
export const usableCertificates = (fact: ArtefactFacts | undefined): readonly CertificateFacts[] =>
  fact?.state === 'present' ? fact.certificates : [];

/** The first of several. */
export const certificateOf = (fact: ArtefactFacts | undefined): CertificateFacts | undefined =>
  usableCertificates(fact)[0];

/** Whether it is one that is valid now. */
export const isValid = (
  certificate: Pick<CertificateFacts, 'notBefore' | 'notAfter'> | undefined,
  now: Date,
): certificate is CertificateFacts =>
  certificate !== undefined && certificate.notBefore <= now && now < certificate.notAfter;

/** By artefact name. */
export type Facts = ReadonlyMap<string, ArtefactFacts>;

/** What is known of the source of one target. */
export interface Offer {
  /** In words: `Secret "default/pair" (kubeconfig "/k")`. */
  readonly place: string;
  /** When it was asked last; a single run is asked about this by the next one, a minute later. */
  readonly askedAt?: Date | undefined;
  /** Undefined: not asked. */
  readonly answer?: OfferAnswer | undefined;
}

export type OfferAnswer =
  | { readonly problem: string }
  /** It is a program, and a dry run runs none. */
  | { readonly problem: string; readonly notRun: true }
  | {
      readonly offered: Certificate;
      /** What is here, where it is whole. */
      readonly present: Certificate | undefined;
      /** The CA beside the target on this machine; none where it cannot be read. */
      readonly authorities: readonly Certificate[];
    };

/** By target. */
export type Offers = ReadonlyMap<string, Offer>;
