// The one table of exit codes, and their conditions.
import { type ErrorCode, errorText, RecoveryError } from '../lib/errors.ts';
import type { Log } from '../lib/log.ts';
import type { UnmetCondition } from '../lib/regen/unmet.ts';
import { isPartlyUnknown } from '../lib/status/adoption-report.ts';
import { nodeRows, type NodeStatus } from '../lib/status/node-report.ts';
import type { RehearsalVerdict } from '../lib/status/rehearsal.ts';
import type { StatusReport, StatusRow } from '../lib/status/report.ts';
import { waitsForRestart } from '../lib/status/verdict.ts';
import { exitByHand } from '../lib/well-known.ts';
import { classOfTrust, type TrustReport } from '../lib/status/trust-report.ts';

export const exitCodes = {
  done: 0,
  failed: 1,
  usage: 2,
  expired: 3,
  expiring: 4,
  byHand: exitByHand,
} as const;

type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

/** Errors of the command line and the files of its administrator; all others exit with `failed`. */
const exitOfCode: { readonly [Code in ErrorCode]?: ExitCode } = {
  ConfigInvalid: exitCodes.usage,
  InventoryInvalid: exitCodes.usage,
};

/** Exit code of a command that fails. */
export function exitOfError(err: unknown): ExitCode {
  return (err instanceof RecoveryError ? exitOfCode[err.code] : undefined) ?? exitCodes.failed;
}

/** Exit code of a command whose error is logged. */
export function exitOfFailure(err: unknown, log: Pick<Log, 'error'>): ExitCode {
  log.error('process.failed', { err: errorText(err), code: err instanceof RecoveryError ? err.code : undefined });
  return exitOfError(err);
}

/**
 * Exit code of a completed run by its unmet conditions. Where only certificates of a CA whose key is elsewhere remain,
 * everything possible here is done; where only a setting is wrong, everything else is.
 */
export function exitOfUnmet(unmet: readonly UnmetCondition[]): ExitCode {
  if (unmet.length === 0) return exitCodes.done;
  const others = unmet.filter(({ isSetting = false }) => !isSetting);
  if (others.length === 0) return exitCodes.usage;
  return others.every(({ byHand = false }) => byHand) ? exitCodes.byHand : exitCodes.failed;
}

interface Seen extends Pick<StatusReport, 'class'> {
  readonly rows: readonly Partial<Pick<StatusRow, 'state'>>[];
}

/** Exit code of `status`: scripts see the worst state. */
export function exitOfStatus({ rows, class: state }: Seen): ExitCode {
  if (rows.some((row) => row.state === 'UNKNOWN')) return exitCodes.failed;
  if (state !== 'healthy') return exitCodes.expired;
  return rows.some((row) => row.state === 'EXPIRING') ? exitCodes.expiring : exitCodes.done;
}

/** Exit code of `status` of a kubeadm machine. An absent optional certificate is no fault. */
export function exitOfNode(status: NodeStatus): ExitCode {
  const { adopted } = status;
  const rows = nodeRows(status);
  if (adopted !== undefined && isPartlyUnknown(adopted)) return exitCodes.failed;
  if (!rows.some((row) => row.state === 'UNKNOWN') && rows.some(({ byHand }) => byHand)) return exitCodes.byHand;
  if (status.isForecast && status.class === 'healthy' && !rows.some((row) => row.state === 'UNKNOWN'))
    return exitCodes.done;
  // A renewal before the next start of the kubelet is no fault of today.
  if (status.isForecast && status.class === 'recovering' && status.isArmed) return exitCodes.expiring;
  const inMemory = status.served.flatMap(({ ends }) => (ends === undefined ? [] : [{ state: ends }]));
  // Nobody has to act on a restart that comes by itself on a later day: it may be a year away.
  const state = waitsForRestart(status) ? 'healthy' : status.class;
  return exitOfStatus({ rows: [...rows, ...inMemory, ...(adopted?.objects?.rows ?? [])], class: state });
}

/** Exit code of `rehearse`: done, or that of `status` for the time of the rehearsal, which promises no more than it. */
export function exitOfRehearsal(verdict: RehearsalVerdict, forecast: NodeStatus): ExitCode {
  if (verdict === 'back') return exitCodes.done;
  const code = exitOfNode(forecast);
  const isPromise = code === exitCodes.done || code === exitCodes.expiring;
  return isPromise && verdict === 'stays' ? exitCodes.expired : code;
}

const exitsOfTrust = {
  unknown: exitCodes.failed,
  broken: exitCodes.expired,
  ending: exitCodes.expiring,
  sound: exitCodes.done,
} as const;

/** Exit code of `verify`, like that of `status`. */
export const exitOfTrust = (report: TrustReport): ExitCode => exitsOfTrust[classOfTrust(report)];
