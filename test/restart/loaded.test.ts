// What a process has loaded, by what earlier runs have noted and by the times of its files.
import { describe, expect, it } from 'vitest';
import {
  type FileState,
  formerFiles,
  type FormerFile,
  isToRestart,
  learn,
  type LoadedNote,
  nothingLoaded,
} from '../../lib/restart/loaded.ts';

const file = '/etc/kubernetes/scheduler.conf';
const day = 86_400_000;
const now = new Date('2026-06-01T00:00:00Z');
const inDays = (days: number): number => now.getTime() + days * day;

/** Ticks since the boot; 100 s after it. */
const process = { pid: 7, started: 100_00 };
const reader = { name: 'kube-scheduler', isService: false } as const;

/** A file of the scheduler whose times are given in seconds since the boot. */
const state = (digest: string, written: number, touched = written, until: number | undefined = inDays(300)) =>
  ({
    artefact: 'scheduler.conf',
    file,
    digest,
    until,
    writtenSeconds: written,
    touchedSeconds: touched,
    writtenAt: now,
  }) satisfies FileState;

const seen = (digest: string, since: number): LoadedNote => ({
  seen: { [file]: { digest, until: inDays(10), since } },
  processes: [],
});
const loaded = (digest: string): LoadedNote => ({
  seen: { [file]: { digest: 'new', until: inDays(300), since: 500 } },
  processes: [{ ...process, files: { [file]: { digest, until: inDays(10) } } }],
});

const verdict = (note: LoadedNote, one: FileState): string => {
  const observed = { processes: [process], files: [one] };
  const [found] = formerFiles(reader, learn(note, { ...observed, seconds: 900 }), observed);
  return found?.state ?? 'present';
};

describe('a process of which no run has noted what it has loaded', () => {
  it.each<[string, LoadedNote, FileState, string]>([
    ['has what was written before its start', nothingLoaded, state('new', 50), 'present'],
    ['may have another where it was written since', nothingLoaded, state('new', 200), 'unknown'],
    ['counts as older than a change of the same moment', nothingLoaded, state('new', 100), 'unknown'],
    ['is not older for a mode that was changed since', nothingLoaded, state('new', 50, 200), 'present'],
    [
      'is not said where nothing in the file ends',
      nothingLoaded,
      { ...state('new', 200), until: undefined },
      'present',
    ],
    ['has the content that was there before and is now', seen('new', 60), state('new', 200), 'present'],
    ['has the one that was there before and is no more', seen('old', 60), state('new', 200), 'former'],
    ['has what took its place before the start', seen('old', 60), state('new', 80), 'present'],
    ['may have either of a copy that keeps its dates', seen('old', 60), state('new', 50, 200), 'unknown'],
    ['may have another than was seen first after its start', seen('old', 160), state('new', 200), 'unknown'],
    ['has what a clock that was set says of the future', nothingLoaded, state('new', -Infinity), 'present'],
  ])('%s', (_title, note, one, wanted) => {
    expect(verdict(note, one)).toBe(wanted);
  });
});

describe('a process of which a run has noted it', () => {
  it.each<[string, LoadedNote, FileState, string]>([
    ['has a former content whatever the dates say', loaded('old'), state('new', 50), 'former'],
    ['has the same one that was touched or written again', loaded('new'), state('new', 500), 'present'],
  ])('%s', (_title, note, one, wanted) => {
    expect(verdict(note, one)).toBe(wanted);
  });

  it('stays noted while it runs, with what it had at its start', () => {
    const first = learn(nothingLoaded, { processes: [process], files: [state('old', 50)], seconds: 200 });
    const second = learn(first, { processes: [process], files: [state('new', 300)], seconds: 400 });
    expect(second.processes).toEqual([{ ...process, files: { [file]: { digest: 'old', until: inDays(300) } } }]);
    expect(second.seen[file]?.since).toBe(400);
    const next = { pid: 7, started: 450_00 };
    const third = learn(second, { processes: [next], files: [state('new', 300)], seconds: 500 });
    expect(third.processes).toEqual([{ ...next, files: { [file]: { digest: 'new', until: inDays(300) } } }]);
    expect(learn(third, { processes: [next], files: [state('new', 300)], seconds: 600 })).toEqual(third);
  });
});

describe('when it is restarted by itself', () => {
  const former = (until: number | undefined, next: number | undefined, isService = false): FormerFile | undefined => {
    const note: LoadedNote = {
      seen: {},
      processes: [{ ...process, files: { [file]: { digest: 'old', until } } }],
    };
    const observed = { processes: [process], files: [{ ...state('new', 500), until: next }] };
    return formerFiles({ ...reader, isService }, note, observed)[0];
  };
  it.each<[string, FormerFile | undefined, number | undefined]>([
    ['a day before the end of what it has', former(inDays(10), inDays(300)), inDays(9)],
    ['a service at that end', former(inDays(10), inDays(300), true), inDays(10)],
    ['never for what ends no later', former(inDays(10), inDays(10)), undefined],
    ['never where no end is known', former(undefined, inDays(300)), undefined],
    ['never where the file has none', former(inDays(10), undefined), undefined],
  ])('%s', (_title, found, wanted) => {
    expect(found?.restartsAt?.getTime()).toBe(wanted);
  });

  const valid = former(inDays(10), inDays(300)) ?? expect.fail('none');
  const ending = former(inDays(0.5), inDays(300)) ?? expect.fail('none');
  const { restartsAt: _at, ...rest } = valid;
  const unknown: FormerFile = { ...rest, state: 'unknown', until: undefined };
  it.each<[string, FormerFile, Parameters<typeof isToRestart>[1], boolean]>([
    ['what ends within a day', ending, 'proven', true],
    ['not what is valid and works', valid, 'proven', false],
    ['not what is valid and stands by', valid, 'notApplicable', false],
    ['what is valid and does not work', valid, 'unproven', true],
    ['not what is valid and cannot be asked', valid, undefined, false],
    ['not what is unknown and works', unknown, 'proven', false],
    ['what is unknown and stands by', unknown, 'notApplicable', true],
    ['what is unknown and does not work', unknown, 'unproven', true],
    ['not what is unknown and cannot be asked', unknown, undefined, false],
  ])('restarts %s', (_title, found, use, wanted) => {
    expect(isToRestart(found, use, now)).toBe(wanted);
  });
});
