// What a new leaf takes over from another one, as `kubeadm certs renew` does: common name, organizations, extended key
// usages, alternative names; nothing else.
import { hostnameDer } from './alternative-names.ts';
import type { Certificate } from './certificate.ts';
import { usageOids } from './signed-check.ts';

export interface LeafTemplate {
  readonly commonName: string;
  readonly organizations: readonly string[];
  /** Object identifiers; without them the certificate is not restricted. */
  readonly extendedKeyUsage?: readonly string[];
  /** DER of each name. */
  readonly alternativeNames: readonly Buffer[];
}

export function templateOf({ fields }: Certificate): LeafTemplate {
  const { subject, extendedKeyUsage, alternativeNames } = fields;
  return {
    commonName: subject.commonName,
    organizations: subject.organizations,
    ...(extendedKeyUsage !== undefined && { extendedKeyUsage }),
    alternativeNames,
  };
}

export interface Declared {
  readonly commonName: string;
  readonly organizations: readonly string[];
  /** DNS names and IP addresses. */
  readonly hostnames: readonly string[];
  readonly usages: readonly (keyof typeof usageOids)[];
}

export function declaredTemplate({ commonName, organizations, hostnames, usages }: Declared): LeafTemplate {
  return {
    commonName,
    organizations,
    extendedKeyUsage: usages.map((usage) => usageOids[usage]),
    alternativeNames: hostnames.map(hostnameDer),
  };
}
