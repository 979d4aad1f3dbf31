// When kubeconfigs that are kept in one Secret are written anew: when they hold other credentials than their target, do not
// know a CA of their bundle, or name another server. Pure.
// OpenShift's operator composes its own of the same parts (cluster-kube-apiserver-operator
// pkg/operator/nodekubeconfigcontroller), whenever these differ.
import type { Kubeconfigs } from '../inventory/model.ts';
import {
  blocked,
  type Case,
  damaged,
  type Difference,
  earliest,
  keep,
  laterMs,
  renew,
  settled,
  validNow,
  type Verdict,
} from './judgement.ts';

const lookAgainMs = 30_000;
const soonMs = 5000;
const idleMs = 3_600_000;

export function judgeKubeconfigs(at: Case<Kubeconfigs>): Verdict {
  const { artefact, fact, expected, facts, now } = at;
  const parts = [artefact.client, artefact.authority];
  const renewed = parts.filter((name) => expected.get(name)?.renewed === true);
  const leaves = { trusted: new Set<string>(), newFrom: new Set<string>() };
  const renewal = ({ reason, message }: Difference): Verdict => {
    const open = parts.map((name) => ({ name, until: expected.get(name)?.settlesAt })).find(({ until }) => until);
    if (open?.until !== undefined) {
      return keep(
        'Settling',
        `${message}; ${open.name} is looked at again first, so that these are written once`,
        open.until,
      );
    }
    const missing = parts.find((name) => !renewed.includes(name) && facts.get(name)?.state !== 'present');
    const why = missing === undefined ? undefined : `${missing}, of which they are made, is not there or not usable`;
    if (why !== undefined) return blocked('Unavailable', `${message}; ${why}`, laterMs(now, lookAgainMs));
    return serverUnknown(at, message) ?? renew({ reason, message, now, after: renewed, leaves });
  };
  if (renewed.length > 0) {
    return renewal({ reason: 'OriginalDiffers', message: `${renewed.join(', ')} is written anew` });
  }
  const damage = damaged(at);
  if (damage !== undefined) return settled(at, [artefact.name], damage, renewal);
  const difference = differenceOf(at);
  if (difference !== undefined) return settled(at, [artefact.name, ...parts], difference, renewal);
  const ends = fact.state === 'present' ? fact.certificates.map(({ notAfter }) => notAfter) : [];
  const until = earliest(laterMs(now, idleMs), ...ends.filter((date) => date > now));
  return keep('Healthy', `${artefact.servers.length} kubeconfig(s)`, until);
}

function differenceOf({ artefact, fact, expected, resolved, now }: Case<Kubeconfigs>): Difference | undefined {
  if (fact.state !== 'present') return undefined;
  const client = expected.get(artefact.client)?.certificate;
  const isValid = client !== undefined && client.notBefore <= now && now < client.notAfter;
  const isSame = fact.certificates.length === 1 && fact.certificates[0]?.fingerprint === client?.fingerprint;
  // A certificate that has ended takes no place of one that still works.
  if (!isSame && client !== undefined && (isValid || validNow(fact, now).size === 0)) {
    return { reason: 'OriginalDiffers', message: `they do not hold the certificate of ${artefact.client}` };
  }
  const wanted = [...(expected.get(artefact.authority)?.trusted ?? [])];
  if (wanted.some((print) => fact.authorities?.includes(print) !== true)) {
    return { reason: 'AuthorityDiffers', message: `they lack certificates of ${artefact.authority}` };
  }
  const moved = artefact.servers.filter(({ key, server }) => {
    const url = typeof server === 'string' ? server : resolved.endpoints?.[server.endpoint];
    return url !== undefined && fact.servers?.[key] !== url;
  });
  if (moved.length === 0) return undefined;
  return { reason: 'HostnameMissing', message: `they name another server: ${moved.map(({ key }) => key).join(', ')}` };
}

/** A server that nobody knows now is the one that is there; where there is none, they wait. */
function serverUnknown({ artefact, fact, resolved, now }: Case<Kubeconfigs>, message: string): Verdict | undefined {
  const { endpoints, endpointsUnknown = 'nobody tells them' } = resolved;
  const there = fact.state === 'present' ? fact.servers : undefined;
  const unknown = artefact.servers.filter(
    ({ key, server }) => typeof server !== 'string' && (endpoints?.[server.endpoint] ?? there?.[key]) === undefined,
  );
  if (unknown.length === 0) return undefined;
  const told = `the servers of ${unknown.map(({ key }) => key).join(', ')} are not known, because ${endpointsUnknown}`;
  return blocked('HostnameUnknown', `${message}; ${told}`, laterMs(now, soonMs));
}
