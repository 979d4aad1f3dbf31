// Puts truly expired certificates in the place of valid ones: the same keys, the same names, real X.509 dates in the
// past, signed by the same CAs (themselves with dates in the past). What a control plane finds after months off.
import { type Authority, readAuthority, readBundle } from '../../../lib/issue/ingredients.ts';
import { issueBundle, issueCopy, issueSigner } from '../../../lib/issue/issue.ts';
import { issueTarget } from '../../../lib/issue/leaf.ts';
import type { Resolved, ResolvedArtefact } from '../../../lib/inventory/model.ts';
import { joinBundles, mergeBundle } from '../../../lib/pki/bundle.ts';
import { PrivateKey, parsePrivateKey } from '../../../lib/pki/key.ts';
import { type Found, type Material, type Store } from '../../../lib/store/store.ts';
import { privateKeyKey } from '../../../lib/inventory/content.ts';

export interface ExpireOptions {
  readonly resolved: Resolved;
  readonly store: Store;
  readonly now: Date;
  /** Artefacts that stay as they are. */
  readonly except?: (artefact: ResolvedArtefact) => boolean;
  /** How long ago everything ended. Default: one hour. */
  readonly agoMs?: number;
  /** How long leaves have lived by then. Default: their whole validity, which a young CA refuses to sign. */
  readonly lifeMs?: number;
  readonly signal?: AbortSignal;
}

/** Returns the expired material by artefact, as it has been written. */
export async function expire(options: ExpireOptions): Promise<ReadonlyMap<string, Material>> {
  const { resolved, store, signal = AbortSignal.timeout(60_000) } = options;
  const material = new Map<string, Material>();
  for (const artefact of resolved.artefacts) {
    const found = await store.read(artefact.location, signal);
    if (found === undefined && isOthers(artefact)) continue;
    if (found === undefined) throw new Error(`${artefact.name} is not there`);
    const old = options.except?.(artefact) === true ? undefined : await expired(artefact, found, material, options);
    material.set(artefact.name, old ?? found);
    if (old === undefined) continue;
    const { entries, annotations } = old;
    const outcome = await store.write(artefact.location, { entries, annotations }, { version: found.version }, signal);
    if (outcome !== 'written') throw new Error(`${artefact.name} was changed meanwhile`);
  }
  return material;
}

/**
 * The same of several inventories that are made of each other, the material by inventory and artefact: those that come
 * first take what the others have only when these have ended, too.
 */
export async function expireAll(
  inventories: readonly Pick<ExpireOptions, 'resolved' | 'store'>[],
  { except = () => false, ...options }: Omit<ExpireOptions, 'resolved' | 'store'>,
): Promise<ReadonlyMap<Resolved, ReadonlyMap<string, Material>>> {
  const made = new Map<Resolved, ReadonlyMap<string, Material>>();
  for (const one of inventories) await expire({ ...options, ...one, except });
  const stays = (row: ResolvedArtefact): boolean =>
    except(row) || (row.kind !== 'copy' && row.kind !== 'composedBundle');
  for (const one of inventories) made.set(one.resolved, await expire({ ...options, ...one, except: stays }));
  return made;
}

async function expired(
  artefact: ResolvedArtefact,
  found: Found,
  material: ReadonlyMap<string, Material>,
  { resolved, now, agoMs = 3_600_000, lifeMs }: ExpireOptions,
): Promise<Material | undefined> {
  const of = (name: string): { row: ResolvedArtefact; entries: Material['entries'] } => {
    const row = resolved.artefacts.find((one) => one.name === name);
    const made = material.get(name);
    if (row === undefined || made === undefined) throw new Error(`${name} has not been made`);
    return { row, entries: made.entries };
  };
  const authority = (name: string): Authority => readAuthority(of(name).row.location, of(name).entries);
  const bundle = (name: string) => readBundle(of(name).row.location, of(name).entries);
  /** All have expired at the same moment, and all were valid just before it. */
  const ended = now.getTime() - agoMs;
  const valid = new Date(ended - 60_000);
  switch (artefact.kind) {
    case 'signer': {
      const issuer = artefact.issuer === undefined ? {} : { issuer: authority(artefact.issuer) };
      return issueSigner({ artefact, ...issuer, key: keyOf(found), now: new Date(ended - artefact.validity) });
    }
    case 'target': {
      const validity = lifeMs ?? artefact.validity;
      const made = new Date(ended - validity);
      return issueTarget({
        artefact: { ...artefact, validity },
        issuer: authority(artefact.issuer ?? artefact.name),
        key: keyOf(found),
        now: made,
      });
    }
    case 'caBundle':
      return issueBundle(
        artefact,
        mergeBundle({ first: artefact.signers.map((name) => authority(name).certificate), rest: [], now: valid }),
      );
    case 'composedBundle':
      return issueBundle(
        artefact,
        joinBundles({ certificates: artefact.inputs.filter((name) => material.has(name)).flatMap(bundle), now: valid }),
      );
    case 'copy':
      return material.has(artefact.of) ? issueCopy(artefact, of(artefact.of).entries) : undefined;
    case 'kubeconfigs':
    case 'keyPair':
    case 'external':
    case 'opaque':
      return undefined;
  }
}

const isOthers = ({ kind }: ResolvedArtefact): boolean =>
  kind === 'external' || kind === 'keyPair' || kind === 'opaque';

function keyOf({ entries }: Found): PrivateKey {
  const pem = entries[privateKeyKey];
  if (pem === undefined) throw new Error('there is no key');
  const key = parsePrivateKey(pem, 'key');
  return new PrivateKey(key);
}
