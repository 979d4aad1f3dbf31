// The lifetime that kubeadm gives to certificates of a cluster (ClusterConfiguration.certificateValidityPeriod,
// v1beta4), from the ConfigMap in which it keeps its configuration. It also counts for renewals of `kubeadm certs
// renew`; CAs keep theirs. Pure.
import { isMapping, readYaml } from '../../yaml.ts';
import { isFile } from '../places.ts';
import type { Resolved, ResolvedArtefact } from '../model.ts';

/**
 * Its entry `ClusterConfiguration` is a document (kubernetes/kubernetes: cmd/kubeadm/app/constants,
 * KubeadmConfigConfigMap).
 */
export const kubeadmConfig = { kind: 'configMap', namespace: 'kube-system', name: 'kubeadm-config' } as const;

const unitMs: Readonly<Record<string, number>> = {
  h: 3_600_000,
  m: 60_000,
  s: 1000,
  ms: 1,
  us: 0.001,
  µs: 0.001,
  ns: 1e-6,
};
const part = '(\\d+(?:\\.\\d*)?|\\.\\d+)(h|ms|m|s|us|µs|ns)';
const whole = new RegExp(`^(?:${part})+$`);

/** time.Duration counts nanoseconds in 64 bits; kubeadm reads no longer one. */
const longestMs = 2 ** 63 / 1e6;

/** Milliseconds of a duration of Go (time.ParseDuration); undefined for other text, and unless above zero. */
export function parseGoDuration(text: string): number | undefined {
  if (!whole.test(text)) return undefined;
  const parts = [...text.matchAll(new RegExp(part, 'g'))];
  const ms = Math.round(parts.reduce((sum, [, count, unit = '']) => sum + Number(count) * (unitMs[unit] ?? 0), 0));
  return ms > 0 && ms < longestMs ? ms : undefined;
}

/** kubeadm accepts seconds, too: a timer that fires each minute would renew, and restart components, each time. */
export const shortestMs = 3_600_000;

/**
 * Returns the validity in the document `ClusterConfiguration`, an hour at least; undefined where it has none, or one
 * that kubeadm itself would not read.
 */
export function certificateValidity(document: unknown): number | undefined {
  if (typeof document !== 'string') return undefined;
  const { value, problems } = readYaml(document, 'others');
  const said = problems.length === 0 && isMapping(value) ? value['certificateValidityPeriod'] : undefined;
  const ms = typeof said === 'string' ? parseGoDuration(said) : undefined;
  return ms && Math.max(ms, shortestMs);
}

/**
 * Returns the same artefacts with that lifetime in place of kubeadm's default, and their thresholds in proportion.
 * `own`: names of artefacts with a lifetime set by the administrator. A threshold of its own stays, as far as a renewal
 * still gains something.
 */
export function withCertificateValidity(
  resolved: Resolved,
  validity: number | undefined,
  own: Readonly<Record<string, { readonly validity?: number | undefined }>>,
): Resolved {
  if (validity === undefined) return resolved;
  const lived = (artefact: ResolvedArtefact): ResolvedArtefact => {
    const isKubeadms = artefact.kind === 'target' && artefact.listedBy === 'kubeadm' && isFile(artefact.location);
    const isSet = Object.hasOwn(own, artefact.name) && own[artefact.name]?.validity !== undefined;
    if (!isKubeadms || isSet) return artefact;
    const before = artefact.validity - artefact.refresh;
    const refresh =
      artefact.renewAhead === true
        ? Math.max(validity - before, Math.round(validity * leastPart))
        : Math.round(validity * (artefact.refresh / artefact.validity));
    return { ...artefact, validity, refresh };
  };
  return { ...resolved, artefacts: resolved.artefacts.map(lived) };
}

/** A renewal that gains less of the validity is never made (lib/plan/refresh-rules.ts). */
const leastPart = 0.1;
