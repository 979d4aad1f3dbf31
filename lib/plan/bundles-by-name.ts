// Bundles by the name of an image registry, read entry by entry: one that cannot be used takes no other with it. Pure.
import { bounds } from '../bounds.ts';
import { valueOrProblem } from '../pki/pem.ts';
import { type Certificate, parseCertificates, wholeCertificates } from '../pki/certificate.ts';
import { registryOf } from '../image-registries.ts';
import type { Entries } from '../store/store.ts';
import type { CasByName } from './facts.ts';

const { registries: mostOffered } = bounds.registryTrust.most;

/** Bundles that a source offers: a bounded number. */
export const offeredByName = (entries: Entries, what: string) => bundlesByName(entries, what, mostOffered);

/**
 * Bundles by name; a directory counts whole. `what`: their place, for messages. A name whose bundle cannot be used is
 * there all the same, with none.
 */
export function bundlesByName(
  entries: Entries,
  what: string,
  most = Number.POSITIVE_INFINITY,
): { each: CasByName; problems: readonly string[] } {
  const each = new Map<string, readonly Certificate[]>();
  const problems: string[] = [];
  for (const [key, pem] of Object.entries(entries)) {
    const name = registryOf(key);
    if (name === undefined) {
      problems.push(`${JSON.stringify(key.slice(0, 100))} in ${what} is no registry (a host, or a host and a port)`);
      continue;
    }
    if (each.size >= most && !each.has(name)) return { each, problems: [...problems, `${what} has more than ${most}`] };
    const { problem } = valueOrProblem(() => parseCertificates(pem, `${what} ${name}`));
    if (problem !== undefined) problems.push(problem);
    each.set(name, [...(each.get(name) ?? []), ...wholeCertificates(pem)]);
  }
  return { each, problems };
}
