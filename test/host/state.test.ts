import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { temporaryName } from '../../lib/disk/files.ts';
import { RunState } from '../../lib/host/state.ts';

const now = new Date('2026-11-25T08:00:00Z');
const later = (ms: number): Date => new Date(now.getTime() + ms);
const asNumber = (value: unknown): number | undefined => (typeof value === 'number' ? value : undefined);

describe('state of a run', () => {
  let directory: string;
  const at = (name: string): string => join(directory, name);
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'state-'));
  });
  afterEach(() => rm(directory, { recursive: true }));

  it('is read as it was written, with its time, by root alone', async () => {
    const state = new RunState(at('lock'));
    await state.set('asked', 'the text', now);
    expect(await state.getText('asked')).toEqual({ value: 'the text', at: now });
    expect((await stat(at('lock/asked'))).mode & 0o777).toBe(0o600);
    expect((await stat(at('lock'))).mode & 0o777).toBe(0o700);
  });

  it('has the time of its last writing, also with the same value', async () => {
    const state = new RunState(directory);
    for (const time of [now, later(60_000)]) await state.set('asked', 7, time);
    expect(await state.get('asked', asNumber)).toEqual({ value: 7, at: later(60_000) });
    await state.set('asked', 7);
    expect(await state.get('asked', asNumber)).toEqual({ value: 7 });
  });

  it('is due for another text, after a time, and sooner after a failure; open work at the next run', async () => {
    const state = new RunState(directory);
    let time = now;
    const clock = { ...systemClock, now: () => time };
    const pace = { againMs: 60_000, afterFailureMs: 1000, clock };
    const isDue = async (text: string, outcome: 'done' | 'failed' | 'open', afterMs: number): Promise<boolean> => {
      time = later(afterMs);
      let ran = false;
      await state.whenDue('work', text, pace, async () => {
        ran = true;
        return outcome;
      });
      return ran;
    };
    expect(await isDue('one', 'open', 0)).toBe(true);
    expect(await isDue('one', 'done', 1)).toBe(true);
    expect(await isDue('one', 'done', 59_999)).toBe(false);
    expect(await isDue('two', 'done', 60_000)).toBe(true);
    expect(await isDue('two', 'failed', 120_000)).toBe(true);
    expect(await isDue('two', 'failed', 120_999)).toBe(false);
    expect(await isDue('two', 'done', 121_000)).toBe(true);
  });

  it('counts in its boot only, unless it is to outlast it', async () => {
    for (const scope of [{ boot: 'one' }, 'disk'] as const) await new RunState(directory, scope).set('asked', 7);
    expect(await new RunState(directory, 'disk').get('asked', asNumber)).toEqual({ value: 7 });
    await new RunState(directory, { boot: 'one' }).set('asked', 7);
    expect(await new RunState(directory, { boot: 'one' }).get('asked', asNumber)).toEqual({ value: 7 });
    expect(await new RunState(directory, { boot: 'two' }).look('asked', asNumber)).toBeUndefined();
    expect(await readdir(directory)).toEqual(['asked']);
  });

  it.each(['', 'a note of an earlier version', '{"boot":"one","state":"written","running":[]}', 'null', '7', '{"val'])(
    'that is %j is absent, and told from an absent file where that matters',
    async (content) => {
      const state = new RunState(directory);
      await writeFile(at('asked'), content);
      expect(await state.get('asked', asNumber)).toBeUndefined();
      expect(await state.look('asked', asNumber)).toBe('garbled');
      expect(await state.look('other', asNumber)).toBeUndefined();
    },
  );

  it('is written where a directory lies in its place', async () => {
    const state = new RunState(directory);
    await mkdir(join(at('asked'), 'inside'), { recursive: true });
    await state.set('asked', 7);
    expect(await state.get('asked', asNumber)).toEqual({ value: 7 });
  });

  it('is written by several runs at once, and no run removes the temporary file of another one', async () => {
    const state = new RunState(directory);
    const temporaries = [1, 2].map(() => temporaryName(at('asked')));
    for (const path of temporaries) await writeFile(path, '');
    const [ofKilledRun = ''] = temporaries;
    await utimes(ofKilledRun, new Date(0), new Date(0));
    for (let round = 0; round < 50; round += 1)
      await Promise.all([1, 2, 3].map((value) => state.set('asked', 10 * round + value)));
    const left = temporaries.slice(1).map((path) => basename(path));
    expect((await readdir(directory)).toSorted()).toEqual([...left, 'asked']);
  });

  it('of another type is garbled', async () => {
    const state = new RunState(directory);
    await state.set('asked', 7);
    expect(await state.getText('asked')).toBeUndefined();
    expect(await state.look('asked', asNumber)).toEqual({ value: 7 });
  });

  it('that is a FIFO is none, and nobody waits for it', async () => {
    execFileSync('mkfifo', [at('asked')]);
    expect(await new RunState(directory).getText('asked')).toBeUndefined();
  });

  it('that is absent or a directory is none, and stands in the way of nothing', async () => {
    await mkdir(at('asked/inside'), { recursive: true });
    const state = new RunState(directory);
    expect(await state.getText('asked')).toBeUndefined();
    await state.remove('asked');
    await writeFile(at('file'), '');
    const inFile = new RunState(at('file'));
    await expect(inFile.set('asked', 'text')).rejects.toMatchObject({ code: 'WriteFailed' });
    await inFile.keep('asked', 'text', now);
    await inFile.forget('asked');
    expect(await inFile.getText('asked')).toBeUndefined();
    expect(await readFile(at('file'), 'utf8')).toBe('');
    expect(await readdir(directory)).toEqual(['file']);
  });

  it('reports a text when it begins, when it changes, and once an hour', async () => {
    const state = new RunState(directory);
    const news = (text: string, ms: number): Promise<boolean> => state.isNews('told', text, later(ms));
    expect(await news('one', 0)).toBe(true);
    expect(await news('one', 3_599_000)).toBe(false);
    expect(await news('two', 3_599_500)).toBe(true);
    expect(await news('two', 3_600_000)).toBe(false);
    expect(await news('two', 7_200_000)).toBe(true);
    expect(await news('two', 0)).toBe(true); // the clock was wrong then
  });
});
