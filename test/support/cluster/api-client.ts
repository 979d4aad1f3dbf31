// Plain requests to an API server for tests: node:https, one connection each, always verified against the CA given.
// It shares no code with what is tested.
import { readFileSync } from 'node:fs';
import { type Agent, request } from 'node:https';

export interface ApiRequest {
  readonly method?: string;
  readonly body?: unknown;
  /** Default: application/json; for PATCH application/merge-patch+json. */
  readonly contentType?: string;
  readonly timeoutMs?: number;
  /** Besides those that every request has. */
  readonly headers?: Readonly<Record<string, string>>;
}

export interface ApiResponse {
  readonly status: number;
  /** Parsed JSON, or the text when it is not JSON. */
  readonly body: unknown;
}

export interface ApiTarget {
  readonly port: number;
  readonly caFile: string;
  readonly serverName: string;
  readonly token?: string;
  /** Files of a client certificate and its key. */
  readonly client?: { readonly cert: string; readonly key: string };
  /** Keeps connections for many requests. Default: none is kept. */
  readonly agent?: Agent;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** One request. Rejects only when there is no HTTP answer. */
export function apiRequest(target: ApiTarget, path: string, options: ApiRequest = {}): Promise<ApiResponse> {
  const { method = 'GET', body, timeoutMs = 60_000 } = options;
  const contentType = options.contentType ?? (method === 'PATCH' ? 'application/merge-patch+json' : 'application/json');
  return new Promise((resolve, reject) => {
    const sent = request(
      {
        host: '127.0.0.1',
        port: target.port,
        path,
        method,
        agent: target.agent ?? false,
        ca: readFileSync(target.caFile),
        ...(target.client && { cert: readFileSync(target.client.cert), key: readFileSync(target.client.key) }),
        servername: target.serverName,
        signal: AbortSignal.timeout(timeoutMs),
        headers: {
          accept: 'application/json',
          ...options.headers,
          ...(target.token !== undefined && { authorization: `Bearer ${target.token}` }),
          ...(body !== undefined && { 'content-type': contentType }),
        },
      },
      (response) => {
        let text = '';
        response.setEncoding('utf8');
        response.on('data', (chunk: string) => (text += chunk));
        response.on('end', () => resolve({ status: response.statusCode ?? 0, body: parsed(text) }));
        response.on('error', reject);
      },
    );
    sent.on('error', reject);
    sent.end(body === undefined ? undefined : JSON.stringify(body));
  });
}
