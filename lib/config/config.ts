// What the program is to do, checked and complete. A union by mode: a syncer never sees what only regen needs,
// and each mode has the credential of its own.
import type { RenewalPolicy } from '../plan/decision.ts';
import type { KeyAlgorithm } from '../pki/key.ts';
import type { LogFormat, LogLevel } from '../log.ts';
import type { Environment } from '../inventory/resolve.ts';
import type { Inventory } from '../inventory/model.ts';
import type { Address } from '../address.ts';
import type { ClockStatement } from '../host/clock-synchronised.ts';

/** Who this process is, from the downward API. */
export interface ProcessIdentity {
  readonly podName?: string | undefined;
  readonly nodeName?: string | undefined;
}

export interface CommonConfig {
  readonly inventory: Inventory;
  /** For resolve(). Where only the syncer runs names may lack: it makes no certificate. */
  readonly environment: Environment;
  /** Replaces the name by which kubeconfigs ask for the API server's certificate. */
  readonly tlsServerNameOverride?: string | undefined;
  /** The name under which the API server serves the certificate that outlives all others. */
  readonly recoveryServerName: string;
  /** Where proofs meet the API server; undefined: at the server of the kubeconfig. */
  readonly apiServerAddress?: Address | undefined;
  readonly log: { readonly level: LogLevel; readonly format: LogFormat };
  readonly dryRun: boolean;
  readonly identity: ProcessIdentity;
}

export interface RenewalConfig {
  readonly policy: RenewalPolicy;
  /** Undefined: keep the algorithm of what is replaced, RSA-2048 for what is new. */
  readonly keyAlgorithm?: KeyAlgorithm | undefined;
}

/** Of the machine on which artefacts are made. */
export interface HostConfig {
  /** Where files that are replaced are copied to. */
  readonly backupDir: string;
  /** Keeps a second process on this machine from writing the same files. */
  readonly lockDir: string;
  /** Who says whether the clock is synchronised: this machine, or the configuration. */
  readonly clockSynchronised: ClockStatement;
}

export interface RegenConfig extends RenewalConfig, HostConfig {
  readonly mode: 'regen';
  /** `disk`: the files of this host alone, before there is an API. `api`: the objects alone. */
  readonly locations: 'all' | 'disk' | 'api';
  /** Whether components of this machine that read renewed files at their start only are restarted at the end. */
  readonly restart: boolean;
  /** Undefined only when no object of the API is looked at. */
  readonly kubeconfig?: string | undefined;
}

export interface SyncerConfig {
  readonly mode: 'syncer';
  readonly kubeconfig: string;
  readonly destinationDir: string;
  /** Only what these components read becomes files; undefined: everything that is published. */
  readonly components?: readonly string[] | undefined;
  /** Made once every object has been looked at; undefined: none. */
  readonly cachesSyncedFile?: string | undefined;
  /** Undefined: readers that read files at their start only are reported. */
  readonly restart?: RestartConfig | undefined;
}

/** Of components in the same pod. */
interface RestartConfig {
  /** Where the kubelet has its static-pod manifests; undefined: they are not rewritten. */
  readonly manifestsDir?: string | undefined;
  /** Whether the kubelet is known to start a container again within seconds, however short it ran. */
  readonly hasShortBackOff: boolean;
}

export interface ApproverConfig extends Pick<HostConfig, 'clockSynchronised'> {
  readonly mode: 'approver';
  readonly kubeconfig: string;
  /** The client certificate of this machine's kubelet. Absolute path. */
  readonly nodeCertificate: string;
  /** Milliseconds. */
  readonly longestLifeMs: number;
  readonly expectedNodes: readonly string[];
  /** Of the ServiceAccount whose requests are looked at. */
  readonly bootstrapNamespace: string;
}

export type ModeConfig = RegenConfig | SyncerConfig | ApproverConfig;

/** Of a process that runs modes. */
export interface Config extends CommonConfig {
  /** At least one, each mode at most once. */
  readonly modes: readonly ModeConfig[];
  readonly once: boolean;
  /** Undefined: no health endpoints. */
  readonly healthProbeBindAddress?: Address | undefined;
}

/** Of a command that looks at or prepares a cluster: status, init, uninstall. */
export interface ToolConfig extends CommonConfig, RenewalConfig, HostConfig {
  readonly kubeconfig?: string | undefined;
  readonly destinationDir?: string | undefined;
  /** What the modes of this configuration look at and write. */
  readonly locations: RegenConfig['locations'];
  /** Whose files the syncer writes; undefined: everybody's. */
  readonly components?: readonly string[] | undefined;
}
