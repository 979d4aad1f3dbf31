// The file of metrics that the units of a machine wrote before, and write no longer. node_exporter would serve its last
// values for ever, and nobody renews them. A file of others at that path stays.
import { isCode } from '../errors.ts';
import { readIfPresent, removeFile } from './existing-files.ts';
import { serviceName } from './host.ts';
import type { HostMachine } from './host-apply.ts';

const what = 'metrics file';

/** In every file of metrics of ours (lib/metrics.ts). */
const ownMetric = /^kube_cert_recovery_build_info\{/m;

/** Path of the former file where it is there and ours; undefined: nothing to remove. */
export async function formerMetrics(before: string | undefined, now?: string): Promise<string | undefined> {
  if (before === undefined || before === now) return undefined;
  const content = await readIfPresent(before, what).catch((err: unknown) => {
    if (!isCode(err, 'ReadFailed')) throw err; // of this program
    return undefined;
  });
  return content !== undefined && ownMetric.test(content.toString()) ? before : undefined;
}

/**
 * Removes it once the unit is changed and no run writes there any more. `by`: `start` waits for a run that is under way,
 * and for one of the changed unit; `stop` ends it. Throws WriteFailed.
 */
export async function removeMetrics(
  path: string,
  { systemctl, disk }: Pick<HostMachine, 'systemctl' | 'disk'>,
  by: 'start' | 'stop',
): Promise<void> {
  // What becomes of the run is told elsewhere, by its journal and by status.
  await systemctl?.(by, serviceName).catch(() => undefined);
  await removeFile(path, what, disk);
}
