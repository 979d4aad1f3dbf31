// systemd: whether it runs here, its command, and the units of processes, by control groups.
import { execFile } from 'node:child_process';
import { existsSync, fstatSync } from 'node:fs';

/** systemd is PID 1 exactly where this directory exists (sd_booted(3)). */
export const systemdRuns = (): boolean => existsSync('/run/systemd/system');

interface FileId {
  readonly dev: number;
  readonly ino: number;
}

/**
 * Whether the journal reads the standard error of this process: a unit has started it, and no terminal shows it. A
 * value inherited by a shell names another stream (systemd.exec(5), JOURNAL_STREAM).
 */
export function writesToJournal(
  { JOURNAL_STREAM: stream }: Readonly<Record<string, string | undefined>>,
  standardError: () => FileId = () => fstatSync(2),
): boolean {
  if (stream === undefined) return false;
  try {
    const { dev, ino } = standardError();
    return stream === `${dev}:${ino}`;
  } catch {
    return false; // standard error is closed
  }
}

/** Standard output of systemctl. Rejects with the error of execFile, which has its `stderr`. */
export function runSystemctl(
  args: readonly string[],
  { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal: AbortSignal },
): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile('systemctl', args, { timeout: timeoutMs, signal }, (err, stdout, stderr) => {
      if (err === null) resolve(stdout);
      else reject(Object.assign(err, { stderr }));
    });
  });
}

const askMs = 5000;

/** Undefined where systemd does not answer. */
export async function mainPidOf(unit: string, signal: AbortSignal): Promise<number | undefined> {
  const args = ['show', '--property=MainPID', '--value', unit];
  return runSystemctl(args, { timeoutMs: askMs, signal }).then(
    (stdout) => Number(stdout.trim()),
    () => undefined,
  );
}

/** `active/running`, `activating/start-pre`, `activating/auto-restart`; undefined where systemd does not answer. */
export async function stateOf(unit: string, signal: AbortSignal): Promise<string | undefined> {
  const args = ['show', '--property=ActiveState', '--property=SubState', unit];
  return runSystemctl(args, { timeoutMs: askMs, signal }).then(stateIn, () => undefined);
}

/** Output of `systemctl show` by the name of the unit; undefined where systemd does not answer. */
export async function shownOf(
  units: readonly string[],
  names: readonly string[],
  signal: AbortSignal,
): Promise<ReadonlyMap<string, string> | undefined> {
  const args = ['show', ...['Id', ...names].map((name) => `--property=${name}`), ...units];
  return runSystemctl(args, { timeoutMs: askMs, signal }).then(
    (shown) =>
      new Map(
        shown
          .trim()
          .split('\n\n')
          .map((text) => [propertyIn(text, 'Id'), text]),
      ),
    () => undefined,
  );
}

/** Pure. Value in the output of `systemctl show`; empty where it is not there. */
export const propertyIn = (shown: string, name: string): string =>
  new RegExp(`^${name}=(.*)$`, 'm').exec(shown)?.[1] ?? '';

/** Pure. State of a unit in the output of `systemctl show`, in any order. */
export function stateIn(shown: string): string {
  return `${propertyIn(shown, 'ActiveState')}/${propertyIn(shown, 'SubState')}`;
}

/** The unit that a process belongs to, by its control group; undefined when none manages it. */
export function unitOf(cgroup: string): string | undefined {
  return groupsOf(cgroup).flatMap((parts) => parts.findLast((part) => part.endsWith('.service')) ?? [])[0];
}

/** Whether it lives in a login or user session (systemd.special(7): user.slice, logind's session scopes). */
export function isOfSession(cgroup: string): boolean {
  return groupsOf(cgroup).some((parts) =>
    parts.some((part) => part === 'user.slice' || /^session-.*\.scope$/.test(part)),
  );
}

/** The control groups that systemd manages, as parts of their paths. */
function groupsOf(cgroup: string): readonly (readonly string[])[] {
  return cgroup.split('\n').flatMap((line) => {
    const [, controllers = '', path] = /^\d+:([^:]*):(.*)$/.exec(line) ?? [];
    return path === undefined || (controllers !== '' && controllers !== 'name=systemd') ? [] : [path.split('/')];
  });
}
