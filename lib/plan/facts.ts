// Facts about each artefact when a plan is made: plain data, gathered by gather.ts, no keys. Pure.
import type { ResolvedArtefact } from '../inventory/model.ts';
import type { Certificate, CertificateFacts } from '../pki/certificate.ts';
import type { OfferedPair } from './judge-pair.ts';

export type ArtefactFacts =
  /** Nothing there. */
  | { readonly state: 'absent'; readonly madeFromNothing?: true }
  /** It could not be read now: nothing may be concluded from that. */
  | {
      readonly state: 'unavailable';
      readonly message: string;
      /** Time since which every pass has failed to read it; undefined in a single pass. */
      readonly since?: Date | undefined;
    }
  /**
   * There, but not usable: broken PEM, an entry missing, a certificate and a key that do not belong together.
   * `keyAbsent`: the certificate is whole and its key is not on this machine; `keyEncrypted`: only its passphrase opens
   * the key of a CA on disk. `foreign`: a kubeconfig with credentials of another owner, or another document in its
   * place; neither is ever written. `damaged`: a CA certificate whose own signature is wrong, or that differs in a few
   * bytes from its copies.
   */
  | {
      readonly state: 'broken';
      readonly problem: 'unreadable' | 'mismatchedPair' | 'keyAbsent' | 'keyEncrypted' | 'foreign' | 'damaged';
      readonly isOtherDocument?: true | undefined;
      readonly version: string;
      readonly message: string;
      /** Targets that share their key only: whether that key can be read. */
      readonly hasSharedKey?: boolean;
      /** External bundles in the API only: what can be read of it all the same. */
      readonly offer?: OfferedAuthorities;
      /** Certificates, where they can be read all the same. */
      readonly certificates?: readonly CertificateFacts[];
      /** Kubeconfigs only: neither the file nor a backup can serve as a template, so a new one must name its server. */
      readonly madeFromNothing?: true;
      /** Change time of files that have just changed. */
      readonly since?: Date | undefined;
      /** Signers whose certificate cannot be used only: the evidence of its copies. */
      readonly copies?: SignerCopies | undefined;
    }
  | {
      readonly state: 'present';
      readonly version: string;
      /** Certificates in file order; a signer's own in front, wherever it is. None for a key pair or opaque object. */
      readonly certificates: readonly CertificateFacts[];
      /** Signers only: subject of the first certificate of the file, where it is not the signer's own. */
      readonly precededBy?: string;
      /** SHA-256 over the entries: equal for a copy and its original. */
      readonly digest: string;
      /** Kubeconfigs only: fingerprints of the CA certificates for its server; undefined where it names none. */
      readonly authorities?: readonly string[] | undefined;
      /**
       * Latest notAfter of these CAs, where none has the subject or the key of the kubeconfig's own signer: its server
       * has a foreign CA, for example a load balancer's.
       */
      readonly othersAuthorityEnds?: Date | undefined;
      /** Kubeconfigs only: the URL of its server. */
      readonly server?: string | undefined;
      /** Kubeconfigs in one Secret only: the server of each, by key of its entry. */
      readonly servers?: Readonly<Record<string, string>>;
      /** External ConfigMaps without any certificate only: their content in the place of the bundle. */
      readonly emptied?: string | undefined;
      /** The CAs lie in a file that the kubeconfig names: a renewal of the kubeconfig does not replace them. */
      readonly authorityIsForeign?: boolean | undefined;
      /** Requested pairs only: its own file holds none, and this is an earlier one. */
      readonly isLost?: true;
      /** Followed CAs only: the whole certificates of the file, and its last change. */
      readonly held?: readonly Certificate[];
      readonly changedAt?: Date | undefined;
      /** Followed CAs in a directory only: those of each file, by name. */
      readonly each?: CasByName | undefined;
      /** External bundles in the API only. */
      readonly offer?: OfferedAuthorities;
      /** Signers that have expired or expire soon: facts for a renewal with the same key. */
      readonly successor?: SuccessorFacts | undefined;
      /** Signers in files that match none of the leaves they should have signed: the evidence against the signer. */
      readonly unknownTo?: UnknownAuthority | undefined;
      /** Signers only: artefacts whose copy differs in a few bytes, where nothing shows which of the two is right. */
      readonly differingCopies?: readonly string[] | undefined;
      /** Time since which every pass found this content (`digest`); undefined in a single pass, and for older files. */
      readonly since?: Date | undefined;
    };

/** CAs that an object in the API has for files that follow it. */
export interface OfferedAuthorities {
  /** Whole certificates: a block that is none takes no other with it. */
  readonly whole: readonly Certificate[];
  /** Fingerprints of CAs that an administrator has named for removal, in its annotation. */
  readonly retired: readonly string[];
  /** Bundles by name only: the CAs of each. */
  readonly each?: CasByName | undefined;
  /** Likewise: why some of them, or a part, cannot be used. */
  readonly problems?: readonly string[] | undefined;
}

/** Certificates in use on this node, or why they are not known. */
export type InUse = { readonly chains: readonly UsedChain[] } | { readonly problem: string };

export interface UsedChain {
  /** For messages. */
  readonly what: string;
  /** With the intermediates that are sent along. */
  readonly chain: readonly [Certificate, ...Certificate[]];
}

export type CasByName = ReadonlyMap<string, readonly Certificate[]>;

/** Another CA, whose key has signed all leaves of a signer that lie here. */
export interface UnknownAuthority {
  /** Artefacts that this CA has signed. */
  readonly leaves: readonly string[];
  /** Name of this CA, from the issuer field of the leaves. */
  readonly issuer: string;
  /** Lower-case hex; undefined where the leaves do not name it. */
  readonly keyId: string | undefined;
  /** Fingerprint of its certificate; undefined where the certificate lies nowhere here. */
  readonly fingerprint?: string | undefined;
  /** An artefact that holds its certificate. */
  readonly heldBy?: string | undefined;
  /** Its certificate and key are the newest backup of the signer, which is valid or has expired. */
  readonly backup?: 'valid' | 'expired' | undefined;
}

/** Why no copy is put back: copies differ, or expired while ours has not, or no leaf has their name. */
export type Doubt = 'different' | 'ended' | 'unnamed';

/** Copies of a signer's certificate that are whole and fit its key, or, without its key, the leaves it has signed. */
export interface SignerCopies {
  /** The certificate that was there before. */
  readonly certificate?: CertificateFacts | undefined;
  /** Artefacts that hold a copy, and `its backup`. */
  readonly from: readonly string[];
  /** Why no copy is known to have been there. */
  readonly doubt?: Doubt | undefined;
  /** Its key is there and can be used. */
  readonly hasKey: boolean;
}

interface SuccessorFacts {
  /** Certificate that is valid now, with the same key; the one with the latest notAfter. */
  readonly newer?: CertificateFacts | undefined;
  /** Artefacts that hold this certificate. */
  readonly from: readonly string[];
  /** Artefacts that name the serial number of the signer's certificate. */
  readonly namedBy: readonly string[];
}

/** Whether a pair is whole except for its key, which is elsewhere or encrypted. */
export const isClosed = (fact: ArtefactFacts | undefined): boolean =>
  fact?.state === 'broken' && (fact.problem === 'keyAbsent' || fact.problem === 'keyEncrypted');

/**
 * The certificate by whose dates an artefact is shown: its first one; of CAs that are followed, the one that expires
 * last, because a former one stays beside it.
 */
export function displayedCertificate(
  artefact: ResolvedArtefact,
  fact: ArtefactFacts | undefined,
): CertificateFacts | undefined {
  const all = certificatesOf(fact);
  if (artefact.kind !== 'external' || artefact.followedAs === undefined) return all[0];
  return all.toSorted((a, b) => b.notAfter.getTime() - a.notAfter.getTime())[0];
}

/** Certificates that can be read, also of broken artefacts: without a key, or the whole blocks of a torn bundle. */
export const certificatesOf = (fact: ArtefactFacts | undefined): readonly CertificateFacts[] =>
  fact?.state === 'present' || fact?.state === 'broken' ? (fact.certificates ?? []) : [];

/** Certificates of an artefact that is usable. */
export const usableCertificates = (fact: ArtefactFacts | undefined): readonly CertificateFacts[] =>
  fact?.state === 'present' ? fact.certificates : [];

/** The first usable certificate. */
export const certificateOf = (fact: ArtefactFacts | undefined): CertificateFacts | undefined =>
  usableCertificates(fact)[0];

/** Whether there is a certificate, and it is valid now. */
export const isValid = (
  certificate: Pick<CertificateFacts, 'notBefore' | 'notAfter'> | undefined,
  now: Date,
): certificate is CertificateFacts =>
  certificate !== undefined && certificate.notBefore <= now && now < certificate.notAfter;

/** Facts by artefact name. */
export type Facts = ReadonlyMap<string, ArtefactFacts>;

/** State of the source of one target. */
export interface Offer {
  /** Place for messages: `Secret "default/pair" (kubeconfig "/k")`. */
  readonly place: string;
  /** Time of the last fetch; a single run leaves it to the next run, a minute later. */
  readonly askedAt?: Date | undefined;
  /** Undefined: not fetched. */
  readonly answer?: OfferAnswer | undefined;
}

export type OfferAnswer =
  | { readonly problem: string }
  /** The source is a program, and a dry run runs none. */
  | { readonly problem: string; readonly notRun: true }
  /** A CA that follows one of a file of this machine. */
  | { readonly successor: Certificate }
  /** The cluster has no other CA than this machine. */
  | { readonly none: true }
  | OfferedPair;

/** Offers by target. */
export type Offers = ReadonlyMap<string, Offer>;

/**
 * Suffix for a message about a signer that is not the first certificate of its file; undefined where it is: kubeadm takes
 * the first of several, whatever key lies next to it (kubernetes/kubernetes cmd/kubeadm/app/util/pkiutil,
 * TryLoadCertFromDisk).
 */
export function precedenceText(fact: ArtefactFacts | undefined): string | undefined {
  const first = fact?.state === 'present' ? fact.precededBy : undefined;
  return (
    first &&
    `kubeadm signs by the first certificate in the file, "${first}", not by this one, whose key is here; put this one in front before kubeadm is used`
  );
}
