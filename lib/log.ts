// One line an event, with a constant name from one union, so a typo does not compile. Key material is never logged:
// fields are named in LogFields, none of them holds PEM, and all text that resembles PEM is cut out before it is
// written.
import { pino, stdTimeFunctions } from 'pino';
import type { Clock } from './clock.ts';
import { backoffMs } from './retry.ts';
import { visible } from './visible.ts';

export type LogEvent =
  | 'process.started'
  | 'process.stopped'
  | 'process.failed'
  | 'config.loaded'
  | 'config.partial'
  | 'health.failed'
  | 'health.served'
  | 'address.gone'
  | 'discovery.partial'
  | 'connection.changed'
  | 'connection.kept'
  | 'watch.synced'
  | 'watch.restarted'
  | 'watch.failed'
  | 'sync.written'
  | 'sync.unchanged'
  | 'sync.repaired'
  | 'sync.removed'
  | 'sync.failed'
  | 'sync.refused'
  | 'sync.resolved'
  | 'sync.summary'
  | 'file.created'
  | 'file.changed'
  | 'file.removed'
  | 'observe.failed'
  | 'reaction.failed'
  | 'proof.succeeded'
  | 'proof.missing'
  | 'rotation.decided'
  | 'rotation.blocked'
  | 'rotation.failed'
  | 'rotation.resolved'
  | 'rotation.due'
  | 'regen.summary'
  | 'backup.failed'
  | 'attributes.lost'
  | 'signer.regenerated'
  | 'signer.renewed'
  | 'signer.restored'
  | 'target.restored'
  | 'caBundle.updated'
  | 'authority.updated'
  | 'authority.refused'
  | 'authority.failed'
  | 'clusterInfo.updated'
  | 'clusterInfo.failed'
  | 'target.regenerated'
  | 'pair.fetched'
  | 'pair.delivered'
  | 'pair.failed'
  | 'copy.updated'
  | 'publish.conflicted'
  | 'recovery.started'
  | 'recovery.finished'
  | 'api.waiting'
  | 'api.answered'
  | 'clock.implausible'
  | 'clock.jumped'
  | 'manifest.drifted'
  | 'manifest.repaired'
  | 'manifest.waiting'
  | 'manifest.failed'
  | 'restart.done'
  | 'restart.failed'
  | 'machine.annotated'
  | 'machine.failed'
  | 'bundles.reported'
  | 'bundles.failed'
  | 'step.failed'
  | 'metrics.failed'
  | 'command.done'
  | 'command.failed'
  | 'run.failed'
  | 'renewal.waiting'
  | 'renewal.started'
  | 'renewal.finished'
  | 'renewal.unproven'
  | 'validity.changed'
  | 'rights.granted'
  | 'rights.missing'
  | 'lease.released'
  | 'lease.skipped'
  | 'csr.requested'
  | 'csr.taken'
  | 'csr.refused'
  | 'csr.approved'
  | 'csr.pending'
  | 'csr.failed'
  | 'csr.flooded'
  | 'record.failed'
  | 'record.full'
  | 'event.dropped';

interface Fields {
  readonly mode: string;
  readonly version: string;
  readonly artefact: string;
  readonly kind: string;
  readonly namespace: string;
  readonly secret: string;
  readonly configMap: string;
  readonly lease: string;
  readonly component: string;
  /** Name of a CertificateSigningRequest. */
  readonly csr: string;
  readonly node: string;
  readonly path: string;
  readonly reason: string;
  readonly message: string;
  readonly proof: string;
  readonly resourceVersion: string;
  readonly notBefore: string;
  readonly notAfter: string;
  readonly recheckAt: string;
  /** Milliseconds. */
  readonly duration: number;
  readonly attempt: number;
  readonly count: number;
  readonly server: string;
  readonly serverName: string;
  readonly code: string;
  readonly signal: string;
  readonly err: string;
  readonly config: Readonly<Record<string, unknown>>;
}

/** Undefined fields are left out of the line. */
export type LogFields = { readonly [Name in keyof Fields]?: Fields[Name] | undefined };

export interface Log {
  debug(event: LogEvent, fields?: LogFields): void;
  info(event: LogEvent, fields?: LogFields): void;
  warn(event: LogEvent, fields?: LogFields): void;
  error(event: LogEvent, fields?: LogFields): void;
  /** The same log with these fields on every line. */
  with(fields: LogFields): Log;
}

/** Given to long-running work: the time, where to report, and when to stop. */
export interface Running {
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';
/** `journal`: text, whose time and level the journal keeps itself. */
export type LogFormat = 'json' | 'text' | 'journal';

interface LogOptions {
  readonly level?: LogLevel;
  readonly format?: LogFormat | undefined;
  /** Receives whole lines. */
  readonly write: (line: string) => void;
}

const removed = '[PEM removed]';
const pem = /-----BEGIN [A-Z0-9 ]+-----[\s\S]*?(?:-----END [A-Z0-9 ]+-----|$)/g;

/** `text` with every PEM block replaced: the last guard, for texts from elsewhere. */
export function withoutPem(text: string): string {
  return text.replaceAll(pem, removed);
}

/** In a line, where a quote ends the value: a name that begins like PEM must not hide what comes behind it. */
const pemInValue = /-----BEGIN [A-Z0-9 ]+-----(?:[^"\\]|\\.)*?(?:-----END [A-Z0-9 ]+-----|(?="|\n|$))/g;

/** JSON takes both line separators in a text, and readers of lines split there. */
const separators = /[\u2028\u2029]/g;

const jsonLine = (line: string): string =>
  line.replaceAll(separators, (char) => `\\u${char.charCodeAt(0).toString(16)}`);

/** Characters of a value in a line for people: each may become a dozen. */
const longestText = 8192;

const textLine = (line: string): string => {
  const { time, level, rest } = partsOf(line);
  return `${time} ${level.toUpperCase().padEnd(5)} ${rest}\n`;
};

/**
 * Priorities of sd-daemon(3). The units let no line below notice pass, which are systemd's own; lines of debug
 * are written only where they were asked for.
 */
const priorities: Readonly<Record<string, number>> = { error: 3, warn: 4 };

/** Fields that the journal has itself, or that are of no use there. */
const leftOut: ReadonlySet<string> = new Set(['mode', 'notBefore', 'recheckAt']);

const journalLine = (line: string): string => {
  const { level, rest } = partsOf(line, leftOut);
  return `<${priorities[level] ?? 5}>${rest}\n`;
};

function partsOf(
  line: string,
  without = new Set() as ReadonlySet<string>,
): Readonly<Record<'time' | 'level' | 'rest', string>> {
  const { time, level, event, ...fields } = JSON.parse(line) as Record<string, unknown>;
  const shown = Object.entries(fields).filter(([key]) => !without.has(key));
  const rest = shown.map(([key, value]) => {
    const whole = typeof value === 'string' ? value : JSON.stringify(value);
    const text = whole.length > longestText ? `${whole.slice(0, longestText)}...` : whole;
    return /[\s"=\p{C}]/u.test(text) ? `${key}=${visible(JSON.stringify(text))}` : `${key}=${text}`;
  });
  return { time: String(time), level: String(level), rest: [event, ...rest].join(' ') };
}

const lineIn = { json: jsonLine, text: textLine, journal: journalLine } as const;

export function createLog({ level = 'info', format = 'json', write }: LogOptions): Log {
  const root = pino(
    {
      level,
      base: null,
      messageKey: 'event',
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    { write: (line: string) => write(lineIn[format](line).replaceAll(pemInValue, removed)) },
  );
  const wrap = (at: typeof root): Log => ({
    debug: (event, fields = {}) => at.debug(fields, event),
    info: (event, fields = {}) => at.info(fields, event),
    warn: (event, fields = {}) => at.warn(fields, event),
    error: (event, fields = {}) => at.error(fields, event),
    with: (fields) => wrap(at.child(fields)),
  });
  return wrap(root);
}

interface Lasting {
  readonly text: string;
  readonly count: number;
  readonly logged: number;
  readonly loggedAt: number;
}

/**
 * Logs a lasting problem when it begins or changes, and then again: after `firstMs`, after twice as long, up to
 * `longestMs`; where none is given, never again.
 */
export class Repeats {
  readonly #clock: Pick<Clock, 'now'>;
  readonly #pace: { readonly firstMs: number; readonly longestMs: number };
  readonly #lasting = new Map<string, Lasting>();

  constructor(clock: Pick<Clock, 'now'>, firstMs = Infinity, longestMs = firstMs) {
    this.#clock = clock;
    this.#pace = { firstMs, longestMs };
  }

  /** Number of times in a row that `text` has been met, where that is to be logged now. */
  met(key: string, text = ''): number | undefined {
    const now = this.#clock.now().getTime();
    const known = this.#lasting.get(key);
    const last = known?.text === text ? known : { text, count: 0, logged: 0, loggedAt: now };
    const quietMs = now - last.loggedAt;
    const waitMs = backoffMs(last.logged, this.#pace);
    // negative: the clock was set back
    const isDue = last.logged === 0 || (waitMs < Infinity && (quietMs < 0 || quietMs >= waitMs));
    const count = last.count + 1;
    this.#lasting.set(key, isDue ? { text, count, logged: last.logged + 1, loggedAt: now } : { ...last, count });
    return isDue ? count : undefined;
  }

  /** Ends a problem. Returns whether there was one. */
  ended(key: string): boolean {
    return this.#lasting.delete(key);
  }
}
