// caBundles in the API, by which kube-apiserver verifies servers of others. Those servers answer inside the cluster, so
// only the bundle itself is judged: whether it can verify any server at a time. Pure.
import type { Certificate } from '../pki/certificate.ts';
import { rootRefusal, verifyChain } from '../pki/verify.ts';
import { type RelationCheck, timeless } from './check.ts';
import {
  type BundleOfServer,
  certificatesAt,
  fails,
  held,
  notApplicable,
  trusted,
  type TrustFacts,
} from './trust-facts.ts';

export function bundleCheck({ name, server, hostname, none }: BundleOfServer, facts: TrustFacts): RelationCheck {
  const [credential, trust] = [{ name: server }, { name }];
  if (none !== undefined) return timeless(credential, trust, notApplicable(none));
  const { value: among, lack } = trusted(facts, certificatesAt(facts, name));
  if (among === undefined) return timeless(credential, trust, lack);
  const answer: RelationCheck['answer'] = (at) => {
    const refusals = among.map((one) => refusalOfAny(one, hostname, at));
    if (refusals.includes(undefined)) return held;
    return fails(
      refusals[0] === undefined ? `no certificate is left in ${name}` : `no server can be verified: ${refusals[0]}`,
    );
  };
  return { credential, trust, certificates: among, answer };
}

/** Why it verifies no server: neither one with a certificate that its key signs, nor, if it is no CA, one that shows it. */
function refusalOfAny(root: Certificate, hostname: string, at: Date): string | undefined {
  if (root.facts.isCa) return rootRefusal(root, { at, usage: 'serverAuth' });
  const shown = verifyChain({ leaf: root, intermediates: [], roots: [root], at, usage: 'serverAuth', hostname });
  return shown.ok ? undefined : shown.reason;
}
