// Files of this machine that a running component has loaded in a former version: the start of its process is held against
// the change, no matter who made it. Pure: a note of earlier runs, states of files and processes go in.
//
// A time alone is a weak witness (touch, chmod, a restored copy that keeps its dates, a clock that is set), so each run
// notes which content a file has, by digest and uptime, and which content each process has loaded. What was noted decides;
// the file's times decide only for a process that no earlier run has seen with its file.
import type { ComponentName } from '../components.ts';
import type { ProcessId } from '../host/proc.ts';
import type { ProofResult } from '../proof/result.ts';
import { isSameProcess, startedBefore, startedSeconds } from './decide.ts';

/** Discloses nothing of a key: SHA-256 over all that a component loads of the file. */
export interface LoadedContent {
  readonly digest: string;
  /** When the certificate in it ends, milliseconds since the epoch; undefined where it has none. */
  readonly until?: number | undefined;
}

/** A file that a component reads at its start only, as it is now. */
export interface FileState extends LoadedContent {
  readonly artefact: string;
  readonly file: string;
  /** Its content was written, or this inode made (mtime, birth time): seconds since the boot. */
  readonly writtenSeconds: number;
  /** Any change of its inode, also of its mode (ctime). What was copied here with its dates shows only in this. */
  readonly touchedSeconds: number;
  readonly writtenAt: Date;
}

interface Seen extends LoadedContent {
  /** Seconds since the boot at which it was seen first. */
  readonly since: number;
}

interface LoadedBy extends ProcessId {
  /** Content by path. */
  readonly files: Readonly<Record<string, LoadedContent>>;
}

/** For one component, since the boot of this machine. */
export interface LoadedNote {
  /** The content of each file, by path. */
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

/** The note with what this observation adds. The same where nothing has changed. */
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

/** Undefined: not known. */
function contentAtStart(process: ProcessId, now: FileState, seen: Seen | undefined): LoadedContent | undefined {
  const startedAfter = (change: number): boolean => startedBefore([process], change).length === 0;
  const before = seen !== undefined && seen.since <= startedSeconds(process) ? seen : undefined;
  if (before?.digest === now.digest) return now;
  if (startedAfter(now.touchedSeconds)) return now;
  // Another content since it was seen: the change of the inode was one, and where its dates were kept it may have come first.
  if (before !== undefined) return startedAfter(now.writtenSeconds) ? undefined : before;
  // A mode that was changed is no change of the content.
  return startedAfter(now.writtenSeconds) ? now : undefined;
}

/** A process that has not loaded what a file holds now; `unknown`: it may have. */
export interface FormerFile {
  readonly component: ComponentName;
  /** A unit of its own, where the others are static pods. */
  readonly isService: boolean;
  readonly process: ProcessId;
  readonly artefact: string;
  readonly file: string;
  readonly state: 'former' | 'unknown';
  /** When the file was written. */
  readonly changedAt: Date;
  /** When the certificate ends that it has loaded; undefined where that is not known. */
  readonly until?: Date | undefined;
  /** From when on it is restarted by the run that restarts; undefined where a time does not decide. */
  readonly restartsAt?: Date | undefined;
}

interface Reader {
  readonly name: ComponentName;
  readonly isService: boolean;
}

/** The files of one component that its processes have loaded as they are no more. `note`: with this observation. */
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
      // Without a certificate in it nothing of it ends; a kubelet that joins writes its own after its start.
      if (loaded === undefined) return state.until === undefined ? [] : [{ ...found, state: 'unknown' }];
      const until = loaded.until === undefined ? undefined : new Date(loaded.until);
      const restartsAt = restartOf({ until: loaded.until, next: state.until, isService });
      return [{ ...found, state: 'former', until, restartsAt }];
    }),
  );
}

/** Long enough for a person to see that it has failed, and short enough that the administrator's own restart comes first. */
const restartAheadMs = 86_400_000;

/**
 * When a restart is worth its interruption: what was loaded ends, and what is there now ends later. Machines beside a service
 * may not do without it, so that waits until what it has loaded is of no use to anybody.
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
 * Whether it is restarted now. What is still valid is left to the administrator while it works. Where what was loaded is
 * valid or unknown, a Lease shows it: a holder that renews works. One that stands by shows nothing, and its restart
 * interrupts nothing, so it is restarted where what it has is unknown; where that is valid only if nobody leads.
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
