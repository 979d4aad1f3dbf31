// Whether a new CA may sign yet, where its signer waits for nodes (`regen.waitForNodes`): every node has it, or those that
// lack it were accepted; where nothing is known of nodes, once it is old enough. Nodes that are known to lack it keep the
// former CA signing, until waiting longer would let something expire: recovery comes before order. Pure.
import type { CertificateFacts } from '../pki/certificate.ts';
import { shortPrint } from '../kube/reported-bundles.ts';
import { listed } from '../summary.ts';
import { type Case, earliest, keep, laterMs, lookAgainMs, type Verdict } from './decision.ts';

interface Waiting {
  readonly signer: string;
  /** The new CA; undefined: it is not made yet. */
  readonly certificate: CertificateFacts | undefined;
  /** Why it is too young, where age alone decides. */
  readonly young: Verdict | undefined;
  /** When waiting longer would let something expire. */
  readonly latest: Date;
}

/** `wait`: why the new CA does not sign yet. `note`: it signs; the state of the nodes, as the end of a sentence. */
export type Permission =
  { readonly wait: Verdict; readonly note?: undefined } | { readonly wait?: undefined; readonly note: string };

export function mayNewCaSign(at: Pick<Case, 'policy' | 'fleet' | 'now'>, waiting: Waiting): Permission {
  const { policy, fleet = { state: 'none', why: 'nodes are not asked here' }, now } = at;
  const { signer, certificate, young, latest } = waiting;
  if (policy.waitForNodes?.has(signer) !== true || certificate === undefined) return byAge(young);
  const print = shortPrint(certificate.fingerprint);
  if (fleet.state === 'none') {
    if (young !== undefined) return { wait: { ...young, message: `${young.message}; ${fleet.why}` } };
    return { note: `; ${fleet.why}, and ${signer} is old enough` };
  }
  const wait = (why: string, until = latest): Verdict =>
    keep('NodesLag', `due, but ${why}`, earliest(until, laterMs(now, lookAgainMs)));
  const nodes = fleet.state === 'known' ? fleet.nodes.get(print) : undefined;
  if (fleet.state === 'unasked' || (fleet.state === 'known' && nodes === undefined)) {
    const ca = { print, name: certificate.subject, expirationDate: certificate.notAfter };
    return { wait: { ...wait(`nodes are asked for the CA of ${signer}`, now), asksNodes: { signer, ca } } };
  }
  const isLast = now >= latest;
  const last = ', and waiting longer would let it expire';
  const until = `; signed all the same from ${latest.toISOString()}`;
  if (nodes === undefined) {
    const why = `nodes could not be asked for the CA of ${signer}: ${'why' in fleet ? fleet.why : ''}`;
    return isLast ? { note: `; ${why}${last}` } : { wait: wait(`${why}${until}`) };
  }
  const lagging = nodes.flatMap(({ name, lags }) => (lags ? [name] : []));
  const open = lagging.filter((name) => policy.acceptedLagging?.has(name) !== true);
  if (lagging.length === 0) return { note: `; every node has the CA of ${signer} (${nodes.length})` };
  if (open.length === 0) return { note: `; nodes without the CA of ${signer} were accepted: ${listed(lagging)}` };
  const lack = `${open.length} of ${nodes.length} nodes lack the CA of ${signer}: ${listed(open)}`;
  return isLast ? { note: `; ${lack}${last}` } : { wait: wait(`${lack}${until}, or with regen.acceptLagging`) };
}

/** The age of the CA decides alone. */
export const byAge = (young: Verdict | undefined): Permission => (young === undefined ? { note: '' } : { wait: young });
