// The certificate that kube-apiserver makes for the client of itself: at its start, in memory, self-signed, for a year,
// since 1.33 for three (k8s.io/apiserver: pkg/server/options/serving_with_loopback.go). When it expires the API server
// answers, and all its requests to itself fail. Only a restart makes a new one.
import { X509Certificate } from 'node:crypto';
import { announcedPart } from '../well-known.ts';
import { type ServedOptions, servedChain } from './served.ts';

/** Server name that only this client uses (pkg/server/config_selfclient.go, LoopbackClientServerNameOverride). */
export const loopbackName = 'apiserver-loopback-client';

export interface LoopbackCertificate {
  readonly notBefore: Date;
  readonly notAfter: Date;
}

/** Undefined where no server answers, or the server has no such certificate. Never rejects. */
export async function askLoopback(
  options: Pick<ServedOptions, 'host' | 'port' | 'timeoutMs' | 'clock' | 'signal'>,
): Promise<LoopbackCertificate | undefined> {
  try {
    const leaf = new X509Certificate(await servedChain({ ...options, serverName: loopbackName }));
    // Without a certificate for this name a server answers with its usual certificate.
    if (leaf.checkHost(loopbackName) === undefined) return undefined;
    return { notBefore: leaf.validFromDate, notAfter: leaf.validToDate };
  } catch {
    return undefined;
  }
}

interface LoopbackVerdict {
  readonly state: 'OK' | 'EXPIRING' | 'EXPIRED';
  /** Time from which the server is restarted while no other machine of the cluster restarts its own. */
  readonly restartsAt: Date;
  /** Time from which it is restarted although that cannot be ensured. */
  readonly restartsAnywayAt: Date;
}

/** Pure. */
export function judgeLoopback({ notBefore, notAfter }: LoopbackCertificate, now: Date): LoopbackVerdict {
  const life = notAfter.getTime() - notBefore.getTime();
  const before = (part: number): Date => new Date(notAfter.getTime() - life * part);
  const state = now >= notAfter ? 'EXPIRED' : now >= before(announcedPart) ? 'EXPIRING' : 'OK';
  return { state, restartsAt: before(0.1), restartsAnywayAt: before(0.05) };
}
