// Whose use of new files has not been shown, kept in the lock directory until it is: a pass that finds nothing to renew
// must not report a success that nobody has seen. Asked for again after a minute, then ever rarer, until an hour lies
// between. It does not outlive a boot (/run), and a note of another boot counts for nothing: everything has been started
// anew since.
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { replaceFile } from '../disk/files.ts';
import { errorText, RecoveryError, systemCode } from '../errors.ts';

export interface Unproven {
  /** kube-apiserver, or a component that was restarted. */
  readonly name: string;
  /** Its processes have read the present files since then. */
  readonly since: Date;
  /** Why it was not proven the last time. */
  readonly message: string;
  readonly askedAt: Date;
  readonly attempts: number;
}

const firstMs = 60_000;
const longestMs = 3_600_000;

/** Pure. Without an answer in the future: then the clock was set back. */
export function isDue({ askedAt, attempts }: Pick<Unproven, 'askedAt' | 'attempts'>, now: Date): boolean {
  const sinceMs = now.getTime() - askedAt.getTime();
  // The timer that asks fires once a minute, not to the millisecond.
  const pauseMs = Math.min(firstMs * 2 ** Math.min(attempts - 1, 10), longestMs) - firstMs / 2;
  return sinceMs < 0 || sinceMs >= pauseMs;
}

const fileIn = (directory: string): string => join(directory, 'unproven');

/** None where nothing is to be read, and where it cannot be read: then the next renewal asks again. */
export async function loadUnproven(directory: string, boot: string): Promise<readonly Unproven[]> {
  const text = await readFile(fileIn(directory), 'utf8').catch(() => '');
  try {
    const { boot: noted, unproven } = JSON.parse(text) as { readonly boot?: unknown; readonly unproven?: unknown };
    return noted === boot && Array.isArray(unproven) ? unproven.flatMap(entryOf) : [];
  } catch {
    return [];
  }
}

/** Never rejects: what cannot be noted is told, and this run says it anyway. */
export async function saveUnproven(
  directory: string,
  { boot, unproven, onFailed }: { boot: string; unproven: readonly Unproven[]; onFailed: (err: RecoveryError) => void },
): Promise<void> {
  const path = fileIn(directory);
  try {
    if (unproven.length === 0) return await rm(path, { force: true });
    await replaceFile({ path, content: JSON.stringify({ boot, unproven }), mode: 0o600, what: 'note' });
  } catch (err) {
    const message = `Cannot write note "${path}": ${systemCode(err) ?? errorText(err)}`;
    onFailed(err instanceof RecoveryError ? err : new RecoveryError('WriteFailed', message, { cause: err }));
  }
}

function entryOf(value: unknown): readonly Unproven[] {
  const { name, since, message, askedAt, attempts } = (value ?? {}) as Readonly<Record<string, unknown>>;
  const [from, asked] = [dateOf(since), dateOf(askedAt)];
  if (typeof name !== 'string' || typeof message !== 'string' || from === undefined || asked === undefined) return [];
  return [{ name, since: from, message, askedAt: asked, attempts: typeof attempts === 'number' ? attempts : 1 }];
}

function dateOf(value: unknown): Date | undefined {
  const date = typeof value === 'string' ? new Date(value) : undefined;
  return date === undefined || Number.isNaN(date.getTime()) ? undefined : date;
}
