// The static pod of an approver whose manifest has been taken from this machine. The kubelet ends it in seconds, and
// until then it counts as a user of the identity: `uninstall` waits for it instead of refusing.
import { join } from 'node:path';
import { poll } from '../retry.ts';
import type { Clock } from '../clock.ts';
import { getIfPresent } from '../kube/objects.ts';
import type { Pod } from '../kube/received.ts';
import type { Api } from './apply.ts';
import { approverName } from './approver-pod.ts';
import { isThere } from './existing-files.ts';

export interface LeavingApprover {
  readonly nodeName: string;
  /** Directory of the kubelet's static pods. */
  readonly manifestsDir: string;
  readonly clock: Clock;
  readonly print: (line: string) => void;
}

export const approverManifest = (manifestsDir: string): string => join(manifestsDir, `${approverName}.yaml`);

/** The 30 seconds that a pod has for its end, and the kubelet's own time. */
const longestMs = 45_000;
const pollMs = 250;

/** Resolves when the pod is gone, at once where its manifest is there, and in any case after `longestMs`. */
export async function waitForLeaving(
  api: Api,
  { nodeName, manifestsDir, clock, print }: LeavingApprover,
): Promise<void> {
  if (await isThere(approverManifest(manifestsDir), 'manifest')) return;
  const name = `${approverName}-${nodeName}`;
  const look = (): Promise<Pod | undefined> => getIfPresent<Pod>(api, `/api/v1/namespaces/kube-system/pods/${name}`);
  if ((await look()) === undefined) return;
  print(`Waiting for pod "kube-system/${name}" to end: its manifest is gone.`);
  const isGone = async (): Promise<true | undefined> => ((await look()) === undefined ? true : undefined);
  await poll(isGone, { forMs: longestMs, everyMs: pollMs, clock, signal: api.signal });
}
