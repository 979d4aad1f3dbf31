// What the readers of an inventory would say of the material in a store.
import { bundlesAbove } from '../../../lib/inventory/order.ts';
import type { Location, Resolved, ResolvedArtefact, ResolvedTarget } from '../../../lib/inventory/model.ts';
import { type Certificate, parseCertificates } from '../../../lib/pki/certificate.ts';
import { verifyChain } from '../../../lib/pki/verify.ts';
import { type Found } from '../../../lib/store/store.ts';
import { type Contents, problems } from './soundness.ts';
import { caBundleKey, certificateKey } from '../../../lib/inventory/content.ts';

/** A store in memory. */
interface Peeked {
  peek(location: Location): Found | undefined;
}

const parsed = new WeakMap<Found, readonly Certificate[]>();

/** Nothing where it is absent or broken. */
function certificates(store: Peeked, { location, name }: ResolvedArtefact): readonly Certificate[] {
  const found = store.peek(location);
  if (found === undefined) return [];
  const known = parsed.get(found);
  if (known !== undefined) return known;
  let all: readonly Certificate[] = [];
  try {
    all = parseCertificates(found.entries[certificateKey] ?? found.entries[caBundleKey] ?? new Uint8Array(), name);
  } catch {
    // broken: readers have nothing
  }
  parsed.set(found, all);
  return all;
}

interface Reading {
  readonly artefact: ResolvedArtefact;
  /** What it is checked by. */
  readonly trust: ResolvedArtefact;
}

const textOf = ({ artefact, trust }: Reading): string => `${artefact.name} by ${trust.name}`;

export class StoreReaders {
  readonly #resolved: Resolved;
  readonly #readings: readonly Reading[];

  constructor(resolved: Resolved) {
    this.#resolved = resolved;
    this.#readings = resolved.artefacts.flatMap((artefact) =>
      this.#trustOf(artefact).map((trust) => ({ artefact, trust })),
    );
  }

  /**
   * Leaves that a reader could check before `touched` was written, and refuses now. None is one that is lost and about to
   * be renewed, because the bundle of its own signer did not know it any more.
   */
  harm({ before, after, at }: { before: Peeked; after: Peeked; at: Date }, touched: ResolvedArtefact): string[] {
    return this.#readings.flatMap((reading) => {
      const { artefact, trust } = reading;
      if (artefact.kind !== 'target' || (artefact !== touched && trust !== touched)) return [];
      const now = refusal(after, at, reading);
      if (now === undefined || refusal(before, at, reading) !== undefined) return [];
      const own = bundlesAbove(this.#resolved.artefacts, artefact);
      const isLost = own.every((bundle) => refusal(before, at, { artefact, trust: bundle }) !== undefined);
      return isLost ? [] : [`${touched.name} harms ${textOf(reading)}: ${now}`];
    });
  }

  /** What is not as it should be when nothing is left to do, by name. */
  unsound(store: Peeked, at: Date): string[] {
    const refused = this.#readings.flatMap((reading) => {
      const why = refusal(store, at, reading);
      return why === undefined ? [] : [`${textOf(reading)}: ${why}`];
    });
    return [...refused, ...problems(this.#resolved, contentsOf(store, this.#resolved), at)];
  }

  /** Every file by which a reader may check an artefact: the bundles above it, and what is composed or copied of them. */
  #trustOf(artefact: ResolvedArtefact): readonly ResolvedArtefact[] {
    const { artefacts } = this.#resolved;
    const row = artefact.kind === 'target' || artefact.kind === 'signer' ? artefact : undefined;
    const trust: ResolvedArtefact[] = row === undefined ? [] : [...bundlesAbove(artefacts, row)];
    for (const other of artefacts) {
      const of = other.kind === 'composedBundle' ? other.inputs : other.kind === 'copy' ? [other.of] : [];
      if (trust.some(({ name }) => of.includes(name))) trust.push(other);
    }
    return trust;
  }
}

/** Why a reader would refuse it. */
function refusal(store: Peeked, at: Date, { artefact, trust }: Reading): string | undefined {
  const [leaf, ...intermediates] = certificates(store, artefact);
  if (leaf === undefined) return 'it is not there';
  const roots = certificates(store, trust);
  const usage = artefact.kind === 'target' ? { usage: usageOf(artefact) } : {};
  const answer = verifyChain({ leaf, intermediates, roots, at, ...usage });
  return answer.ok ? undefined : answer.reason;
}

/** As text, by the names of that inventory. */
export function contentsOf(store: Peeked, { artefacts }: Resolved): Contents {
  return new Map(
    artefacts.flatMap(({ name, location }) => {
      const found = store.peek(location);
      if (found === undefined) return [];
      const texts = Object.entries(found.entries).map(([key, value]) => [key, Buffer.from(value).toString()] as const);
      return [[name, Object.fromEntries(texts)] as const];
    }),
  );
}

function usageOf({ usage }: ResolvedTarget): 'clientAuth' | 'serverAuth' {
  return usage === 'client' ? 'clientAuth' : 'serverAuth';
}
