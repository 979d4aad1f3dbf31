// The administrator's command after renewals (`regen.onRenewed`): to copy admin.conf, to send a message. Tried again by
// the next run until it has succeeded, also after a boot.
import { errorText } from '../errors.ts';
import { RunState } from '../host/state.ts';
import { outputOf } from '../host/command.ts';
import { nodeNameHere } from './host-identity.ts';
import type { RegenRun } from './regen-run.ts';
import { reportRenewals } from './unreported-renewals.ts';

const commandMs = 60_000;
const path = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** Never rejects. A run for which a kubelet waits only notes what it has renewed. */
export async function runOnRenewed(run: RegenRun, isLast: boolean, signal: AbortSignal): Promise<void> {
  const { mode, runtime, report, disk } = run;
  const { clock, log } = runtime;
  const { onRenewed: command = '', lockDir } = mode;
  const start = async (names: readonly string[]): Promise<boolean> => {
    try {
      const node = await nodeNameHere(disk, runtime);
      const env = { PATH: path, KUBE_CERT_RECOVERY_RENEWED: names.join(' '), KUBE_CERT_RECOVERY_NODE: node };
      const limited = AbortSignal.any([signal, AbortSignal.timeout(commandMs)]);
      await outputOf([command], { clock, signal: limited, env, dropsOutput: true }, `"${command}"`);
      log.info('command.done', { path: command, count: names.length });
      return true;
    } catch (err) {
      const text = errorText(err);
      const isNews = await new RunState(lockDir).isNews('command-failure', text, clock.now());
      if (isNews) log.warn('command.failed', { path: command, err: text });
      return false;
    }
  };
  // Beside the backups: a boot takes /run away.
  const note = { state: new RunState(mode.backupDir, 'disk'), name: 'renewed-command' };
  await reportRenewals(report, note, isLast ? start : undefined);
}
