// Files of this machine that a running component has loaded in a former version: the start of its process is compared
// with the time of the change, no matter which program made it. Pure: a note of earlier runs, states of files and
// processes go in.
// A time alone is a weak witness (touch, chmod, a restored copy that keeps its dates, a clock that is set), so each run
// notes which content a file has, by digest and uptime, and which content each process has loaded. The note decides;
// the file's times decide only for a process that no earlier run has seen with its file.
import type { ComponentName } from '../components.ts';
import type { ProcessId } from '../host/proc.ts';
import type { ProofResult } from '../proof/result.ts';
import { isSameProcess, startedBefore, startedSeconds } from './decide.ts';

/** Digest that discloses nothing of a key: SHA-256 over all that a component loads of the file. */
export interface LoadedContent {
  readonly digest: string;
  /** notAfter of the certificate in it, milliseconds since the epoch; undefined where it has none. */
  readonly until?: number | undefined;
}

/** Present state of a file that a component reads at its start only. */
export interface FileState extends LoadedContent {
  readonly artefact: string;
  readonly file: string;
  /** Uptime when its content was written, or this inode was created (mtime, birth time): seconds since the boot. */
  readonly writtenSeconds: number;
  /**
   * Uptime of the last change of its inode, also of its mode (ctime). A file that was copied here with its dates shows
   * only in this.
   */
  readonly touchedSeconds: number;
  readonly writtenAt: Date;
}

interface Seen extends LoadedContent {
  /** Seconds since the boot at which it was observed first. */
  readonly since: number;
}

interface LoadedBy extends ProcessId {
  /** Content by path. */
  readonly files: Readonly<Record<string, LoadedContent>>;
}

/** Note of one component, since the boot of this machine. */
export interface LoadedNote {
  /** Content of each file, by path. */
  readonly seen: Readonly<Record<string, Seen>>;
  readonly processes: readonly LoadedBy[];
}

export const nothingLoaded: LoadedNote = { seen: {}, processes: [] };

interface Observation {
  readonly processes: readonly ProcessId[];
  readonly files: readonly FileState[];
  /** Uptime after both were read, the processes first. */
  readonly seconds: number;
}

/** The note with the additions of this observation. The same where nothing has changed. */
export function learn(note: LoadedNote, { processes, files, seconds }: Observation): LoadedNote {
  const seen = files.map(({ file, digest, until }): readonly [string, Seen] => {
    const before = note.seen[file];
    return [file, before?.digest === digest ? before : { digest, until, since: seconds }];
  });
  const loadedBy = (process: ProcessId): LoadedBy => {
    const known = note.processes.find((one) => isSameProcess(one, process))?.files ?? {};
    const each = files.flatMap((state) => {
      const content = known[state.file] ?? contentAtStart(process, state, note.seen[state.file]);
      return content === undefined ? [] : [[state.file, { digest: content.digest, until: content.until }] as const];
    });
    return { pid: process.pid, started: process.started, files: Object.fromEntries(each) };
  };
  return { seen: Object.fromEntries(seen), processes: processes.map(loadedBy) };
}

/** Content that a process loaded at its start; undefined: unknown. */
function contentAtStart(process: ProcessId, now: FileState, seen: Seen | undefined): LoadedContent | undefined {
  const startedAfter = (change: number): boolean => startedBefore([process], change).length === 0;
  const before = seen !== undefined && seen.since <= startedSeconds(process) ? seen : undefined;
  if (before?.digest === now.digest) return now;
  if (startedAfter(now.touchedSeconds)) return now;
  // The content has changed since it was observed: the change of the inode was one, and where its dates were kept it
  // may have come first.
  if (before !== undefined) return startedAfter(now.writtenSeconds) ? undefined : before;
  // A changed mode is no change of the content.
  return startedAfter(now.writtenSeconds) ? now : undefined;
}

/** A process that has not loaded the present content of a file; `unknown`: it may have. */
export interface FormerFile {
  readonly component: ComponentName;
  /** Runs as a unit of its own, not as a static pod. */
  readonly isService: boolean;
  readonly process: ProcessId;
  readonly artefact: string;
  readonly file: string;
  readonly state: 'former' | 'unknown';
  /** Time at which the file was written. */
  readonly changedAt: Date;
  /** notAfter of the certificate that it has loaded; undefined where unknown. */
  readonly until?: Date | undefined;
  /** Time from which the run that restarts restarts it; undefined where no time decides. */
  readonly restartsAt?: Date | undefined;
}

interface Reader {
  readonly name: ComponentName;
  readonly isService: boolean;
}

/** Files of one component that its processes have loaded in a former version. `note`: with this observation. */
export function formerFiles(
  { name, isService }: Reader,
  note: LoadedNote,
  { processes, files }: Omit<Observation, 'seconds'>,
): readonly FormerFile[] {
  return processes.flatMap((process) =>
    files.flatMap((state): readonly FormerFile[] => {
      const loaded = note.processes.find((one) => isSameProcess(one, process))?.files[state.file];
      if (loaded?.digest === state.digest) return [];
      const { artefact, file, writtenAt: changedAt } = state;
      const found = { component: name, isService, process, artefact, file, changedAt };
      // Nothing in a file without a certificate expires; a kubelet that joins writes its own file after its start.
      if (loaded === undefined) return state.until === undefined ? [] : [{ ...found, state: 'unknown' }];
      const until = loaded.until === undefined ? undefined : new Date(loaded.until);
      const restartsAt = restartOf({ until: loaded.until, next: state.until, isService });
      return [{ ...found, state: 'former', until, restartsAt }];
    }),
  );
}

/**
 * Long enough for a person to see that it has failed, and short enough that the administrator's own restart comes
 * first.
 */
const restartAheadMs = 86_400_000;

/**
 * Time from which a restart is worth its interruption: the certificate loaded expires, and the one on disk expires
 * later. Other machines may depend on a service, so its restart waits until the certificate that it has loaded is
 * useless.
 */
function restartOf({
  until,
  next,
  isService,
}: {
  readonly until: number | undefined;
  readonly next: number | undefined;
  readonly isService: boolean;
}): Date | undefined {
  if (until === undefined || next === undefined || next <= until) return undefined;
  return new Date(until - (isService ? 0 : restartAheadMs));
}

/**
 * Whether it is restarted now. A process whose certificate is still valid is left to the administrator while it works.
 * Where the certificate loaded is valid or unknown, a Lease shows whether it works: a holder that renews does. A
 * standby shows nothing, and its restart interrupts nothing, so it is restarted where its certificate is unknown; where
 * that is valid, only if no instance leads.
 */
export function isToRestart(
  { state, restartsAt }: FormerFile,
  use: ProofResult['state'] | undefined,
  now: Date,
): boolean {
  if (restartsAt !== undefined && now >= restartsAt) return true;
  if (use === undefined || use === 'proven') return false;
  return use === 'unproven' || state === 'unknown';
}
