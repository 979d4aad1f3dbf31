// A CA that was brought here (adopted, put there by an administrator, or signed by an external CA) and that is still
// valid: machines that no bundle here reaches know it from their own files, and would refuse certificates of another
// CA. So it gets a successor only when it expires, whatever its state: due for refresh, without its key, damaged or
// deleted. A CA that we have made and named ourselves is remade. Pure.
import type { ResolvedArtefact, Signer } from '../inventory/model.ts';
import { bundlesFor, madeOf } from '../inventory/order.ts';
import { filesOf, isFile, isMadeHere } from '../inventory/places.ts';
import { isRotatedName, isRotatedNameOf } from '../inventory/rotated-name.ts';
import { type CertificateFacts, madeAt } from '../pki/certificate.ts';
import { locationText } from '../store/store.ts';
import { defaultBackupDir } from '../well-known.ts';
import {
  blocked,
  bring,
  type Case,
  type Faulty,
  idleMs,
  keep,
  laterMs,
  lookAgainMs,
  pairOf,
  renew,
  soonMs,
  type Verdict,
} from './decision.ts';
import { certificateOf, certificatesOf, type Facts, isValid } from './facts.ts';

/** Facts about a CA whose key may be lost; only its name where only a leaf knows it. */
type LastKnown = Pick<CertificateFacts, 'subject'> & Partial<CertificateFacts>;

export function broughtByOthers(at: Faulty<Case<Signer>>): Verdict | undefined {
  const { artefact, now, fault } = at;
  if (!isMadeHere(artefact)) return undefined;
  const known = lastKnown(at);
  // An unread artefact may be the only holder of it.
  if (known === undefined && isUnread(at)) {
    const message = `${fault.message}; whether it was brought here nobody can tell before its bundles and leaves are read`;
    return blocked('Unavailable', message, laterMs(now, soonMs));
  }
  if (known === undefined || isMadeByRotation(artefact, known)) return undefined;
  const { notAfter } = known;
  if (notAfter !== undefined && now >= notAfter) return undefined;
  const until = notAfter === undefined ? '' : `, valid until ${notAfter.toISOString()}`;
  const others = `CA "${known.subject}"${until}, was brought here and others may trust no other one`;
  if (fault.reason === 'RefreshDue') {
    const told = `${others}, so it is replaced at its end only; renew it by hand before, with the same key`;
    return keep('NotOurs', `${fault.message}; ${told}`, laterMs(now, idleMs));
  }
  const held = fromSibling(at, known);
  if (held !== undefined) return held;
  const message = `${fault.message}; ${others}, so none is made in its place before its end`;
  const later = laterMs(now, lookAgainMs);
  if (fault.reason === 'NotYetValid') return blocked('NotOurs', `${message}: see that the clock is right`, later);
  return bring('NotOurs', `${message}: ${wayBack(at, known)}`, later);
}

/** Restores a pair from another signer or copy: several signers share an adopted CA. Nothing is signed. */
function fromSibling(at: Faulty<Case<Signer>>, { fingerprint }: LastKnown): Verdict | undefined {
  const { artefact, fact, facts, resolved, now, fault } = at;
  const holder = resolved.artefacts.find((one) => {
    const other = facts.get(one.name);
    const isSigner = (one.kind === 'signer' ? one : pairOf(resolved.artefacts, one))?.kind === 'signer';
    return (
      isSigner &&
      one.name !== artefact.name &&
      other?.state === 'present' &&
      other.certificates[0]?.fingerprint === fingerprint
    );
  });
  const certificate = holder && certificateOf(facts.get(holder.name));
  const isThere = fact.state === 'present' && certificateOf(fact)?.fingerprint === fingerprint;
  if (holder === undefined || certificate === undefined || !isValid(certificate, now) || isThere) return undefined;
  const message = `${fault.message}; put back with its key as ${holder.name} has it`;
  const leaves = { renewed: false, trusted: new Set([certificate.fingerprint]), certificate };
  return { ...renew({ ...at, fault: { ...fault, message } }, [], leaves, 'sibling'), holder: holder.name };
}

/** Whether the CA was made by rotation: its name shows it, unless a CA beyond the inventory has signed it. */
function isMadeByRotation({ issuer }: Signer, known: LastKnown): boolean {
  const isSignedByOthers = issuer === undefined && known.issuer !== undefined && known.issuer !== known.subject;
  return isRotatedName(known.commonName ?? known.subject) && !isSignedByOthers;
}

/**
 * Returns the last known CA of a signer: its own certificate where that can be used, or is known to be its own; the CA
 * of its youngest leaf; the CA of its bundles. Undefined: no artefact here knows a CA.
 */
function lastKnown({ artefact, fact, facts, resolved, now }: Case<Signer>): LastKnown | undefined {
  // The content of another signer, or a leaf of it, put here by mistake, proves nothing about this signer.
  const signers = resolved.artefacts.filter((one) => one.kind === 'signer');
  const isOfAnother = (one: CertificateFacts): boolean =>
    signers.some((other) => other.name !== artefact.name && isRotatedNameOf(other, one.commonName));
  const authorities = [...facts.values()].flatMap(certificatesOf).filter(({ isCa }) => isCa);
  const signerOfLeaf = (one: CertificateFacts): CertificateFacts | undefined =>
    authorities.find(({ fingerprint }) => one.signedBy.includes(fingerprint));
  const own = certificatesOf(fact).find((one) => one.isCa && !isOfAnother(one));
  const leaf = youngestLeaf(artefact, resolved.artefacts, facts, (one) => {
    const by = signerOfLeaf(one);
    return by === undefined || !isOfAnother(by);
  });
  const inBundles = bundled(artefact, resolved.artefacts, facts);
  const isKnown = ({ fingerprint }: CertificateFacts): boolean =>
    leaf?.signedBy.includes(fingerprint) === true || inBundles.some((one) => one.fingerprint === fingerprint);
  const isUsable = fact.state === 'present' && own !== undefined && now < own.notAfter;
  if (own !== undefined && (isUsable || isKnown(own) || isRotatedNameOf(artefact, own.commonName))) return own;
  const by = leaf && signerOfLeaf(leaf);
  if (by !== undefined) return by;
  // An expired leaf still names its issuer; while its CA is blocked it is not renewed.
  const byLeaf = leaf && { subject: leaf.issuer };
  return inBundles.find((one) => isRotatedNameOf(artefact, one.commonName)) ?? inBundles[0] ?? own ?? byLeaf;
}

/** Whether a leaf of this signer, a bundle that must hold it, or a composition of these could not be read. */
function isUnread({ artefact, facts, resolved: { artefacts } }: Case<Signer>): boolean {
  const bundles = bundlesFor(artefacts, artefact);
  const leaves = artefacts.filter((one) => 'issuer' in one && one.issuer === artefact.name);
  const rows = [...leaves, ...bundles, ...madeOf(artefacts, bundles)];
  return rows.some(({ name }) => facts.get(name)?.state === 'unavailable');
}

function youngestLeaf(
  { name }: Signer,
  artefacts: readonly ResolvedArtefact[],
  facts: Facts,
  counts: (leaf: CertificateFacts) => boolean,
): CertificateFacts | undefined {
  const leaves = artefacts.flatMap((one) =>
    'issuer' in one && one.issuer === name ? certificatesOf(facts.get(one.name)).slice(0, 1) : [],
  );
  return leaves.filter(counts).toSorted((a, b) => madeAt(b).getTime() - madeAt(a).getTime())[0];
}

/**
 * The CAs in the bundles that must hold this signer, the youngest first; where these are empty, the CAs in their
 * compositions. Without foreign CAs: CAs of signers in the same bundle, and of further bundles that are inputs, too.
 */
function bundled(artefact: Signer, artefacts: readonly ResolvedArtefact[], facts: Facts): readonly CertificateFacts[] {
  const bundles = bundlesFor(artefacts, artefact);
  const signers = artefacts.filter((one) => one.kind === 'signer').filter(({ name }) => name !== artefact.name);
  // Several signers share an adopted CA.
  const others = signers.filter((one) => one.adoptedFrom === undefined || one.adoptedFrom !== artefact.adoptedFrom);
  const heldIn = (rows: readonly ResolvedArtefact[]): readonly CertificateFacts[] =>
    rows.flatMap((one) => certificatesOf(facts.get(one.name)));
  const left = (
    rows: readonly ResolvedArtefact[],
    beside: readonly ResolvedArtefact[],
  ): readonly CertificateFacts[] => {
    const theirs = new Set(heldIn(beside).map(({ fingerprint }) => fingerprint));
    return heldIn(rows)
      .filter(
        (one) =>
          one.isCa && !theirs.has(one.fingerprint) && !signers.some((other) => isRotatedNameOf(other, one.commonName)),
      )
      .toSorted((a, b) => madeAt(b).getTime() - madeAt(a).getTime());
  };
  const names = new Set(others.map(({ name }) => name));
  const isBeside = ({ name }: ResolvedArtefact): boolean =>
    names.has(name) && bundles.some((one) => one.kind === 'caBundle' && one.signers.includes(name));
  const nearest = left(bundles, artefacts.filter(isBeside));
  const isElsewhere = (one: ResolvedArtefact): boolean =>
    one.kind === 'external' || (one.kind === 'caBundle' && one.signers.every((name) => names.has(name)));
  return nearest.length > 0 ? nearest : left(madeOf(artefacts, bundles), artefacts.filter(isElsewhere));
}

function wayBack({ artefact, resolved, facts }: Case<Signer>, { subject, fingerprint }: LastKnown): string {
  const { location, adoptedFrom } = artefact;
  const holders = resolved.artefacts.filter((one) => {
    const fact = facts.get(one.name);
    const isHeld = fact?.state === 'present' && fact.certificates[0]?.fingerprint === fingerprint;
    return one.location.kind === 'secret' && fingerprint !== undefined && isHeld;
  });
  const files = isFile(location) ? filesOf(location).map(({ file }) => file) : [];
  const wanted = isFile(location) ? files.join(' and ') : `tls.crt and tls.key of ${locationText(location)}`;
  const places = [
    ...holders.map((one) => locationText(one.location)),
    ...(adoptedFrom === undefined ? [] : [`/etc/kubernetes/pki/${adoptedFrom}.key on a control-plane node`]),
    `the copies that are kept in ${defaultBackupDir}`,
    'a backup of etcd',
  ];
  return `put back the certificate and the key of "${subject}" as ${wanted}, from ${places.join(', ')}`;
}
