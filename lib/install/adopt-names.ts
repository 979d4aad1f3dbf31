// One serving certificate is shared by all API servers. It holds the names of this machine before its API server reads
// it: the containers add what their own configuration declares, but only once they run, and those of other machines
// declare their own. Until then whoever reaches this API server by one of its names would be refused. What is there
// stays in it, so machines with different names come to one certificate.
import type { Clock } from '../clock.ts';
import { RecoveryError } from '../errors.ts';
import type { Resolved, ResolvedTarget } from '../inventory/model.ts';
import { make } from '../issue/issue.ts';
import { wholeCertificates } from '../pki/certificate.ts';
import { dnsNameCovers } from '../pki/names.ts';
import { generateKey } from '../pki/key.ts';
import { certificateKey, locationText, type Material, type Store } from '../store/store.ts';

export interface CompleteNames {
  /** Artefacts in the API alone, with all names that this machine needs. */
  readonly resolved: Resolved;
  /** As the API has it, by artefact. */
  readonly material: ReadonlyMap<string, Material>;
  readonly store: Store;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Told of each certificate that was renewed. */
  readonly told: (line: string) => void;
}

const attempts = 20;
const pauseMs = 250;

/** Names that nothing in `held` covers. */
export function missingNames(held: readonly string[], wanted: readonly string[]): readonly string[] {
  return wanted.filter((name) => !held.some((one) => one === name || dnsNameCovers(one, name)));
}

/** The material with serving certificates that hold all names. Throws SignFailed, MaterialInvalid, KubeConflict. */
export async function completeNames(options: CompleteNames): Promise<ReadonlyMap<string, Material>> {
  const completed = new Map(options.material);
  for (const artefact of options.resolved.artefacts) {
    if (artefact.kind !== 'target' || artefact.usage === 'client') continue;
    completed.set(artefact.name, await withAllNames(artefact, options));
  }
  return completed;
}

async function withAllNames(artefact: ResolvedTarget, options: CompleteNames): Promise<Material> {
  const { resolved, material, store, clock, signal, told } = options;
  const { name, location } = artefact;
  const what = locationText(location);
  let missing: readonly string[] = [];
  for (let attempt = 1; attempt <= attempts && !signal.aborted; attempt += 1) {
    const found = await store.read(location, signal);
    if (found === undefined) break;
    const [leaf] = wholeCertificates(found.entries[certificateKey] ?? new Uint8Array());
    missing = missingNames(leaf?.facts.hostnames ?? [], artefact.hostnames);
    if (missing.length === 0) return found;
    const next = await make(artefact, {
      resolved,
      material: new Map<string, Material>([...material, [name, found]]),
      takeKey: () => generateKey(leaf?.facts.key ?? { name: 'RSA', bits: 2048 }),
      now: clock.now(),
    });
    if ((await store.write(location, next, { version: found.version }, signal)) === 'written') {
      told(`Renewed ${what}, which did not hold ${missing.join(', ')}`);
      return next;
    }
    await clock.sleep(pauseMs, signal); // a machine that runs already, or another that is adopted, has just written it
  }
  const state =
    missing.length === 0 ? 'it is gone' : `it does not hold ${missing.join(', ')}, and others keep writing it`;
  throw new RecoveryError('KubeConflict', `Cannot give this machine's names to ${what}: ${state}; run this again`);
}
