// What plan() decides, for tables; and the entries of a kubeadm machine, whose CA, leaf and kubeconfig are files.
import type { ResolvedArtefact } from '../../lib/inventory/model.ts';
import type { Decision, PlanInput, RenewAhead } from '../../lib/plan/decision.ts';
import { plan } from '../../lib/plan/plan.ts';
import { parseWindow } from '../../lib/plan/window.ts';
import { day, goodClock, onlyWhenExpired, signer, start, target } from './facts.ts';

type Asked = Pick<PlanInput, 'resolved' | 'facts'> & Partial<PlanInput>;
type Decisions = Readonly<Record<string, Decision>>;

/** Decisions by artefact; by default of a machine that renews what has expired, on day 0 of a clock that is right. */
export function decisionsOf(asked: Asked): Decisions {
  const { decisions } = plan({ policy: onlyWhenExpired, clock: goodClock, now: start, ...asked });
  return Object.fromEntries(decisions.map((one) => [one.artefact, one]));
}

/** `renew Expired` */
export const verdictOf = (decision: Decision | undefined): string => `${decision?.action} ${decision?.reason}`;

export const verdictsOf = (decisions: Decisions): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(decisions).map(([name, one]) => [name, verdictOf(one)]));

export const pairOf = (name: string) =>
  ({ kind: 'pemPair', certFile: `/p/${name}.crt`, keyFile: `/p/${name}.key` }) as const;

export const hostAuthority = {
  ...signer,
  name: 'ca',
  owned: false,
  location: pairOf('ca'),
  validity: 3650 * day,
  refresh: 2920 * day,
} satisfies ResolvedArtefact;

export const hostLeaf = (name: string) =>
  ({
    ...target,
    name,
    issuer: 'ca',
    template: 'present',
    location: pairOf(name),
    validity: 365 * day,
    refresh: 292 * day,
  }) satisfies ResolvedArtefact;

/** That of a kubelet, which reads it at its start. */
export const hostKubeconfig = {
  ...hostLeaf('conf'),
  usage: 'client',
  hostnames: [],
  location: { kind: 'kubeconfig', file: '/kubelet.conf', endpoint: 'local' },
  readers: [{ component: 'kubelet', needs: 'restart', proof: { kind: 'none' } }],
} satisfies ResolvedArtefact;

export const ahead: RenewAhead = { beforeMs: 30 * day, signerBeforeMs: 365 * day, jitter: 0, warnOnly: false };
/** From Saturday, five days from the start. */
export const weekend: RenewAhead = { ...ahead, window: parseWindow('Sat,Sun/02:00-05:00 UTC') };
