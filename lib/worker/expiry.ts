// Whether a worker's kubelet needs a new client certificate, and whether the issued certificate is the requested one.
// Pure: the time is an argument. The key stays: possession of it, with the certificate issued for it, is all that a
// worker can prove of itself (the approver judges it).
import type { KeyObject } from 'node:crypto';
import { RecoveryError } from '../errors.ts';
import { certificateKey, privateKeyKey } from '../inventory/content.ts';
import type { DiskLocation } from '../inventory/model.ts';
import { type Certificate, parseCertificates } from '../pki/certificate.ts';
import { keyMatches, parsePrivateKey } from '../pki/key.ts';
import { type Entries, locationText } from '../store/store.ts';
import { nodePrefix, nodesGroup } from '../well-known.ts';
import { nextCommand } from '../next-command.ts';

/** The expired pair, from which a request is made. */
export interface Expired {
  readonly node: string;
  readonly leaf: Certificate;
  readonly key: KeyObject;
}

/** `node`: its name, where known. */
export const byHandAdvice = (node = 'NODE'): string =>
  `run "${nextCommand(`worker ${node}`)}" on a control-plane node and bring its file here, or join this machine again`;

/**
 * Undefined while the certificate is valid. Throws MaterialInvalid for a certificate of which nothing can be proven.
 */
export function expiredAt(entries: Entries | undefined, location: DiskLocation, now: Date): Expired | undefined {
  const what = locationText(location);
  const refuse = (problem: string, node?: string): RecoveryError =>
    new RecoveryError(
      'MaterialInvalid',
      `Cannot renew the kubelet's certificate in ${what}: ${problem}; ${byHandAdvice(node)}`,
    );
  const { [certificateKey]: certificate, [privateKeyKey]: keyPem } = entries ?? {};
  if (certificate === undefined) throw refuse('there is none: its file is absent, empty or holds something else');
  const leaf = unlessUnreadable(() => parseCertificates(certificate, what, 'skipped')[0]);
  if (leaf === undefined) throw refuse('it cannot be read');
  if (now < leaf.facts.notAfter) return undefined;
  const { commonName, organizations } = leaf.facts;
  const node = commonName.startsWith(nodePrefix) ? commonName.slice(nodePrefix.length) : '';
  if (node === '' || !organizations.includes(nodesGroup)) {
    throw refuse(`it is that of "${leaf.facts.subject}", wanted one of a node (CN=${nodePrefix}..., O=${nodesGroup})`);
  }
  const key = keyPem && unlessUnreadable(() => parsePrivateKey(keyPem, what));
  if (key === undefined) throw refuse('it has expired, and there is no key that can be used beside it', node);
  if (!keyMatches(leaf, key)) throw refuse('it has expired, and the key beside it belongs to another one', node);
  return { node, leaf, key };
}

/** Messages of parsers quote bytes of a file with a key: only the fact that it cannot be read is reported. */
function unlessUnreadable<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/** The issued certificate, where it can be read, and how it differs from the request, where it does. */
export interface IssuedBytes {
  readonly made?: Certificate;
  readonly problem?: string | undefined;
}

export function judgeIssuedBytes(issued: Uint8Array, expired: Expired, now: Date): IssuedBytes {
  const made = unlessUnreadable(() => parseCertificates(issued, 'answer')[0]);
  return made === undefined ? { problem: 'it cannot be read' } : { made, problem: differenceOf(made, expired, now) };
}

function differenceOf(made: Certificate, { leaf, key }: Expired, now: Date): string | undefined {
  const { commonName, organizations, notAfter, usages } = made.facts;
  if (!keyMatches(made, key)) return 'it is for another key';
  if (commonName !== leaf.facts.commonName || organizations.join() !== leaf.facts.organizations.join()) {
    return `it is for "${made.facts.subject}", wanted "${leaf.facts.subject}"`;
  }
  if (made.facts.isCa) return 'it is one of a CA';
  if (usages?.includes('clientAuth') === false) return 'it is for no client';
  return now < notAfter ? undefined : `it has expired at ${notAfter.toISOString()}`;
}
