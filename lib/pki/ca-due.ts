// When a CA is due for renewal ahead of its end: on control-plane nodes, which the administrator may tell otherwise, on
// workers, which follow, and for whoever looks for its successor before. Pure.
import type { CertificateFacts } from './certificate.ts';

type Life = Pick<CertificateFacts, 'notBefore' | 'notAfter'>;

/** Remaining life without a setting. */
export const defaultCaBeforeMs = 365 * 86_400_000;
/** The part of a life that may be left at most, as cert-manager has it by default. */
export const mostOfLife = 1 / 3;
/** The part of a threshold by which nodes that were made within a minute are spread. */
export const jitterPart = 0.1;

export const lifeMsOf = ({ notBefore, notAfter }: Life): number => notAfter.getTime() - notBefore.getTime();

/** Milliseconds before notAfter. */
export const caThresholdMs = (ca: Life, beforeMs = defaultCaBeforeMs): number =>
  Math.min(beforeMs, lifeMsOf(ca) * mostOfLife);

/** Not later than any node renews it by the settings of all CAs; a CA with a threshold of its own may be due before. */
export const earliestDue = (ca: Life): Date =>
  new Date(ca.notAfter.getTime() - lifeMsOf(ca) * mostOfLife * (1 + jitterPart));
