// The interface of origins that obtain content between two passes, and the run as they see it.
import type { Clock } from '../clock.ts';
import type { PairSource } from '../config/management-settings.ts';
import type { RunState } from '../host/state.ts';
import type { Resolved } from '../inventory/model.ts';
import type { KubeConnection } from '../kube/kube.ts';
import type { Credentials } from '../kubeconfig/credentials.ts';
import type { Log } from '../log.ts';
import type { Asked } from '../plan/gather-offers.ts';
import type { Store } from '../store/store.ts';

export interface ConnectAs {
  readonly tlsServerNameOverride: string | undefined;
  /** Replaces the user of the kubeconfig. */
  readonly tokenFile?: string;
  /** Replace the credentials in the kubeconfig. */
  readonly credentials?: Credentials;
}

/** Sends nothing yet. */
export type Connect = (kubeconfig: string, as: ConnectAs) => Promise<KubeConnection>;

export interface Obtaining {
  readonly resolved: Resolved;
  /** The files of this host. */
  readonly store: Store;
  /** Places of pairs in the configuration, by target. */
  readonly sources: Readonly<Record<string, PairSource>>;
  /** Token of this machine, with which it requests certificates. */
  readonly tokenFile: string;
  /** Configured for the API server of this cluster. */
  readonly tlsServerNameOverride: string | undefined;
  /** Only a `run` notes when it has obtained something. A `dryRun` starts no program. */
  readonly purpose: 'run' | 'dryRun' | 'report';
  /** Notes of former runs: a timer runs each minute. */
  readonly notes: RunState;
  /** Whether the artefact does not work now. */
  readonly isUrgent: (artefact: string) => boolean;
  /** Time that is left for all waits of the run together. */
  readonly leftMs: () => number;
  readonly connect: Connect;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** Place from which the content of one artefact is obtained. */
export interface Place {
  readonly artefact: string;
  /** Its name in messages. */
  readonly text: string;
  /** A note about a place with another identity counts for nothing. */
  readonly identity: string;
}

export type ObtainedAnswer = NonNullable<Asked['answer']>;

export interface Between {
  /** Left alone by a dry run and by `status`: it waits for long, or leaves a request in the API. */
  readonly onlyInRuns?: true;
  readonly places: (run: Pick<Obtaining, 'resolved' | 'sources'>) => readonly Place[];
  /** Never rejects but by an abort, or a fault of this program. */
  readonly obtain: (artefact: string, run: Obtaining) => Promise<ObtainedAnswer>;
}
