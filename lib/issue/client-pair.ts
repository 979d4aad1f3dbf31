// A client certificate with a new key, for a user that is no entry of the inventory.
import { backDatedMs } from '../pki/certificate.ts';
import type { Issuer } from '../pki/encode.ts';
import { generateKey } from '../pki/key.ts';
import { signLeaf } from '../pki/sign.ts';

interface Client {
  /** Common name. */
  readonly user: string;
  /** Organization. */
  readonly group: string;
  readonly lifeMs: number;
}

/** Certificate and key in PEM. The certificate begins five minutes early, though not before its CA. Throws SignFailed. */
export async function makeClientPair(
  issuer: Issuer,
  { user, group, lifeMs }: Client,
  now: Date,
): Promise<{ readonly cert: string; readonly key: string }> {
  // Kubelets make keys of this kind (k8s.io/client-go/util/certificate).
  const key = await generateKey({ name: 'ECDSA', curve: 'P-256' });
  const certificate = await signLeaf({
    issuer,
    key: key.key,
    commonName: user,
    organizations: [group],
    hostnames: [],
    usage: 'client',
    notBefore: new Date(Math.max(now.getTime() - backDatedMs, issuer.certificate.facts.notBefore.getTime())),
    notAfter: new Date(now.getTime() + lifeMs),
    now,
  });
  return { cert: certificate.pem, key: key.pem };
}
