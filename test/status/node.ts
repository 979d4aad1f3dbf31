// A kubeadm machine as plain facts: every row of the preset present and valid, signed by its CA, unless told otherwise.
import type { Endpoints } from '../../lib/inventory/model.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import type { ArtefactFacts, Facts } from '../../lib/plan/facts.ts';
import type { PlanInput, RenewAhead, RenewalPolicy } from '../../lib/plan/decision.ts';
import { plan, replanOf } from '../../lib/plan/plan.ts';
import type { AdoptionStatus } from '../../lib/status/adoption-report.ts';
import { nodeReport, type NodeStatus, type ServedCertificate } from '../../lib/status/node-report.ts';
import type { FormerFile } from '../../lib/restart/loaded.ts';
import { at, certificate, present } from '../support/facts.ts';

/** On the first of June 2026; leaves end after 300 days, CAs after ten years. */
export const now = at(0);

export const machine = (options: { readonly etcd?: 'external'; readonly endpoints?: Endpoints } = {}) =>
  resolve(loadPreset('kubeadm'), {
    parameters: { nodeName: ['node1'] },
    ...(options.etcd === 'external' && { lacks: ['stackedEtcd'] as const }),
    ...(options.endpoints !== undefined && { endpoints: options.endpoints }),
  });

export const authority = (name: string, until = 3650) =>
  certificate(name, [-1, until], { isCa: true, signedBy: [name] });

export const leaf = (name: string, issuer: string | undefined, until = 300) =>
  certificate(name, [until - 365, until], {
    signedBy: issuer === undefined ? [name] : [issuer],
    hostnames: ['127.0.0.1', '::1', 'kubernetes', 'kubernetes.default', 'kubernetes.default.svc', 'localhost', 'node1'],
  });

/** A CA certificate whose key is on another machine. */
export const withoutKey = (name: string, until = 3650): ArtefactFacts => ({
  state: 'broken',
  problem: 'keyAbsent',
  version: '1',
  message: 'it has no private key',
  certificates: [authority(name, until)],
});

const away: ArtefactFacts = { state: 'absent' };

/** `changes` by name; `null` for what is not there. */
export function factsOf(changes: Readonly<Record<string, ArtefactFacts | null>> = {}, resolved = machine()): Facts {
  const facts = new Map<string, ArtefactFacts>();
  for (const artefact of resolved.artefacts) {
    const { name, kind, location, ...row } = artefact;
    const issuer = 'issuer' in row ? row.issuer : undefined;
    const identity =
      artefact.kind === 'target' && artefact.commonName !== undefined
        ? { commonName: artefact.commonName, organizations: artefact.organizations }
        : {};
    const fact = present(kind === 'signer' ? authority(name) : { ...leaf(name, issuer), ...identity });
    facts.set(name, location.kind === 'kubeconfig' ? { ...fact, authorities: [issuer ?? 'ca'] } : fact);
  }
  for (const [name, fact] of Object.entries(changes)) facts.set(name, fact ?? away);
  return facts;
}

/** Of a process that is restarted in nine days. */
export const former: FormerFile = {
  component: 'kube-controller-manager',
  isService: false,
  process: { pid: 41, started: 1 },
  artefact: 'controller-manager.conf',
  file: '/etc/kubernetes/controller-manager.conf',
  state: 'former',
  changedAt: at(-1),
  until: at(10),
  restartsAt: at(9),
};

export interface Told {
  readonly resolved?: ReturnType<typeof machine>;
  readonly time?: Date;
  readonly isForecast?: boolean;
  readonly keyOnly?: readonly string[];
  readonly served?: readonly ServedCertificate[];
  readonly former?: readonly FormerFile[];
  readonly isArmed?: boolean;
  readonly reasons?: readonly string[];
  readonly stillRepairs?: NodeStatus['stillRepairs'];
  readonly remedy?: string;
  readonly addressGone?: string;
  readonly explained?: string;
  readonly adopted?: AdoptionStatus;
  readonly ahead?: RenewAhead;
  readonly policy?: Partial<RenewalPolicy>;
  /** Default: true. */
  readonly synchronised?: boolean;
}

export function tell(
  changes: Readonly<Record<string, ArtefactFacts | null>> = {},
  {
    resolved = machine(),
    time = now,
    isForecast = false,
    keyOnly = [],
    served = [],
    ahead,
    policy = {},
    synchronised = true,
    ...more
  }: Told = {},
): NodeStatus {
  const facts = factsOf(changes, resolved);
  const input: PlanInput = {
    resolved,
    facts,
    policy: { kind: 'OnlyWhenExpired', graceMs: 60_000, settleMs: 1000, ...(ahead && { ahead }), ...policy },
    clock: { builtAt: at(-100), synchronised },
    now: time,
  };
  return nodeReport({
    resolved,
    facts,
    plan: plan(input),
    replan: replanOf(input),
    now: time,
    isForecast,
    served,
    keyOnly: new Set(keyOnly),
    ...more,
  });
}
