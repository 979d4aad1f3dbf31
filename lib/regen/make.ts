// The new material of one artefact, made from what its inventory names beside it: signer, bundles, original. It says
// where everything comes from; how it is signed and encoded is lib/issue.
import { RecoveryError } from '../errors.ts';
import type { CaBundle, ResolvedArtefact, Resolved, ResolvedTarget, Signer } from '../inventory/model.ts';
import {
  type Authority,
  type Issued,
  issueBundle,
  issueComposedBundle,
  issueCopy,
  issueSigner,
  issueTarget,
  readAuthority,
  readBundle,
} from '../issue/issue.ts';
import type { Certificate } from '../pki/certificate.ts';
import type { KeyAlgorithm } from '../pki/facts.ts';
import type { KeyPool } from '../pki/key-pool.ts';
import { verifyChain } from '../pki/verify.ts';
import type { Facts } from '../plan/facts.ts';
import { locationText } from '../store/store.ts';
import type { Material } from '../store/store.ts';

export interface Ingredients {
  readonly resolved: Resolved;
  readonly facts: Facts;
  /** What is there now, by artefact; what has been renewed since the facts were gathered in its new form. */
  readonly material: ReadonlyMap<string, Material>;
  readonly keys: KeyPool;
  /** Without it the algorithm of what is replaced is kept. */
  readonly keyAlgorithm?: KeyAlgorithm;
  readonly now: Date;
}

const defaultAlgorithm: KeyAlgorithm = { name: 'RSA', bits: 2048 };

/** Throws SignFailed, MaterialInvalid. Makes a key for a signer or a target, and nothing else that lasts. */
export async function make(artefact: ResolvedArtefact, from: Ingredients): Promise<Issued> {
  const { keys, now } = from;
  switch (artefact.kind) {
    case 'signer': {
      const issuer = artefact.issuer === undefined ? {} : { issuer: authorityOf(artefact.issuer, from) };
      const issued = await issueSigner({ artefact, ...issuer, key: await keys.take(algorithmOf(artefact, from)), now });
      return verified(artefact, issued, from);
    }
    case 'target': {
      const issuer = authorityOf(artefact.issuer, from);
      const issued = await issueTarget({ artefact, issuer, key: await keys.take(algorithmOf(artefact, from)), now });
      return verified(artefact, issued, from);
    }
    case 'caBundle': {
      const signers = liveSigners(artefact, from);
      return issueBundle({ artefact, signers, former: formerOf(artefact, from), now });
    }
    case 'composedBundle': {
      const inputs = artefact.inputs.flatMap((name) => certificatesOf(name, from));
      return issueComposedBundle({ artefact, inputs, now });
    }
    case 'copy':
      return issueCopy({ artefact, original: materialOf(artefact.of, from).entries });
    case 'keyPair':
    case 'opaque':
      break;
  }
  throw new RecoveryError('SignFailed', `Cannot make ${locationText(artefact.truth)}: it is not ours to make`);
}

function algorithmOf({ name }: Signer | ResolvedTarget, { facts, keyAlgorithm }: Ingredients): KeyAlgorithm {
  const fact = facts.get(name);
  const replaced = fact?.state === 'present' ? fact.certificates[0]?.key : undefined;
  return keyAlgorithm ?? replaced ?? defaultAlgorithm;
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

/** A signer, with the CAs above it that the inventory knows: its own file holds it alone. */
function authorityOf(name: string, from: Ingredients): Authority {
  const signer = artefactOf(name, from);
  const authority = readAuthority(signer.truth, materialOf(name, from).entries);
  if (signer.kind !== 'signer' || signer.issuer === undefined || authority.chain.length > 0) return authority;
  const above = authorityOf(signer.issuer, from);
  return { ...authority, chain: [above.certificate, ...above.chain] };
}

/** The certificate of each signer that can be used now; one that cannot is not put in front of anybody. */
function liveSigners({ signers }: CaBundle, from: Ingredients): Certificate[] {
  return signers.flatMap((name) => {
    const material = from.material.get(name);
    if (material === undefined) return [];
    try {
      const { certificate } = readAuthority(artefactOf(name, from).truth, material.entries);
      return certificate.facts.notAfter > from.now ? [certificate] : [];
    } catch {
      return []; // broken: the plan has a decision of its own about it
    }
  });
}

/** What a bundle holds now; nothing when it is absent or cannot be read. */
function formerOf({ name, truth }: ResolvedArtefact, { facts, material }: Ingredients): Certificate[] {
  const held = material.get(name);
  return held === undefined || facts.get(name)?.state !== 'present' ? [] : readBundle(truth, held.entries);
}

function certificatesOf(name: string, from: Ingredients): Certificate[] {
  const held = from.material.get(name);
  return held === undefined ? [] : readBundle(artefactOf(name, from).truth, held.entries);
}

const usages = { client: ['clientAuth'], serving: ['serverAuth'], peer: ['serverAuth', 'clientAuth'] } as const;

/** The new certificate, accepted by every bundle that readers check it with, as these are now. */
function verified(artefact: Signer | ResolvedTarget, issued: Issued, from: Ingredients): Issued {
  const { issuer } = artefact;
  const [leaf, ...intermediates] = issued.certificates;
  if (issuer === undefined || leaf === undefined) return issued;
  const bundles = from.resolved.artefacts.filter((row): row is CaBundle => row.kind === 'caBundle');
  const asked = artefact.kind === 'target' ? usages[artefact.usage] : [undefined];
  const [hostname] = artefact.kind === 'target' ? artefact.hostnames : [];
  for (const bundle of bundles.filter(({ signers }) => signers.includes(issuer))) {
    const roots = certificatesOf(bundle.name, from);
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
      throw new RecoveryError(
        'SignFailed',
        `Cannot renew ${locationText(artefact.truth)}: ${locationText(bundle.truth)} would not verify it, ${answer.reason}`,
      );
    }
  }
  return issued;
}
