// Whether a component in our pod must be restarted to read its inputs again, and by which means. Pure.
//
// A signal is the quickest way, unless the kubelet holds the container back: it starts a container again at once only
// when that ran for more than 600 s since its last restart; else after 10 s, doubled up to 300 s, and the first start
// after a boot counts, too (1.35: pkg/kubelet/kubelet.go, HasExpiredFunc of crashLoopBackOff; kuberuntime_manager.go,
// doBackOff). crashLoopBackOff.maxContainerRestartPeriod of the KubeletConfiguration shortens that wait. A changed
// manifest is another pod (config/common.go: its UID is the hash of the manifest), which knows no back-off.
import { createHash } from 'node:crypto';
import type { ProcessId } from './judge.ts';

/** What runs as static pods whose processes this program can live beside. */
const podComponents: readonly string[] = ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler'];

/** USER_HZ, by which /proc counts on every architecture that Kubernetes has (proc_pid_stat(5), starttime). */
const ticksPerSecond = 100;

const backOffForgottenSeconds = 600;

export interface Situation {
  readonly component: string;
  /** Those of the component beside us. */
  readonly processes: readonly ProcessId[];
  /** Since this machine was switched on; undefined where unknown. */
  readonly uptimeSeconds: number | undefined;
  /** When the newest input came into its place, on the same scale. */
  readonly writtenSeconds: number;
  /** Whether the kubelet is known to start a container again within few seconds. */
  readonly hasShortBackOff: boolean;
  /** Path of the pod's manifest, where it is mounted. */
  readonly manifest: string | undefined;
}

/** `RestartNeeded`: it is none of ours to restart. */
export type CannotReason = 'RestartNeeded' | 'UptimeUnknown' | 'ProcessNotVisible';

export type Verdict =
  /** All of its processes have started since. */
  | { readonly kind: 'none' }
  | { readonly kind: 'signal'; readonly due: readonly ProcessId[]; readonly message: string }
  | { readonly kind: 'rewriteManifest'; readonly due: readonly ProcessId[]; readonly manifest: string }
  | { readonly kind: 'cannot'; readonly reason: CannotReason; readonly message: string };

export function judgeRestart(situation: Situation): Verdict {
  const { component, processes, uptimeSeconds, writtenSeconds, hasShortBackOff, manifest } = situation;
  const cannot = (reason: CannotReason, why: string): Verdict => ({
    kind: 'cannot',
    reason,
    message: `${component} must be restarted to use new files, ${why}`,
  });
  if (!podComponents.includes(component)) return cannot('RestartNeeded', 'which is not done from here; restart it');
  if (processes.length === 0) {
    const wanted = 'its pod needs shareProcessNamespace: true and this program as one of its containers';
    return cannot('ProcessNotVisible', `and no process of it can be seen: ${wanted}`);
  }
  const youngest = Math.max(...processes.map(startedSeconds));
  // A second's difference is rounding; more says that /proc/uptime is not the machine's (lxcfs).
  if (uptimeSeconds === undefined || youngest > uptimeSeconds + 1) {
    return cannot('UptimeUnknown', 'and /proc/uptime does not tell since when its process runs; restart it');
  }
  const due = processes.filter((one) => startedSeconds(one) <= writtenSeconds);
  if (due.length === 0) return { kind: 'none' };
  const ran = Math.floor(uptimeSeconds - Math.max(...due.map(startedSeconds)));
  const pids = due.map(({ pid }) => pid).join(', ');
  const message = `SIGTERM to process ${pids}, which ran ${ran} s`;
  if (ran > backOffForgottenSeconds || hasShortBackOff) return { kind: 'signal', due, message };
  if (manifest !== undefined) return { kind: 'rewriteManifest', due, manifest };
  return { kind: 'signal', due, message: `${message}: ${heldBack}` };
}

/** Later than not at all. */
export const heldBack =
  'the kubelet holds back a container that ran less than 10 minutes, for 10 s up to 5 minutes; configure ' +
  'syncer.manifestsDir, or a short crashLoopBackOff.maxContainerRestartPeriod and syncer.shortBackOff';

const startedSeconds = ({ started }: ProcessId): number => started / ticksPerSecond;

export interface Written {
  /** `found`: there when the observer started. */
  readonly since: 'found' | 'changed';
  /** The file's ctime: by whatever the wall clock said then. */
  readonly changedAt: Date;
  readonly now: Date;
  readonly uptimeSeconds: number;
  /** When the observer started, seconds since boot. */
  readonly observedSinceSeconds: number;
}

/**
 * The time of a change on the scale of the uptime, which no clock that is set moves. A ctime that cannot be right, because
 * the clock was set meanwhile, counts as the whole span in which the change is known to lie: a restart too many
 * is better than none, but never one for every start of the observer.
 */
export function secondsOfChange({ since, changedAt, now, uptimeSeconds, observedSinceSeconds }: Written): number {
  const age = (now.getTime() - changedAt.getTime()) / 1000;
  if (since === 'found') return age < 0 ? -Infinity : uptimeSeconds - age;
  return age < 0 ? uptimeSeconds : Math.max(uptimeSeconds - age, observedSinceSeconds);
}

/** Of the inputs by artefact, as digests. It tells nothing of them, and is the same only for the same inputs. */
export function inputsHash(inputs: ReadonlyMap<string, string>): string {
  const sorted = [...inputs].toSorted(([a], [b]) => (a < b ? -1 : 1));
  return createHash('sha256').update(JSON.stringify(sorted)).digest('hex');
}
