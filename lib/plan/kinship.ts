// Which CA stands behind a certificate, where that is not simply the one that signed it. Pure.
import type { Certificate } from '../pki/certificate.ts';
import { verifyChain } from '../pki/verify.ts';

interface Vouching {
  /** The intermediate CAs that the leaf's own file brings along. */
  readonly brought: readonly Certificate[];
  readonly authority: Certificate;
  readonly now: Date;
}

/** Whether who trusts no more than `authority` accepts the leaf with what its file brings along. */
export function isVouchedFor(leaf: Certificate, { brought, authority, now }: Vouching): boolean {
  return brought.length > 0 && verifyChain({ leaf, intermediates: brought, roots: [authority], at: now }).ok;
}

/**
 * When the last of the known CAs ends, where all are others'. A former CA of ours has the name or the key of the one that
 * signs now.
 */
export function othersEnd(known: readonly Certificate[], live: Certificate | undefined): Date | undefined {
  if (live === undefined || known.length === 0) return undefined;
  const isOurs = ({ fields: { subject, publicKeyInfo } }: Certificate): boolean =>
    subject.der.equals(live.fields.subject.der) || publicKeyInfo.equals(live.fields.publicKeyInfo);
  if (known.some(isOurs)) return undefined;
  return new Date(Math.max(...known.map(({ facts }) => facts.notAfter.getTime())));
}
