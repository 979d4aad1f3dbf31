// Options of the approver, from the process that runs it.
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

export interface ApproverOptions extends Pick<ApproverConfig, 'nodeCertificate' | 'expectedNodes'> {
  /** The longest that a client certificate of a kubelet lives in this cluster. */
  readonly longestLifeMs: number;
  readonly connection: KubeConnection;
  /** The node of this machine. */
  readonly nodeName: string;
  /** Namespace of the approver's ServiceAccount, which holds the ConfigMaps of its records. */
  readonly namespace: string;
  /** The only users whose requests for client certificates are judged. */
  readonly requesters: readonly Requester[];
  /** Signers whose requests are approved. Default: `kubelet-client`. */
  readonly signers?: readonly KubeletSigner[];
  /** Sources of the names that belong to a node, for serving certificates. Default: none. */
  readonly addresses?: readonly AddressSettings[];
  /** Connection to another cluster for its Machines, kept up to date while the process runs. */
  readonly connect?: (kubeconfig: string) => Promise<KubeConnection>;
  /** Checked before an approval. `thorough`: at the cost of a process. */
  readonly clockFacts: (thorough: boolean) => Promise<ClockFacts>;
  /** Boot time of this machine; undefined: not known. */
  readonly bootedAt: () => Date | undefined;
  /** A single pass over the existing requests, without a watch. */
  readonly once: boolean;
  /** Nothing is written, no Event either; the log reports would-be approvals. */
  readonly dryRun: boolean;
  /** Milliseconds until a left request is judged again, and the longest time between two judgements. */
  readonly recheckMs: number;
  readonly clock: Clock;
  readonly log: Log;
  readonly health?: Pick<Health, 'set'>;
  readonly events?: Pick<EventRecorder, 'record'>;
  readonly metrics?: Metrics;
  readonly signal: AbortSignal;
}
