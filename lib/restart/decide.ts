// Which components must be restarted to read their files again, and by which means. Pure: facts from /proc, markers,
// changes and the time go in.
// Two triggers lead here. After a run on the host, markers name the components whose files have changed; the kubelet,
// kube-controller-manager and kube-scheduler keep the content of their kubeconfig as it was at their start, etcd and
// kube-apiserver the CA of etcd; changes of all other files are noticed by their readers. In a pod the observer of
// files reports changes.
import { createHash } from 'node:crypto';
import { flagsIn } from '../command-flags.ts';
import {
  type ComponentName,
  componentNames,
  controlPlane,
  isStaticPod,
  starterOf,
  type ToldBy,
} from '../components.ts';
import { isSamePlace, placeOf, type MountedPlace } from '../host/mounts.ts';
import { type ProcessFacts, type ProcessId, programOf, ticksPerSecond } from '../host/proc.ts';
import { isOfSession } from '../host/systemd.ts';
import type { Location, Resolved } from '../inventory/model.ts';
import { hasKubelet, isFile } from '../inventory/places.ts';
import type { Lease } from '../kube/leases.ts';
import type { Means } from './restart.ts';

/** A component that reads credentials on disk once, at its start. */
export interface Component {
  readonly name: ComponentName;
  /**
   * Its flag (controlPlane, toldBy) names this file: that distinguishes its processes from processes of other control
   * planes.
   */
  readonly file: string;
  /** Names of the artefacts that it reads at its start. */
  readonly artefacts: readonly string[];
  readonly locations: readonly Location[];
  /**
   * Runs as a unit of its own on a machine without a kubelet, like etcd's. Whether the other machines can do without
   * this one is not known here, so it is restarted only when the content that it has read has expired.
   */
  readonly isService: boolean;
}

/**
 * Components that read files of the inventory at their start only; none where the file that their flag names is not in
 * the inventory.
 */
export function componentsOf({ artefacts }: Resolved): readonly Component[] {
  return componentNames.flatMap((name): Component[] => {
    const { toldBy } = controlPlane[name];
    const read = artefacts.filter(
      ({ location, readers }) =>
        isFile(location) && readers.some(({ component, needs }) => component === name && needs === 'restart'),
    );
    const [file] = read.flatMap(({ location }) => fileTelling(location, toldBy));
    if (file === undefined) return [];
    const isService = toldBy !== 'kubeconfig' && !hasKubelet(artefacts);
    const locations = read.map(({ location }) => location);
    return [{ name, file, artefacts: read.map((one) => one.name), locations, isService }];
  });
}

function fileTelling(location: Location, toldBy: ToldBy): readonly string[] {
  if (toldBy === 'kubeconfig') return location.kind === 'kubeconfig' ? [location.file] : [];
  return location.kind === 'pemPair' ? [location.certFile] : [];
}

/** The kubeconfig of a component that has one. */
export const ownKubeconfig = ({ name, file }: Pick<Component, 'name' | 'file'>): string | undefined =>
  controlPlane[name].toldBy === 'kubeconfig' ? file : undefined;

/** The value of a flag; if it is given several times, the last, which counts. */
export function flagOf(argv: readonly string[], flag: string): string | undefined {
  return flagsIn(argv).findLast(({ name }) => name === flag)?.value;
}

/**
 * Processes of a component of this machine's control plane. A machine may also show processes of other clusters, whose
 * nodes are containers: a kubelet must live in our PID namespace and run as root, and a static pod must have our file
 * mounted. Components run as services or in pods, so processes that an ordinary user has started in a session do not
 * count.
 */
export function readersOf<P extends ProcessFacts>(
  { name, file }: Pick<Component, 'name' | 'file'>,
  processes: readonly P[],
  ours: (path: string) => readonly MountedPlace[],
): readonly P[] {
  const places = ours(file);
  const { toldBy } = controlPlane[name];
  // Flags in the environment of etcd (etcd-io/etcd: client/pkg/flags, SetFlagsFromEnv).
  const variable = `${name}_${toldBy}`.replaceAll('-', '_').toUpperCase();
  return processes.filter(({ argv, environ, mountinfo, cgroup, isInOurPidNamespace, isPrivileged }) => {
    const named = flagOf(argv, toldBy) ?? (name === 'etcd' ? environ.get(variable) : undefined);
    if (programOf(argv) !== name || named === undefined) return false;
    if (!isPrivileged && isOfSession(cgroup)) return false;
    if (starterOf(name).isOfHost && !(isInOurPidNamespace && isPrivileged)) return false;
    const place = placeOf(mountinfo, named);
    return places.some((one) => isSamePlace(place, one));
  });
}

/** State of this boot for each component, kept from before its first file changes until it has been restarted. */
export interface Marker {
  /** `writing`: whether a file has changed is not known, because the run that changed it has died. */
  readonly state: 'writing' | 'written';
  /** Processes of the component when the last file had changed: they have read former content. */
  readonly running: readonly ProcessId[];
  /** Earliest notAfter of the certificates that these have read; undefined where unknown. */
  readonly until?: Date | undefined;
}

export const isSameProcess = (one: ProcessId, other: ProcessId): boolean =>
  one.pid === other.pid && one.started === other.started;

/** Processes that have read former content. */
export function due<P extends ProcessId>(marker: Marker, readers: readonly P[]): readonly P[] {
  if (marker.state === 'writing') return readers;
  return readers.filter((reader) => marker.running.some((one) => isSameProcess(one, reader)));
}

/**
 * Whether the content that a component's processes have read is known to have expired. Then an etcd member does not
 * wait until the other members keep a quorum without it: it refuses every new connection, and so do other members that
 * have read the same CA. So whatever the order, the quorum is lost for as long as one restart takes, and a cluster
 * works again the sooner, the sooner all have restarted.
 */
export const hasReadExpired = ({ until }: Pick<Marker, 'until'>, now: Date): boolean =>
  until !== undefined && now >= until;

/**
 * The kubelet starts a container again immediately only when that ran for more than 600 s since its last restart; else
 * after 10 s, doubled up to 300 s, and the first start after a boot counts, too (1.35: pkg/kubelet/kubelet.go,
 * HasExpiredFunc of crashLoopBackOff; kuberuntime_manager.go, doBackOff). crashLoopBackOff.maxContainerRestartPeriod of
 * the KubeletConfiguration shortens that wait. A changed manifest is another pod (config/common.go: its UID is the hash
 * of the manifest), which has no back-off.
 */
const backOffForgottenSeconds = 600;

export interface PodSituation {
  readonly component: string;
  /** Processes of the component in our PID namespace. */
  readonly processes: readonly ProcessId[];
  /** Uptime of this machine; undefined where unknown. */
  readonly uptimeSeconds: number | undefined;
  /** Uptime at which the newest input was put in place, in seconds. */
  readonly writtenSeconds: number;
  /** Whether the kubelet is known to start a container again within few seconds. */
  readonly hasShortBackOff: boolean;
  /** Path of the pod's manifest, where mounted. */
  readonly manifest: string | undefined;
  /** Hash of its inputs, for the manifest. */
  readonly hash: string;
}

/** `RestartNeeded`: this program does not restart it. */
export type CannotReason = 'RestartNeeded' | 'UptimeUnknown' | 'ProcessNotVisible';

export type RestartVerdict =
  /** All of its processes have started since the change. */
  | { readonly kind: 'none' }
  /** Restarted by the first of the means that has an effect. */
  | { readonly kind: 'restart'; readonly due: readonly ProcessId[]; readonly means: readonly Means[] }
  | { readonly kind: 'cannot'; readonly reason: CannotReason; readonly message: string };

/** Verdict on a component in our pod. A signal is the quickest way, unless the kubelet holds the container back. */
export function judgeRestart(situation: PodSituation): RestartVerdict {
  const { component, processes, uptimeSeconds, writtenSeconds, hasShortBackOff, manifest, hash } = situation;
  const cannot = (reason: CannotReason, why: string): RestartVerdict => ({
    kind: 'cannot',
    reason,
    message: `${component} must be restarted to use new files, ${why}`,
  });
  if (!isStaticPod(component)) return cannot('RestartNeeded', 'which is not done from here; restart it');
  if (processes.length === 0) {
    const wanted = 'its pod needs shareProcessNamespace: true and this program as one of its containers';
    return cannot('ProcessNotVisible', `and no process of it can be seen: ${wanted}`);
  }
  const youngest = Math.max(...processes.map(startedSeconds));
  // A second's difference is rounding; more means that /proc/uptime is not the machine's (lxcfs).
  if (uptimeSeconds === undefined || youngest > uptimeSeconds + 1) {
    return cannot('UptimeUnknown', 'and /proc/uptime does not tell since when its process runs; restart it');
  }
  const older = startedBefore(processes, writtenSeconds);
  if (older.length === 0) return { kind: 'none' };
  const ran = Math.floor(uptimeSeconds - Math.max(...older.map(startedSeconds)));
  const message = `SIGTERM to process ${older.map(({ pid }) => pid).join(', ')}, which ran ${ran} s`;
  const isQuick = ran > backOffForgottenSeconds || hasShortBackOff;
  const signal = { by: 'signal', processes: older, why: isQuick ? message : `${message}: ${heldBack}` } as const;
  const rewrite = isQuick || manifest === undefined ? [] : [{ by: 'manifest', path: manifest, hash } as const];
  return { kind: 'restart', due: older, means: [...rewrite, signal] };
}

/** A late restart is better than none. */
const heldBack =
  'the kubelet holds back a container that ran less than 10 minutes, for 10 s up to 5 minutes; configure ' +
  'syncer.manifestsDir, or a short crashLoopBackOff.maxContainerRestartPeriod and syncer.shortBackOff';

/** Seconds since the boot. */
export const startedSeconds = ({ started }: ProcessId): number => started / ticksPerSecond;

/**
 * Processes that started before a change of a file, in seconds since the boot, and so cannot have read its present
 * content.
 */
export const startedBefore = <P extends ProcessId>(processes: readonly P[], changeSeconds: number): readonly P[] =>
  processes.filter((one) => startedSeconds(one) <= changeSeconds);

export interface WrittenInput {
  /** `found`: present when the observer started. */
  readonly since: 'found' | 'changed';
  /** The file's ctime, by the wall clock of that moment. */
  readonly changedAt: Date;
  readonly now: Date;
  readonly uptimeSeconds: number;
  /** Start of the observer, seconds since the boot. */
  readonly observedSinceSeconds: number;
}

/**
 * The time of a change on the scale of the uptime, which no clock adjustment moves. A ctime that cannot be right,
 * because the clock was set since, counts as the whole span in which the change is known to lie: a restart too many is
 * better than none, but never one for every start of the observer.
 */
export function secondsOfChange({ since, changedAt, now, uptimeSeconds, observedSinceSeconds }: WrittenInput): number {
  const age = (now.getTime() - changedAt.getTime()) / 1000;
  if (since === 'found') return age < 0 ? -Infinity : uptimeSeconds - age;
  return age < 0 ? uptimeSeconds : Math.max(uptimeSeconds - age, observedSinceSeconds);
}

/**
 * Hash of the digests of the inputs by artefact. It discloses nothing of them, and is the same only for the same
 * inputs.
 */
export function inputsHash(inputs: ReadonlyMap<string, string>): string {
  const sorted = [...inputs].toSorted(([a], [b]) => (a < b ? -1 : 1));
  return createHash('sha256').update(JSON.stringify(sorted)).digest('hex');
}

/**
 * Verdict on a kubelet that is known by its unit alone. A kubelet that runs, or waits for its next start, has read
 * former content; a kubelet that is about to start reads the new content, and a kubelet that the administrator has
 * stopped stays stopped. `state`: as systemd reports it, `activating/auto-restart`; undefined where systemd did not
 * answer. `keep` leaves the marker to the next run that restarts.
 */
export function judgeUnit(state: string | undefined, restarts: boolean): 'restart' | 'keep' | 'forget' {
  if (state === undefined) return 'keep';
  if (!/^(?:active|failed|reloading)\/|^activating\/auto-restart/.test(state)) return 'forget';
  return restarts ? 'restart' : 'keep';
}

/**
 * Duration of the restart Lease where it names none, and of ours: longer than its holder waits for its kube-apiserver
 * (PodRestarter, successorMs), without which it cannot renew the Lease.
 */
export const machineLeaseSeconds = 600;

interface HeldLease {
  readonly spec: Lease['spec'];
  /** Identity of this machine. */
  readonly holder: string;
  /** Time for which this version of the Lease has been observed, milliseconds. */
  readonly unchangedMs: number;
}

type MachineLeaseVerdict =
  | { readonly take: true; readonly reason: 'Free' | 'Own' | 'Over' }
  | { readonly take: false; readonly holder: string; readonly leftMs: number };

/**
 * Whether this machine may take the Lease that serialises restarts. A Lease that is not renewed is over once it has
 * been observed unchanged for its duration, by our own clock: its renewTime was set by the clock of another machine,
 * and right after a recovery clocks may differ (as in client-go, tools/leaderelection, observedTime). Waiting costs
 * little, two API servers down at the same time cost the cluster.
 */
export function judgeMachineLease({ spec, holder, unchangedMs }: HeldLease): MachineLeaseVerdict {
  const present = spec?.holderIdentity ?? '';
  if (present === '') return { take: true, reason: 'Free' };
  if (present === holder) return { take: true, reason: 'Own' };
  const leftMs = (spec?.leaseDurationSeconds ?? machineLeaseSeconds) * 1000 - unchangedMs;
  return leftMs <= 0 ? { take: true, reason: 'Over' } : { take: false, holder: present, leftMs };
}
