// The one place where answers of the API server and failures of the network become RecoveryErrors. A message names the
// verb, the object and the state; bodies and headers are dropped, because a body may hold the content of a request.
import { bounds } from '../bounds.ts';
import { isIP } from 'node:net';
import { RecoveryError, systemCode } from '../errors.ts';
import type { ErrorCode, ErrorDetails } from '../errors.ts';
import { causeOfRefusal } from './refusal.ts';

/** A request and the API server it goes to, for messages. */
export interface Attempt {
  readonly verb: string;
  /** `Secret "ns/name"`. */
  readonly object: string;
  /** `https://127.0.0.1:6443 (localhost-recovery)`. */
  readonly server: string;
}

/**
 * Codes of an API server that is down, or does not accept this client: while it starts it refuses some requests and
 * answers others.
 */
export const unanswered = ['KubeUnavailable', 'KubeWrongAnswer', 'KubeUnauthorized', 'KubeForbidden'] as const;

interface Status {
  readonly reason?: unknown;
  readonly message?: unknown;
  readonly details?: { readonly causes?: unknown } | null;
}

function parseStatus(body: string): Status {
  try {
    // A Status has a kilobyte or two; a longer body adds nothing to its code.
    if (body.length > bounds.refusal.most.characters) return {};
    const value: unknown = JSON.parse(body);
    return typeof value === 'object' && value !== null ? value : {};
  } catch {
    return {}; // a proxy's page, or a truncated body: only the code is known
  }
}

const codes: Readonly<Record<number, ErrorCode>> = {
  400: 'KubeRejected',
  401: 'KubeUnauthorized',
  403: 'KubeForbidden',
  404: 'KubeNotFound',
  409: 'KubeConflict',
  410: 'WatchExpired',
  422: 'KubeRejected',
};

/** Limit for a line of the log. */
const longestDetail = 1000;

/** The parts of a Status that are safe to show: names of fields, etcd's state. Never its free text. */
function safeDetail(code: ErrorCode, status: Status): string {
  const message = typeof status.message === 'string' ? status.message : '';
  const etcd = /etcdserver: [a-z ]+/.exec(message)?.[0];
  if (etcd !== undefined) return `, ${etcd.trim()}`;
  const given: unknown = status.details?.causes;
  const causes = (Array.isArray(given) ? (given as readonly unknown[]) : []).map((cause) => {
    const { field, reason } = (cause ?? {}) as { readonly field?: unknown; readonly reason?: unknown };
    return [field, reason].filter((part) => typeof part === 'string').join(': ');
  });
  const fields = [...new Set(causes)].filter((text) => text !== '');
  return code === 'KubeRejected' && fields.length > 0 ? `, ${fields.join('; ').slice(0, longestDetail)}` : '';
}

const reasonText = (status: Status): string =>
  typeof status.reason === 'string' && /^[A-Za-z]+$/.test(status.reason) ? ` ${status.reason}` : '';

/** Error of an answer that is no success. `retryAfter` is the header of that name. */
export function statusError(attempt: Attempt, httpStatus: number, body: string, retryAfter?: string): RecoveryError {
  const status = parseStatus(body);
  const seconds = Number.parseInt(retryAfter ?? '', 10);
  const details = {
    status: httpStatus,
    verb: attempt.verb,
    server: attempt.server,
    ...([429, 503].includes(httpStatus) && Number.isFinite(seconds) && { retryAfterMs: seconds * 1000 }),
  };
  const asked = `Cannot ${attempt.verb} ${attempt.object}`;
  const cause = causeOfRefusal(typeof status.message === 'string' ? status.message : '');
  if (cause?.code === 'KubeRejected') return new RecoveryError(cause.code, `${asked}: ${cause.text}`, { details });
  const code = cause?.code ?? codes[httpStatus] ?? 'KubeUnavailable';
  const detail = cause === undefined ? safeDetail(code, status) : `, ${cause.text}`;
  const answer = `the API server answered ${httpStatus}${reasonText(status)}${detail}`;
  return new RecoveryError(code, `${asked}: ${answer}`, { details });
}

const otherName = 'ERR_TLS_CERT_ALTNAME_INVALID';
const notTrusted = "the server's certificate is not signed by a CA of the kubeconfig";
const tlsFailures: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: "the server's certificate, or a CA above it, has expired",
  CERT_NOT_YET_VALID: "the server's certificate, or a CA above it, is not valid yet (is this machine's clock right?)",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: notTrusted,
  UNABLE_TO_GET_ISSUER_CERT: notTrusted,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: notTrusted,
  SELF_SIGNED_CERT_IN_CHAIN: notTrusted,
  DEPTH_ZERO_SELF_SIGNED_CERT: notTrusted,
  CERT_SIGNATURE_FAILURE: notTrusted,
  CERT_UNTRUSTED: notTrusted,
  INVALID_CA: notTrusted,
  INVALID_PURPOSE: "the server's certificate is not for serving",
};

/** undici's code for an answer above the limit: of public-object.ts, and of `tooLarge`. */
const tooLargeCode = 'UND_ERR_RES_EXCEEDED_MAX_SIZE';

/** Error of an answer above the limit of its request. */
export const tooLarge = (): Error => Object.assign(new Error('too large'), { code: tooLargeCode });

/** Whether an answer was larger than allowed, and was not read. */
export const isTooLarge = (err: unknown): err is RecoveryError =>
  err instanceof RecoveryError && err.details['tooLarge'] === true;

const networkFailures: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset',
  EHOSTUNREACH: 'no route to the host',
  ENETUNREACH: 'no route to the network',
  EACCES: 'no route to the host (prohibited)',
  EPIPE: 'connection closed',
  ETIMEDOUT: 'connection timed out',
  ENOTFOUND: 'the host name is unknown',
  EAI_AGAIN: 'the host name could not be looked up',
  UND_ERR_CONNECT_TIMEOUT: 'no connection in time',
  UND_ERR_SOCKET: 'connection closed',
  UND_ERR_INFO: 'connection ended by the server',
  UND_ERR_DESTROYED: 'connection ended',
  UND_ERR_CLOSED: 'connection ended',
  [tooLargeCode]: 'the answer is too large, and was not read',
};

function hostOf(server: string): string {
  const name = / \((.+)\)$/.exec(server)?.[1] ?? new URL(server).hostname;
  return isIP(name) === 0 ? `the name "${name}"` : `the address ${name}`;
}

/** The error and its causes, outermost first: the deepest is the system's own. */
export function causesOf(err: unknown): Error[] {
  const found: Error[] = [];
  for (let at = err; found.length < 8 && at instanceof Error;) {
    found.push(at);
    at = at.cause ?? (at instanceof AggregateError ? at.errors[0] : undefined);
  }
  return found;
}

function networkState(met: readonly string[], server: string): string {
  if (met.includes(otherName)) return `the server's certificate is not for ${hostOf(server)}`;
  for (const code of met.toReversed()) {
    const text = tlsFailures[code] ?? networkFailures[code];
    if (text !== undefined) return `${text} (${code})`;
    if (/^ERR_(SSL|TLS|OSSL)/.test(code)) return `the TLS handshake failed (${code})`;
    if (/^(ERR_HTTP2|HPE_|UND_ERR|E[A-Z]+$)/.test(code)) return `connection failed (${code})`;
  }
  return 'connection failed';
}

/**
 * Error of a request that got no answer; an error built from an answer is returned unchanged. `away` in its details:
 * the server is away, the failure is not this request's alone.
 */
export function networkError(attempt: Attempt, err: unknown): RecoveryError {
  if (err instanceof RecoveryError && err.details['verb'] !== undefined) return err;
  const causes = causesOf(err);
  // The reason for which the connection was closed on this side.
  const own = causes.find((cause) => cause instanceof RecoveryError);
  const met = causes.map((cause) => (cause as NodeJS.ErrnoException).code).filter((code) => typeof code === 'string');
  const isLarge = met.includes(tooLargeCode);
  // A server answers, but not the server that the kubeconfig means.
  const isUntrusted = met.some((code) => code === otherName || code in tlsFailures);
  const state = `${own?.message ?? networkState(met, attempt.server)}, server ${attempt.server}`;
  return unavailable(attempt, state, err, {
    ...(own === undefined && !isLarge && { away: true }),
    ...(isUntrusted && { untrusted: true }),
    ...(isLarge && { tooLarge: true }),
  });
}

/**
 * KubeUnavailable with a state determined here. The foreign error contributes its code, never its text. `away` in the
 * details: the server does not answer at all.
 */
export function unavailable(
  { verb, object, server }: Attempt,
  state: string,
  err?: unknown,
  more: ErrorDetails['details'] = {},
): RecoveryError {
  const system = systemCode(err);
  const details = { verb, server, ...(system && { system }), ...more };
  return new RecoveryError('KubeUnavailable', `Cannot ${verb} ${object}: ${state}`, { details });
}

/** Whether this failure means that the server should not be queried for a while. */
export function isAway(err: unknown): err is RecoveryError {
  return err instanceof RecoveryError && (err.details['away'] === true || err.details['retryAfterMs'] !== undefined);
}

/** Whether a failed request shows that the server is there: by a status, or by data that came too late, or too many. */
export const hasAnswered = (err: unknown): boolean =>
  err instanceof RecoveryError && ['status', 'tooLarge', 'slow'].some((detail) => err.details[detail] !== undefined);

/** Error of a 2xx answer that does not fit the request. `problem` begins with "it". */
export function wrongAnswer({ verb, object, server }: Attempt, problem: string): RecoveryError {
  const message =
    `Cannot ${verb} ${object}: what answered is no API server, or not the one that was asked: ${problem}, ` +
    `server ${server}; look who listens there`;
  return new RecoveryError('KubeWrongAnswer', message, { details: { verb, server, away: true } });
}
