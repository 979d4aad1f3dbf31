// When kubeconfigs in one Secret are rewritten: when they hold other credentials than their target, lack a CA of their
// bundle, or name another server. Pure. OpenShift's operator composes its own kubeconfigs of the same parts
// (cluster-kube-apiserver-operator pkg/operator/nodekubeconfigcontroller), whenever the parts differ.
import type { Kubeconfigs } from '../inventory/model.ts';
import { blocked, type Case, decide, earliest, type Fault, type Faulty, type Finding, idleMs } from './decision.ts';
import { keep, laterMs, lookAgainMs, renew, renewedOf, soonMs } from './decision.ts';
import { validNow, type Verdict } from './decision.ts';
import { partSettles, settled, stillUnusable } from './settling.ts';
import { isValid, usableCertificates } from './facts.ts';

interface KubeconfigsCase extends Case<Kubeconfigs> {
  /** Artefacts of which the kubeconfigs are made. */
  readonly parts: readonly string[];
  readonly renewed: readonly string[];
}

export function judgeKubeconfigs(given: Case<Kubeconfigs>): Verdict {
  const { artefact } = given;
  const parts = [artefact.client, artefact.authority];
  const renewed = renewedOf(parts, given);
  const at: KubeconfigsCase = { ...given, parts, renewed };
  return decide(at, {
    checks: [partRewritten, stillUnusable, otherCredentials, caMissing, otherServer],
    otherwise: healthy,
    obstacles: [({ fault }) => partSettles(at, parts, fault), partUnusable, serverUnknown],
    renewal: (faulty) => renew(faulty, renewed),
  });
}

function partRewritten({ renewed }: KubeconfigsCase): Fault | undefined {
  return renewed.length === 0
    ? undefined
    : { reason: 'OriginalDiffers', message: `${renewed.join(', ')} is rewritten` };
}

const differs = (at: KubeconfigsCase, fault: Fault): Finding => settled(at, [at.artefact.name, ...at.parts], fault);

function otherCredentials(at: KubeconfigsCase): Finding | undefined {
  const { artefact, fact, expected, now } = at;
  if (fact.state !== 'present') return undefined;
  const client = expected.get(artefact.client)?.certificate;
  const isSame = fact.certificates.length === 1 && fact.certificates[0]?.fingerprint === client?.fingerprint;
  // An expired certificate never replaces a working one.
  if (isSame || client === undefined || (!isValid(client, now) && validNow(fact, now).size > 0)) return undefined;
  const message = `they do not hold the certificate of ${artefact.client}`;
  return differs(at, { reason: 'OriginalDiffers', message });
}

function caMissing(at: KubeconfigsCase): Finding | undefined {
  const { artefact, fact, expected } = at;
  const wanted = [...(expected.get(artefact.authority)?.trusted ?? [])];
  if (fact.state !== 'present' || wanted.every((print) => fact.authorities?.includes(print) === true)) return undefined;
  return differs(at, { reason: 'AuthorityDiffers', message: `they lack certificates of ${artefact.authority}` });
}

function otherServer(at: KubeconfigsCase): Finding | undefined {
  const { artefact, fact, resolved } = at;
  if (fact.state !== 'present') return undefined;
  const moved = artefact.servers.filter(({ key, server }) => {
    const url = typeof server === 'string' ? server : resolved.endpoints?.[server.endpoint];
    return url !== undefined && fact.servers?.[key] !== url;
  });
  if (moved.length === 0) return undefined;
  const message = `they name another server: ${moved.map(({ key }) => key).join(', ')}`;
  return differs(at, { reason: 'HostnameMissing', message });
}

function healthy({ artefact, fact, now }: KubeconfigsCase): Verdict {
  const ends = usableCertificates(fact).map(({ notAfter }) => notAfter);
  const until = earliest(laterMs(now, idleMs), ...ends.filter((date) => date > now));
  return keep('Healthy', `${artefact.servers.length} kubeconfig(s)`, until);
}

function partUnusable({ parts, renewed, facts, now, fault }: Faulty<KubeconfigsCase>): Verdict | undefined {
  const missing = parts.find((name) => !renewed.includes(name) && facts.get(name)?.state !== 'present');
  if (missing === undefined) return undefined;
  const message = `${fault.message}; ${missing}, of which they are made, is not there or not usable`;
  return blocked('Unavailable', message, laterMs(now, lookAgainMs));
}

/** Keeps the present server where the wanted one is unknown now; where there is none, the kubeconfigs wait. */
function serverUnknown({ artefact, fact, resolved, now, fault }: Faulty<KubeconfigsCase>): Verdict | undefined {
  const { endpoints, endpointsUnknown = 'nobody tells them' } = resolved;
  const there = fact.state === 'present' ? fact.servers : undefined;
  const unknown = artefact.servers.filter(
    ({ key, server }) => typeof server !== 'string' && (endpoints?.[server.endpoint] ?? there?.[key]) === undefined,
  );
  if (unknown.length === 0) return undefined;
  const told = `the servers of ${unknown.map(({ key }) => key).join(', ')} are not known, because ${endpointsUnknown}`;
  return blocked('HostnameUnknown', `${fault.message}; ${told}`, laterMs(now, soonMs));
}
