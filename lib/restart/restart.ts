// Restarts of a component, so that it reads its files again: one function, and the means in a table. Its callers know
// which means fit, and wait for the new process: a run on the host, for the components that markers name
// (host-restarts.ts; on a worker lib/run/unit-restart.ts), the observer of files in a pod (pod-restarts.ts), and the end
// of an adoption (lib/adopt/unadopt.ts). The same user is enough for a signal, no capability is needed (kill(2)).
import { RecoveryError, errorText, isCode, systemCode } from '../errors.ts';
import { isRunning, type ProcessId } from '../host/proc.ts';
import { runSystemctl } from '../host/systemd.ts';
import type { Log } from '../log.ts';
import { rewriteManifest } from './manifest.ts';

export type Means =
  /** Its unit. `isAwaited`: until the unit is ready. */
  | { readonly by: 'unit'; readonly unit: string; readonly isAwaited: boolean }
  /** SIGTERM: systemd or the kubelet starts it again. `why`: reported. */
  | { readonly by: 'signal'; readonly processes: readonly ProcessId[]; readonly why?: string }
  /** Its manifest, annotated with a hash of its inputs: the kubelet replaces the pod, without a back-off. */
  | { readonly by: 'manifest'; readonly path: string; readonly hash: string };

export interface Restarting {
  readonly component: string;
  /** The administrator's part, as the end of a message. */
  readonly advice: string;
  /** Reports a manifest; other means are reported by the trigger. */
  readonly log?: Log;
  readonly signal: AbortSignal;
}

/** Describes the restart; undefined where this means has no effect. Throws WriteFailed. */
type Start<B> = (means: Extract<Means, { readonly by: B }>, restarting: Restarting) => Promise<string | undefined>;

const means: { readonly [B in Means['by']]: Start<B> } = {
  async unit({ unit, isAwaited }, restarting) {
    const args = [...(isAwaited ? [] : ['--no-block']), 'restart', unit];
    await runSystemctl(args, { timeoutMs: systemctlMs, signal: restarting.signal }).catch((err: unknown) => {
      const { code, signal: by } = err as { readonly code?: unknown; readonly signal?: unknown };
      throw cannotRestart(restarting, `"systemctl restart ${unit}" failed (${String(code ?? by)})`, err);
    });
    return `systemctl restart ${unit}`;
  },
  async signal({ processes, why }, restarting) {
    for (const one of processes) terminate(one, restarting);
    return why ?? `SIGTERM to process ${processes.map(({ pid }) => pid).join(', ')}`;
  },
  async manifest({ path, hash }, { component, log }) {
    const outcome = await rewriteManifest({ path, component, hash }).catch((err: unknown) => {
      const code = isCode(err, 'ReadFailed', 'MaterialInvalid') ? err.code : 'WriteFailed';
      log?.warn('restart.failed', { path, code, err: errorText(err) });
    });
    if (outcome === 'conflict') {
      const message = `Cannot write manifest "${path}": it has just been written by another; looking again`;
      throw new RecoveryError('WriteFailed', message);
    }
    // A manifest that has this hash already (contents came back) replaces no pod.
    if (outcome !== 'written') return undefined;
    const message = 'manifest rewritten; the kubelet replaces the pod, and this process';
    log?.info('restart.done', { path, message });
    return `manifest "${path}" was rewritten`;
  },
};

/** A kubelet stops, and then starts after a run of this program, which takes 50 s at most. */
const systemctlMs = 90_000;

/** Restarts by the first of these means that has an effect, and describes that. Throws WriteFailed. */
export async function restart(ways: readonly Means[], restarting: Restarting): Promise<string> {
  for (const one of ways) {
    const start = means[one.by] as Start<Means['by']>;
    const done = await start(one, restarting);
    if (done !== undefined) return done;
  }
  throw cannotRestart(restarting, 'nothing here starts it again');
}

export function cannotRestart(
  { component, advice }: Pick<Restarting, 'component' | 'advice'>,
  state: string,
  cause?: unknown,
) {
  return new RecoveryError('WriteFailed', `Cannot restart component "${component}": ${state}; ${advice}`, { cause });
}

/** Sends SIGTERM, unless the process has exited by itself: a PID may have been reused. Throws WriteFailed. */
function terminate({ pid, started }: ProcessId, restarting: Restarting): void {
  if (!isRunning({ pid, started })) return;
  try {
    process.kill(pid, 'SIGTERM');
  } catch (cause) {
    const code = systemCode(cause) ?? 'unknown';
    if (code !== 'ESRCH') throw cannotRestart(restarting, `process ${pid} cannot be signalled (${code})`, cause);
  }
}
