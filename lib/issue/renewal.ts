// A renewal after the certificate that is there, as `kubeadm certs renew` does it (kubernetes/kubernetes
// cmd/kubeadm/app/phases/certs/renewal): who it is for, its names and its usages are those of the former certificate,
// also of an expired one or one whose key is lost; else of the newest backup; else what is declared. Three things are
// ours: it begins with its CA and ends with it at the latest, and what stood behind the old leaf in its file stays there.
import { isCode, RecoveryError } from '../errors.ts';
import { unfitness, usagesOf } from '../inventory/fitness.ts';
import type { ResolvedTarget } from '../inventory/model.ts';
import { type Certificate, parseCertificates, wholeCertificates } from '../pki/certificate.ts';
import { backDatedMs } from '../pki/facts.ts';
import type { PrivateKey } from '../pki/key.ts';
import { declaredTemplate, type LeafTemplate, templateOf } from '../pki/leaf-template.ts';
import { encodePem, type PemBlock, readPem } from '../pki/pem.ts';
import { signTemplate } from '../pki/sign.ts';
import { certificateKey, locationText, type Material, privateKeyKey } from '../store/store.ts';
import { annotationsOf } from './annotations.ts';
import type { Authority, Issued } from './issue.ts';

/** The certificate that a renewal follows, and the blocks that stood behind it in its file. */
export interface Former {
  readonly leaf: Certificate;
  readonly others: readonly Pick<PemBlock, 'label' | 'der'>[];
  /** It can do the work of the target. Of one that cannot, the names count all the same: people have chosen them. */
  readonly isFit: boolean;
}

/**
 * When a renewal begins: with its CA, as `kubeadm init` lets kubeconfigs begin. A clock may be wrong while this is made;
 * what began at a time that has not come yet would be of no use once the clock is put right, and would look like a clock
 * that is behind. Who dates a leaf back as far as its CA vouches for nothing more than the CA does: a CA of this minute is
 * trusted from then on only. A self-signed one begins with the one that it follows, and five minutes early at the least.
 */
function beginningOf({ issuer, former, now }: RenewalIssue): Date {
  const early = new Date(now.getTime() - backDatedMs);
  if (issuer === undefined) return earlier(early, former?.leaf.facts.notBefore ?? early);
  const { notBefore } = issuer.certificate.facts;
  return notBefore <= now ? notBefore : early;
}

const earlier = (a: Date, b: Date): Date => (a < b ? a : b);

/** The first of these that holds a certificate which can do the work of the target; else the first with names. */
export function formerLeafOf(target: ResolvedTarget, places: readonly (Material | undefined)[]): Former | undefined {
  const formers = places.flatMap((material) => {
    const pem = material?.entries[certificateKey];
    const former = pem && readFormer(pem);
    return former === undefined ? [] : [{ ...former, isFit: canServe(target, former.leaf) }];
  });
  return (
    formers.find(({ isFit }) => isFit) ??
    formers.find(({ leaf: { facts, fields } }) => !facts.isCa && fields.alternativeNames.length > 0)
  );
}

/** What lies in the place of the target may be another certificate altogether: a copy of a CA, another one's client pair. */
function canServe(target: ResolvedTarget, { facts }: Certificate): boolean {
  return unfitness(target, facts) === undefined && !facts.isCa && facts.commonName !== '';
}

/** Of a torn file whatever is whole. A private key is never carried on: the new leaf has its own. */
function readFormer(pem: Uint8Array): Omit<Former, 'isFit'> | undefined {
  let blocks: readonly Pick<PemBlock, 'label' | 'der'>[];
  let leaf: Certificate | undefined;
  try {
    [leaf] = parseCertificates(pem, 'the former certificate', 'skipped');
    blocks = readPem(pem, 'the former certificate').filter(({ label }) => !label.endsWith('PRIVATE KEY'));
  } catch (err) {
    if (!isCode(err, 'MaterialInvalid')) throw err;
    const whole = wholeCertificates(pem);
    [leaf] = whole;
    blocks = whole.map(({ x509 }) => ({ label: 'CERTIFICATE', der: x509.raw }));
  }
  const own = leaf?.x509.raw;
  return leaf && { leaf, others: blocks.filter(({ der }) => own?.equals(der) !== true) };
}

export interface RenewalIssue {
  readonly artefact: ResolvedTarget;
  /** Without it the certificate is self-signed. */
  readonly issuer?: Authority;
  readonly former?: Former | undefined;
  readonly key: PrivateKey;
  readonly now: Date;
}

/** Throws SignFailed. */
export async function issueRenewal(renewal: RenewalIssue): Promise<Issued> {
  const { artefact, issuer, former, key, now } = renewal;
  const template = former?.isFit === true ? templateOf(former.leaf) : declared(artefact, former?.leaf);
  const pem = await signTemplate({
    template,
    key: key.key,
    ...(issuer !== undefined && { issuer }),
    notBefore: beginningOf(renewal),
    notAfter: new Date(now.getTime() + artefact.validity),
    now,
  });
  // what followed a self-signed certificate were the CAs of another one
  const others = issuer === undefined || former?.isFit !== true ? [] : former.others;
  const bytes = Buffer.from([pem, ...others.map(encodePem)].join(''));
  const certificates = parseCertificates(bytes, `new certificate "${artefact.name}"`, 'skipped');
  return {
    entries: { [certificateKey]: bytes, [privateKeyKey]: Buffer.from(key.pem) },
    annotations: annotationsOf(artefact.location, certificates[0]),
    certificates,
  };
}

function declared(
  { name, location, usage, commonName, organizations, hostnames: own }: ResolvedTarget,
  former: Certificate | undefined,
): LeafTemplate {
  const hostnames = own.length === 0 ? (former?.facts.hostnames ?? []) : own;
  const known = commonName ?? (usage === 'client' ? undefined : hostnames[0]);
  const missing = [
    ...(known === undefined ? ['common name'] : []),
    ...(usage !== 'client' && hostnames.length === 0 ? ['host name'] : []),
  ];
  if (known !== undefined && missing.length === 0) {
    const template = declaredTemplate({ commonName: known, organizations, hostnames, usages: usagesOf[usage] });
    const alternativeNames = [...template.alternativeNames, ...(former?.fields.alternativeNames ?? [])];
    return { ...template, alternativeNames };
  }
  throw new RecoveryError(
    'SignFailed',
    `Cannot make ${locationText(location)}: it holds no certificate to take the names from, no backup does, and no ` +
      `${missing.join(' and no ')} is known for "${name}"; put a backup in its place, or give the parameters that ` +
      'its row of the inventory names',
  );
}
