// Whether a worker's kubelet needs a new client certificate, and whether what was issued is the one. Pure: the time is an
// argument. The key stays: that its owner has it, and shows the certificate that was issued for it, is all that a worker can
// prove of itself (the approver judges it).
import type { KeyObject } from 'node:crypto';
import { RecoveryError } from '../errors.ts';
import { certificateKey, privateKeyKey } from '../inventory/content.ts';
import type { DiskLocation } from '../inventory/model.ts';
import { type Certificate, parseCertificates } from '../pki/certificate.ts';
import { keyMatches, parsePrivateKey } from '../pki/key.ts';
import { type Entries, locationText } from '../store/store.ts';
import { nodePrefix, nodesGroup } from '../well-known.ts';
import { nextCommand } from '../next-command.ts';

/** What a request is made of. */
export interface Expired {
  readonly node: string;
  readonly leaf: Certificate;
  readonly key: KeyObject;
}

/** `node`: where it is known. */
export const byHandAdvice = (node = 'NODE'): string =>
  `run "${nextCommand(`worker ${node}`)}" on a control-plane node and bring its file here, or join this machine again`;

/** Undefined while the certificate is valid. Throws MaterialInvalid for one of which nothing can be proven. */
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

/** Messages of readers are about bytes of a file with a key: that it cannot be read is all that is said. */
function unlessUnreadable<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/** What was issued, where it can be read; and why it is not what was asked for, where that is so. */
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
