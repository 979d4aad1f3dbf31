// When a CA is due for renewal before it expires: on control-plane nodes, where the administrator may configure it, on
// workers, which follow, and for the search for its successor, which begins before. Pure.
import type { CertificateFacts } from './certificate.ts';

type Life = Pick<CertificateFacts, 'notBefore' | 'notAfter'>;

/** Default remaining life at renewal. */
export const defaultCaBeforeMs = 365 * 86_400_000;
/** Largest part of a CA's life that may remain at renewal, as cert-manager's default. */
const mostOfLife = 1 / 3;
/** Part of a threshold by which nodes created within a minute are spread. */
export const jitterPart = 0.1;

export const lifeMsOf = ({ notBefore, notAfter }: Life): number => notAfter.getTime() - notBefore.getTime();

/** Remaining milliseconds at which a CA of this life is due. `beforeMs`: as configured. */
export const caDueMs = (lifeMs: number, beforeMs: number): number => Math.min(beforeMs, lifeMs * mostOfLife);

/** Milliseconds before notAfter at which a renewal is due by default. */
export const caThresholdMs = (ca: Life): number => caDueMs(lifeMsOf(ca), defaultCaBeforeMs);

/** Not later than any node renews it; `ownBeforeMs`: the threshold of a CA that has one of its own. */
export const earliestDue = (ca: Life, ownBeforeMs = 0): Date =>
  new Date(ca.notAfter.getTime() - Math.max(lifeMsOf(ca) * mostOfLife, ownBeforeMs) * (1 + jitterPart));
