// What the approver is given by the process that runs it.
import type { Requester } from '../bootstrap-identity.ts';
import type { Clock } from '../clock.ts';
import type { AddressSettings } from '../config/address-settings.ts';
import type { ApproverConfig } from '../config/mode-settings.ts';
import type { Health } from '../health.ts';
import type { EventRecorder } from '../kube/events.ts';
import type { KubeConnection } from '../kube/kube.ts';
import type { Log } from '../log.ts';
import type { Metrics } from '../metrics.ts';
import type { ClockFacts } from '../plan/clock-rules.ts';
import type { KubeletSigner } from '../well-known.ts';

export interface ApproverOptions extends Pick<ApproverConfig, 'nodeCertificate' | 'longestLifeMs' | 'expectedNodes'> {
  readonly connection: KubeConnection;
  /** The node of this machine. */
  readonly nodeName: string;
  /** Of the approver's ServiceAccount, where it keeps what it must not forget. */
  readonly namespace: string;
  /** The only ones whose requests are judged. */
  readonly requesters: readonly Requester[];
  /** Whose certificates are approved. Default: those of kubelets as clients. */
  readonly signers?: readonly KubeletSigner[];
  /** Who knows what names belong to a node, for serving certificates. Default: nobody. */
  readonly addresses?: readonly AddressSettings[];
  /** For Machines of another cluster: a connection that is kept up to date while the process lasts. */
  readonly connect?: (kubeconfig: string) => Promise<KubeConnection>;
  /** Asked before something may be approved. `thorough`: at the cost of a process. */
  readonly clockFacts: (thorough: boolean) => Promise<ClockFacts>;
  /** When this machine was switched on; undefined: not known. */
  readonly bootedAt: () => Date | undefined;
  /** One look at what is there, without a watch. */
  readonly once: boolean;
  /** Nothing is written, no Event either; the log says what would be done. */
  readonly dryRun: boolean;
  /** Milliseconds until a request that is left is looked at again, and the longest time between two looks. */
  readonly recheckMs: number;
  readonly clock: Clock;
  readonly log: Log;
  readonly health?: Pick<Health, 'set'>;
  readonly events?: Pick<EventRecorder, 'record'>;
  readonly metrics?: Metrics;
  readonly signal: AbortSignal;
}
