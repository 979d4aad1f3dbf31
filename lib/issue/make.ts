// The new material of one artefact, made from what its inventory names beside it: signer, bundles, original. It says
// where everything comes from, and that every bundle by which readers know a new certificate accepts it; how it is
// signed and encoded is issue.ts. Nothing is read or written here: material, keys and time are given.
import { isCode, RecoveryError } from '../errors.ts';
import type {
  CaBundle,
  ComposedBundle,
  Resolved,
  ResolvedArtefact,
  ResolvedTarget,
  Signer,
} from '../inventory/model.ts';
import { bundlesAbove } from '../inventory/order.ts';
import { type Certificate, parseCertificates, wholeCertificates } from '../pki/certificate.ts';
import { canonicalHostnames } from '../pki/hostname.ts';
import type { PrivateKey } from '../pki/key.ts';
import { signatureMatches, verifyChain } from '../pki/verify.ts';
import { caBundleKey, certificateKey, locationText, type Material } from '../store/store.ts';
import {
  type Authority,
  isSelfSigned,
  type Issued,
  issueBundle,
  issueComposedBundle,
  issueCopy,
  issueSigner,
  issueTarget,
  readAuthority,
  readBundle,
  readSigner,
} from './issue.ts';

/** An artefact with a certificate and a key of its own. */
export type Pair = Signer | ResolvedTarget;

export interface Ingredients {
  readonly resolved: Resolved;
  /** What is there, by artefact; what has been made since then in its new form. */
  readonly material: ReadonlyMap<string, Material>;
  /** A key for one use. Asked for signers and targets only. */
  readonly takeKey: (artefact: Pair) => Promise<PrivateKey>;
  /** What held nothing usable before: certificates that were only there may live on in what is made of it. */
  readonly lost?: (artefact: string) => boolean;
  readonly now: Date;
}

/** Throws SignFailed, MaterialInvalid. Takes a key for a signer or a target, and does nothing else that lasts. */
export async function make(artefact: ResolvedArtefact, from: Ingredients): Promise<Issued> {
  const { takeKey, now } = from;
  switch (artefact.kind) {
    case 'signer': {
      const issuer = artefact.issuer === undefined ? {} : { issuer: authorityOf(artefact.issuer, from) };
      const issued = await issueSigner({ artefact, ...issuer, key: await takeKey(artefact), now });
      requireAccepted(artefact, issued, from);
      return issued;
    }
    case 'target': {
      const issuer = withChain(artefact, authorityOf(artefact.issuer, from), from);
      const named = { ...artefact, hostnames: hostnamesOf(artefact, from) };
      const issued = await issueTarget({ artefact: named, issuer, key: await takeKey(artefact), now });
      requireAccepted(artefact, issued, from);
      return issued;
    }
    case 'caBundle':
      return issueBundle({ artefact, signers: liveSigners(artefact, from), former: formerOf(artefact, from), now });
    case 'composedBundle': {
      const inputs = artefact.inputs.flatMap((name) => certificatesOf(artefactOf(name, from), from));
      const former = artefact.inputs.some((name) => from.lost?.(name)) ? formerOf(artefact, from) : [];
      return issueComposedBundle({ artefact, inputs: [...inputs, ...former], now });
    }
    case 'copy':
      return issueCopy({ artefact, original: materialOf(artefact.of, from).entries });
    case 'keyPair':
    case 'opaque':
      break;
  }
  throw new RecoveryError('SignFailed', `Cannot make ${locationText(artefact.truth)}: it is not ours to make`);
}

/**
 * The declared names, and those of the certificate that is there: a name that was added by hand is not lost, and two
 * machines whose declarations differ come to one certificate instead of taking each other's names away for ever.
 */
function hostnamesOf({ name, hostnames, usage, truth }: ResolvedTarget, { material }: Ingredients): readonly string[] {
  const pem = usage === 'client' ? undefined : material.get(name)?.entries[certificateKey];
  if (pem === undefined) return hostnames;
  try {
    const [present] = parseCertificates(pem, locationText(truth));
    return canonicalHostnames([...hostnames, ...(present?.facts.hostnames ?? [])]);
  } catch (err) {
    if (isCode(err, 'MaterialInvalid')) return hostnames;
    throw err;
  }
}

function artefactOf(name: string, { resolved }: Ingredients): ResolvedArtefact {
  const artefact = resolved.artefacts.find((row) => row.name === name);
  if (artefact === undefined)
    throw new RecoveryError('InventoryInvalid', `Cannot find artefact "${name}" in inventory`);
  return artefact;
}

function materialOf(name: string, from: Ingredients): Material {
  const material = from.material.get(name);
  if (material !== undefined) return material;
  const { truth } = artefactOf(name, from);
  throw new RecoveryError('SignFailed', `Cannot use ${locationText(truth)} ("${name}"): it is not there`);
}

function authorityOf(name: string, from: Ingredients): Authority {
  return readAuthority(artefactOf(name, from).truth, materialOf(name, from).entries);
}

/**
 * The signer of a target with the CAs above it, for those who trust no more than the root: its own file holds it
 * alone. They are found by their signatures in the bundles, because the signer above may have been renewed since it
 * signed, and because its key is no business of a target below. One that is nowhere makes the chain shorter.
 */
function withChain({ name, issuer }: ResolvedTarget, signer: Authority, from: Ingredients): Authority {
  if (signer.chain.length > 0) return signer;
  const known = [...linesAbove({ name, issuer }, from)]
    .filter(({ facts }) => from.now < facts.notAfter)
    .toSorted((a, b) => b.facts.notAfter.getTime() - a.facts.notAfter.getTime());
  const chain: Certificate[] = [];
  for (let last = signer.certificate; !isSelfSigned(last);) {
    const below = [signer.certificate, ...chain].map(({ facts }) => facts.fingerprint);
    const child = last;
    const parent = known.find((ca) => !below.includes(ca.facts.fingerprint) && signatureMatches(child, ca));
    if (parent === undefined) break;
    chain.push(parent);
    last = parent;
  }
  return { ...signer, chain };
}

/** The certificates of the bundles above an artefact, above its issuer, and so on up to a self-signed signer. */
function* linesAbove(artefact: Pick<Pair, 'name' | 'issuer'>, from: Ingredients): Generator<Certificate> {
  const { artefacts } = from.resolved;
  for (let at: Pick<Pair, 'name' | 'issuer'> | undefined = artefact; at?.issuer !== undefined;) {
    for (const bundle of bundlesAbove(artefacts, at)) yield* formerOf(bundle, from);
    const { issuer }: Pick<Pair, 'issuer'> = at;
    at = artefacts.find((row): row is Signer => row.kind === 'signer' && row.name === issuer);
  }
}

/**
 * The certificate of each signer that can be used now; one that cannot is not put in front of anybody. A signer may
 * keep its key elsewhere: it is trusted all the same.
 */
function liveSigners({ signers }: CaBundle, from: Ingredients): Certificate[] {
  return signers.flatMap((name) => {
    const material = from.material.get(name);
    if (material === undefined) return [];
    const { truth } = artefactOf(name, from);
    const certificate = unlessBroken(() => readSigner(truth, material.entries));
    return certificate !== undefined && from.now < certificate.facts.notAfter ? [certificate] : [];
  });
}

/** What a bundle holds now; of a damaged one what is whole, because good trust must not go with a torn block. */
function formerOf(bundle: CaBundle | ComposedBundle, from: Ingredients): Certificate[] {
  const whole = unlessBroken(() => certificatesOf(bundle, from));
  const pem = from.material.get(bundle.name)?.entries[caBundleKey];
  return whole ?? (pem === undefined ? [] : wholeCertificates(pem));
}

function certificatesOf({ name, truth }: ResolvedArtefact, { material }: Ingredients): Certificate[] {
  const held = material.get(name);
  return held === undefined ? [] : readBundle(truth, held.entries);
}

/** Whoever plans has a decision of its own about what is broken. */
function unlessBroken<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (err) {
    if (isCode(err, 'MaterialInvalid')) return undefined;
    throw err;
  }
}

const usages = { client: ['clientAuth'], serving: ['serverAuth'], peer: ['serverAuth', 'clientAuth'] } as const;

/** The new certificate is accepted by every bundle above it, as these are now. Throws SignFailed. */
function requireAccepted(artefact: Pair, { certificates }: Issued, from: Ingredients): void {
  const [leaf, ...intermediates] = certificates;
  if (leaf === undefined) return;
  const asked = artefact.kind === 'target' ? usages[artefact.usage] : [undefined];
  const [hostname] = artefact.kind === 'target' ? artefact.hostnames : [];
  for (const bundle of bundlesAbove(from.resolved.artefacts, artefact)) {
    const roots = certificatesOf(bundle, from);
    for (const usage of asked) {
      const answer = verifyChain({
        leaf,
        intermediates,
        roots,
        at: from.now,
        ...(usage !== undefined && { usage }),
        ...(hostname !== undefined && { hostname }),
      });
      if (answer.ok) continue;
      const refusal = `${locationText(bundle.truth)} would not verify it, ${answer.reason}`;
      throw new RecoveryError('SignFailed', `Cannot make ${locationText(artefact.truth)}: ${refusal}`);
    }
  }
}
