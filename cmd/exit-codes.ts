// The one table of exit codes, and what leads to which.
import { errorCodes, RecoveryError } from '../lib/errors.ts';
import type { StatusReport } from '../lib/status/report.ts';

export const exitCodes = {
  done: 0,
  failed: 1,
  usage: 2,
  expired: 3,
  expiring: 4,
} as const;

export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

/** Of what ends with an error. */
export function exitOfError(err: unknown): ExitCode {
  return err instanceof RecoveryError ? errorCodes[err.code].exit : exitCodes.failed;
}

/** Of what ends in good order: whether something is left that is not as it should be. */
export function exitOfShortfalls(shortfalls: readonly unknown[]): ExitCode {
  return shortfalls.length === 0 ? exitCodes.done : exitCodes.failed;
}

/** Of `status`: scripts see the worst that there is. */
export function exitOfStatus({ rows, class: state }: Pick<StatusReport, 'rows' | 'class'>): ExitCode {
  if (rows.some((row) => row.state === 'UNKNOWN')) return exitCodes.failed;
  if (state !== 'healthy') return exitCodes.expired;
  return rows.some((row) => row.state === 'EXPIRING') ? exitCodes.expiring : exitCodes.done;
}
