// Health as checks with names, which the parts of the process set, and a small HTTP server that shows them in the form
// that administrators know from kube-apiserver. Liveness fails only when the process itself is stuck; readiness fails
// also while the API server is away or work is pending. The server answers without authentication, so messages hold
// states and names only, and metrics are for this machine alone, unless each client shows a certificate.
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { bounds } from './bounds.ts';
import { type Address, addressText, isLoopbackAddress } from './address.ts';
import type { Clock } from './clock.ts';
import { errorText, isCode, RecoveryError, systemCode } from './errors.ts';
import { type Log, withoutPem } from './log.ts';
import { visible } from './visible.ts';
import type { Metrics } from './metrics.ts';
import type { TlsFiles } from './metrics-tls.ts';
import { backoffMs } from './retry.ts';
import { type Answer, answerOne, type SingleRequest } from './single-request.ts';

export interface CheckState {
  readonly ok: boolean;
  /** Reason for a failure, or a remark. */
  readonly message?: string;
}

interface CheckReport extends CheckState {
  readonly name: string;
  readonly kind: CheckKind;
}

/** A liveness check counts for readiness too. */
type CheckKind = 'liveness' | 'readiness';

export class Health {
  readonly #checks = new Map<string, { readonly kind: CheckKind; readonly state: () => CheckState }>();

  /** Sets a check's state, or a function called at each probe. A new check is a readiness check by default. */
  set(name: string, state: CheckState | (() => CheckState), kind?: CheckKind): void {
    const known = this.#checks.get(name)?.kind;
    this.#checks.set(name, {
      kind: kind ?? known ?? 'readiness',
      state: typeof state === 'function' ? state : () => state,
    });
  }

  /** All checks in the order in which they were first set. */
  report(): readonly CheckReport[] {
    return [...this.#checks].map(([name, { kind, state }]) => ({ ...stateOf(state), name, kind }));
  }
}

function stateOf(state: () => CheckState): CheckState {
  try {
    return state();
  } catch (err) {
    return { ok: false, message: errorText(err) };
  }
}

interface HealthServerOptions {
  readonly address: Address;
  readonly health: Health;
  readonly metrics?: Metrics;
  /** For clients with a certificate alone. */
  readonly tls?: TlsFiles | undefined;
  readonly clock: Clock;
  readonly log?: Log;
  /** Closes the server and all its connections. */
  readonly signal: AbortSignal;
}

export interface HealthServer {
  /** The port in use, also for port 0. */
  readonly port: number;
  /** Resolves when the server has closed. */
  readonly closed: Promise<void>;
}

/** Serves /livez, /readyz, /healthz and, with metrics, /metrics. Throws AlreadyRunning, MaterialInvalid, ConfigInvalid. */
export async function serveHealth(options: HealthServerOptions): Promise<HealthServer> {
  const { address, clock, log, signal, tls } = options;
  const open = new Set<Socket>();
  const onClient = (socket: Socket): void => {
    const mayMeasure = tls !== undefined || isLoopbackAddress(socket.remoteAddress);
    answerOne(socket, clock, (asked) => answer(asked, { ...options, mayMeasure }));
  };
  const server =
    tls === undefined
      ? createServer({ allowHalfOpen: true }, onClient)
      : // TLS costs memory.
        await (await import('./metrics-tls.ts')).createMetricsServer(tls, { clock, signal, log, onClient });
  server.prependListener('connection', (socket: Socket) => makeRoom(open, socket));
  await listen(server, address);
  const closed = new Promise<void>((resolve) => server.once('close', resolve));
  const close = (): void => {
    server.close();
    for (const socket of open) socket.destroy();
  };
  if (signal.aborted) close();
  else signal.addEventListener('abort', close, { once: true });
  return { port: (server.address() as AddressInfo | null)?.port ?? address.port, closed };
}

/**
 * The latest client is served: one connection too many closes the oldest of the peer that has most. A limit that
 * refuses new connections would let a client that holds enough of them make a kubelet's probes fail, and a kubelet then
 * terminates the container.
 */
function makeRoom(open: Set<Socket>, latest: Socket): void {
  open.add(latest);
  latest.once('close', () => open.delete(latest));
  if (open.size <= bounds.health.most.connections) return;
  const byPeer = Map.groupBy(open, ({ remoteAddress = '' }) => remoteAddress);
  const [most = []] = [...byPeer.values()].toSorted((a, b) => b.length - a.length);
  most.find((one) => one !== latest)?.destroy();
}

interface KeepServingOptions extends HealthServerOptions {
  readonly log: Log;
}

const retrying = { firstMs: 1000, longestMs: 60_000 };

/**
 * `serveHealth`, where recovery must not wait for it: while another process has the port, the address does not exist yet,
 * or the files for TLS are not whole, that is logged and retried until the signal aborts. Resolves after the first try.
 * Throws ConfigInvalid for an error that waiting does not mend.
 */
export async function keepServingHealth(options: KeepServingOptions): Promise<Pick<HealthServer, 'closed'>> {
  try {
    return await serveHealth(options);
  } catch (err) {
    if (!isCode(err, 'AlreadyRunning', 'MaterialInvalid')) throw err;
    return { closed: serveLater(options, err) };
  }
}

async function serveLater(options: KeepServingOptions, first: RecoveryError): Promise<void> {
  const { clock, log, signal } = options;
  const began = clock.now().getTime();
  let err = first;
  for (let attempt = 1; ; attempt += 1) {
    log.error('health.failed', { err: err.message, code: err.code, attempt });
    await clock.sleep(backoffMs(attempt, retrying), signal);
    if (signal.aborted) return;
    try {
      const { closed } = await serveHealth(options);
      log.info('health.served', { attempt: attempt + 1, duration: clock.now().getTime() - began });
      return await closed;
    } catch (reason) {
      err = reason instanceof RecoveryError ? reason : new RecoveryError('AlreadyRunning', errorText(reason));
    }
  }
}

/** Another process has the port, or the machine does not have the address (yet). */
const passing: Readonly<Record<string, string>> = {
  EADDRINUSE:
    'another process listens there (`ss -ltnp` names it); stop it, or give another healthProbeBindAddress. Until then ' +
    'nobody can ask for health and metrics; all else goes on',
  EADDRNOTAVAIL: 'this machine does not have that address; give another healthProbeBindAddress, or bring it up',
};

function listen(server: Server, address: Address): Promise<void> {
  return new Promise((resolve, reject) => {
    server.on('error', (err) => {
      const state = passing[systemCode(err) ?? ''];
      const code = state === undefined ? 'ConfigInvalid' : 'AlreadyRunning';
      reject(new RecoveryError(code, `Cannot listen on "${addressText(address)}": ${state ?? errorText(err)}`));
    });
    server.listen(address, resolve);
  });
}

interface Answering extends Pick<HealthServerOptions, 'health' | 'metrics'> {
  readonly mayMeasure: boolean;
}

async function answer({ method, target }: SingleRequest, { health, metrics, mayMeasure }: Answering): Promise<Answer> {
  const [path = '', query] = target.split('?', 2);
  const page = path.slice(1);
  const isMetrics = page === 'metrics' && metrics !== undefined;
  if (!isMetrics && !isProbe(page)) return { status: 404, body: '404 page not found\n' };
  if (method !== 'GET' && method !== 'HEAD') {
    return { status: 405, body: 'method not allowed\n', allow: 'GET, HEAD' };
  }
  if (isMetrics && !mayMeasure) return { status: 403, body: 'metrics are served here to this machine alone\n' };
  if (isMetrics) return { status: 200, body: await metrics.render(), type: metrics.contentType };
  return probe(page as Probe, health.report(), new URLSearchParams(query).has('verbose'));
}

const probes = ['livez', 'readyz', 'healthz'] as const;
type Probe = (typeof probes)[number];

const isProbe = (page: string): page is Probe => (probes as readonly string[]).includes(page);

/**
 * /healthz shows every check and is decided by liveness checks: the liveness probes of existing static pods read it,
 * and a process must not be restarted because the API server is down.
 */
function probe(page: Probe, reports: readonly CheckReport[], verbose: boolean): Answer {
  const shown = reports.filter(({ kind }) => page !== 'livez' || kind === 'liveness');
  const ok = reports.every((report) => report.ok || (page !== 'readyz' && report.kind === 'readiness'));
  if (ok && !verbose) return { status: 200, body: 'ok' };
  const lines = ['[+]ping ok', ...shown.map(checkLine), `${page} check ${ok ? 'passed' : 'failed'}`];
  return { status: ok ? 200 : 500, body: `${lines.join('\n')}\n` };
}

function checkLine({ name, ok, message = '' }: CheckReport): string {
  const text = visible(withoutPem(message).replaceAll(/\s+/g, ' ')).trim();
  if (ok) return `[+]${name} ok${text === '' ? '' : `: ${text}`}`;
  return `[-]${name} failed${text === '' ? '' : `: ${text}`}`;
}
