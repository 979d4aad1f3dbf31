// Host names that only the API has, and that may change while the process runs: filled in by each pass. Pure.
import type { finders } from './finders.ts';
import type { Endpoints, Resolved, ResolvedArtefact } from './model.ts';

type OpenshiftParameter = (typeof finders.openshift.asks)[number];

/** Values of a parameter, or why there are none, as the last part of a sentence. */
export type ParameterValue = { readonly values: readonly string[] } | { readonly problem: string };

export interface NamesInApi {
  readonly parameters: Readonly<Record<OpenshiftParameter, ParameterValue>>;
  /** URLs of the API server. */
  readonly endpoints: Endpoints;
  /** Number of objects that could not be read, for a reason that may pass by itself. */
  readonly unread: number;
}

/** Returns the inventory with the present names from the API. Rows and places are the same. */
export function withNames(resolved: Resolved, { parameters, endpoints }: NamesInApi): Resolved {
  const known = (artefact: ResolvedArtefact): ResolvedArtefact => {
    if (artefact.kind !== 'target' || artefact.asks === undefined) return artefact;
    const told = artefact.asks.map((name) => parameters[name as OpenshiftParameter]);
    const names = told.flatMap((one) => ('values' in one ? one.values : []));
    const problems = [...new Set(told.flatMap((one) => ('problem' in one ? [one.problem] : [])))];
    // Sorted by code unit, like resolve().
    const hostnames = [...new Set([...artefact.hostnames, ...names])].toSorted();
    return { ...artefact, hostnames, ...(problems.length > 0 && { namesUnknown: problems.join('; ') }) };
  };
  const told = [parameters.externalLoadBalancerHostnames, parameters.internalLoadBalancerHostnames];
  const unknown = told.flatMap((one) => ('problem' in one ? [one.problem] : []));
  return {
    ...resolved,
    endpoints: { ...endpoints, ...resolved.endpoints },
    ...(unknown.length > 0 && { endpointsUnknown: [...new Set(unknown)].join('; ') }),
    artefacts: resolved.artefacts.map(known),
  };
}
