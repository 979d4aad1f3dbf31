// Interface to the API server for the rest of the code: requests and watches over few shared connections. Implemented
// by connection.ts.
import type { V1ConfigMap, V1Secret } from '@kubernetes/client-node';

export type Secret = V1Secret;
export type ConfigMap = V1ConfigMap;

export interface KubeRequest {
  readonly method: 'GET' | 'PUT' | 'PATCH' | 'POST' | 'DELETE';
  /** Path with query, below the server's address: `/api/v1/namespaces/a/secrets/b`. */
  readonly path: string;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Type of a PATCH: `application/apply-patch+yaml`, `application/merge-patch+json`. */
  readonly contentType?: string;
  /** Form of the answer: JSON (default), or `text` unparsed, for /readyz. */
  readonly answer?: 'json' | 'text';
  /**
   * `versions`: of objects only that they are there and their version, in a few hundred bytes; `metadata`: of the objects
   * of a list only their metadata. Default: whole.
   */
  readonly objects?: 'versions' | 'metadata' | undefined;
  /** A longer answer is not read: KubeUnavailable with `tooLarge` in its details. Default: 10 MiB. */
  readonly mostBytes?: number | undefined;
  /** Milliseconds until the request is aborted. Default 10 000, and `longestMs` then 30 000. */
  readonly timeoutMs?: number | undefined;
  /**
   * The request may wait: `timeoutMs` limits the silence of a server that delivers, a minute in all, and grows up to
   * this where the server is slow. Default: it is aborted after `timeoutMs`, even while data arrive.
   */
  readonly longestMs?: number | undefined;
  readonly signal: AbortSignal;
}

export interface KubeConnection {
  /** `https://127.0.0.1:6443`, for messages. */
  readonly server: string;
  /** The kubeconfig and every file that it names, absolute paths: when one changes, call `reload`. */
  readonly files: readonly string[];
  /**
   * Sends one request and returns the parsed body of a 2xx answer.
   * Throws KubeNotFound (404), KubeConflict (409), KubeUnauthorized (401), KubeForbidden (403), WatchExpired (410),
   * KubeRejected (400, 422, and refusals known to refusal.ts: an admission webhook, a quota), KubeUnavailable
   * (everything else: no connection, TLS failure, 429, 5xx, time-out; an answer above 10 MiB, with `tooLarge` in its
   * details), KubeWrongAnswer (a 2xx that does not fit the request; a PUT of an object read without a resourceVersion,
   * which is not sent).
   * While the server is away requests share one trial in 200 ms, and fail with its error (`away` in the details).
   */
  request<T>(request: KubeRequest): Promise<T>;
  /**
   * Events of one watch, one JSON object at a time, until the server closes it (then it returns) or it fails (then it
   * throws as `request` does). Silence of more than `silenceMs` is a failure (KubeUnavailable).
   */
  watch(path: string, options: WatchOptions): AsyncIterable<WatchEvent>;
  /**
   * Turn of a loop that retries after each failure (circuit-breaker.ts). Call the returned function after a success.
   * Never rejects.
   */
  turn(signal: AbortSignal): Promise<() => void>;
  /**
   * Reads kubeconfig, token and CA again. Connections that used other content are closed; watches see KubeUnavailable.
   */
  reload(): Promise<'unchanged' | 'changed'>;
  close(): Promise<void>;
}

export interface WatchOptions extends Pick<KubeRequest, 'objects' | 'signal'> {
  readonly silenceMs: number;
}

export interface WatchEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR';
  readonly object: unknown;
}
