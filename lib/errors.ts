// The one error class. A code names the kind of failure; cmd/exit-codes.ts has the exit code of a process that ends with
// it. Messages name the object and its state; they never hold key material, and foreign errors are translated at the
// package's home, body and headers dropped.

export const errorCodes = [
  'ConfigInvalid',
  'InventoryInvalid',
  'PreconditionFailed',
  'KubeNotFound',
  'KubeConflict',
  'KubeForbidden',
  'KubeUnauthorized',
  'KubeRejected',
  'KubeUnavailable',
  'KubeWrongAnswer',
  'WatchExpired',
  'MaterialInvalid',
  'ReadFailed',
  'WriteFailed',
  'ProofFailed',
  'SignFailed',
  'AlreadyRunning',
] as const;

export type ErrorCode = (typeof errorCodes)[number];

export interface ErrorDetails {
  readonly cause?: unknown;
  /** Facts for the log line: names, paths, status codes. Never key material. */
  readonly details?: Readonly<Record<string, string | number | boolean>>;
}

export class RecoveryError extends Error {
  override readonly name = 'RecoveryError';
  readonly code: ErrorCode;
  readonly details: Readonly<Record<string, string | number | boolean>>;

  constructor(code: ErrorCode, message: string, { cause, details = {} }: ErrorDetails = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
    this.details = details;
  }
}

/** Whether `err` is ours and carries one of `codes`. */
export function isCode(err: unknown, ...codes: readonly ErrorCode[]): err is RecoveryError {
  return err instanceof RecoveryError && codes.includes(err.code);
}

/** One line for a log or a message: the text of the error, without its stack. */
export function errorText(err: unknown): string {
  return err instanceof Error ? err.message : String(err);
}

/** Fields of a log line about an error. */
export const errorFields = (err: unknown): { readonly err: string; readonly code: ErrorCode | undefined } => ({
  err: errorText(err),
  code: err instanceof RecoveryError ? err.code : undefined,
});

/** The system's code of a failed call (`ENOENT`, `ENOSPC`, `ECONNREFUSED`), searched along the cause chain. */
export function systemCode(err: unknown): string | undefined {
  let at: unknown = err;
  for (let depth = 0; depth < 8 && at instanceof Error; depth += 1) {
    const code: unknown = (at as NodeJS.ErrnoException).code;
    if (typeof code === 'string' && !(at instanceof RecoveryError)) return code;
    at = at.cause;
  }
  return undefined;
}

/**
 * A fault of this program: an error thrown where none may be, with its place in the code, so that it can be found. One
 * line.
 */
export function faultText(err: unknown): string {
  if (!(err instanceof Error)) return errorText(err);
  const frames = (err.stack ?? '').split('\n').flatMap((line) => /^\s+at (.+)$/.exec(line)?.[1] ?? []);
  return [`${err.name}: ${err.message}`, ...frames.slice(0, 5).map((frame) => `at ${frame}`)].join(' ');
}
