import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { RecoveryError } from '../../lib/errors.ts';
import { createLog } from '../../lib/log.ts';
import { FakeClock } from '../support/fake-clock.ts';
import { type Step, takeSteps } from '../../lib/run/steps.ts';

interface Taken {
  readonly clock: FakeClock;
  readonly log: ReturnType<typeof createLog>;
  readonly signal: AbortSignal;
  readonly names: string[];
  readonly lines: string[];
}

function taken(signal = new AbortController().signal): Taken {
  const lines: string[] = [];
  const log = createLog({ level: 'info', format: 'json', write: (line) => void lines.push(line) });
  return { clock: new FakeClock(), log, signal, names: [], lines };
}

const step = (name: string, more: Partial<Step<Taken>> = {}): Step<Taken> => ({
  name,
  onFailure: 'report',
  run: ({ names }) => Promise.resolve(void names.push(name)),
  ...more,
});

const fails = (): Promise<void> => Promise.reject(new RecoveryError('KubeUnavailable', 'no answer'));

describe('takeSteps()', () => {
  it('takes them in order, each after the one before, and leaves out what this run does not take', async () => {
    const run = taken();
    const slow = step('slow', {
      async run({ names }) {
        await sleep(20);
        names.push('slow');
      },
    });
    await takeSteps([slow, step('never', { when: () => false }), step('last', { when: () => true })], run, run);
    expect(run.names).toEqual(['slow', 'last']);
    expect(run.lines).toEqual([]);
  });

  it('asks whether a step is taken when its turn comes', async () => {
    const run = taken();
    const seen = step('second', { when: ({ names }) => names.includes('first') });
    await takeSteps([seen, step('first'), seen], run, run);
    expect(run.names).toEqual(['first', 'second']);
  });

  it('ends with the error of a step that stops the run', async () => {
    const run = taken();
    const steps = [step('first'), step('bad', { run: fails, onFailure: 'stop' }), step('last')];
    await expect(takeSteps(steps, run, run)).rejects.toThrow('no answer');
    expect(run.names).toEqual(['first']);
  });

  it('takes after a failure only what must not be lost, and ends with the first error', async () => {
    const run = taken();
    const kept = step('kept', { afterFailure: () => true });
    const other = () => Promise.reject(new RecoveryError('WriteFailed', 'no space'));
    const bad = { onFailure: 'stop', afterFailure: () => true } as const;
    const steps = [
      step('bad', { run: fails, onFailure: 'stop' }),
      step('left', { afterFailure: () => false }),
      step('worse', { run: other, ...bad }),
      kept,
      step('last'),
    ];
    await expect(takeSteps(steps, run, run)).rejects.toThrow('no answer');
    expect(run.names).toEqual(['kept']);
    expect(run.lines.map((line) => JSON.parse(line) as object)).toEqual([
      expect.objectContaining({ event: 'step.failed', message: 'worse', err: 'no space', code: 'WriteFailed' }),
    ]);
  });

  it('ends with the first error where the process must stop in a step after it', async () => {
    const stop = new AbortController();
    const run = taken(stop.signal);
    const stopped = step('later', {
      afterFailure: () => true,
      run(_, signal) {
        stop.abort();
        return Promise.resolve(signal.throwIfAborted());
      },
    });
    await expect(takeSteps([step('bad', { run: fails, onFailure: 'stop' }), stopped], run, run)).rejects.toThrow(
      'no answer',
    );
  });

  it('reports the error of another one by its name, and goes on', async () => {
    const run = taken();
    await takeSteps([step('bad', { run: fails }), step('last')], run, run);
    expect(run.names).toEqual(['last']);
    expect(run.lines.map((line) => JSON.parse(line) as object)).toEqual([
      expect.objectContaining({ event: 'step.failed', message: 'bad', err: 'no answer', code: 'KubeUnavailable' }),
    ]);
  });

  it.each([
    ['that rejects', (signal: AbortSignal) => sleep(60_000, undefined, { signal })],
    ['that says nothing', (signal: AbortSignal) => sleep(60_000, undefined, { signal }).catch(() => undefined)],
  ])('aborts a step %s when its limit is over, and reports that', async (_how, wait) => {
    const run = taken();
    const long = step('long', { limitMs: 300_000, run: (_run, signal) => wait(signal) });
    const taking = takeSteps([long, step('last', { limitMs: 1000 })], run, run);
    await run.clock.waiting();
    run.clock.advance(299_999);
    expect(run.lines).toEqual([]);
    run.clock.advance(1);
    await taking;
    expect(run.names).toEqual(['last']);
    expect(run.lines.join()).toContain('no end in 300 s');
    expect(run.clock.sleeping).toBe(0);
  });

  it('lets steps share a time, and leaves to the next run those for which none is left, which is said', async () => {
    const run = taken();
    const hangs: Partial<Step<Taken>> = {
      limitMs: 45_000,
      shares: true,
      run: ({ names }, signal) => sleep(60_000, undefined, { signal }).finally(() => names.push('ended')),
    };
    const others = [step('left', { limitMs: 45_000, shares: true }), step('last', { limitMs: 1000 })];
    const taking = takeSteps([step('one', hangs), step('two', hangs), ...others], run, { ...run, sharedMs: 60_000 });
    for (const ms of [45_000, 15_000]) {
      await run.clock.waiting();
      run.clock.advance(ms);
    }
    await taking;
    expect(run.names).toEqual(['ended', 'ended', 'last']);
    expect(run.lines.map((line) => JSON.parse(line) as object)).toEqual([
      expect.objectContaining({ message: 'one', err: 'no end in 45 s' }),
      expect.objectContaining({ message: 'two', err: 'no end in 15 s' }),
      expect.objectContaining({ message: 'left', err: expect.stringContaining('left to the next run') as string }),
    ]);
  });

  it('ends when the process is asked to stop, whatever the step says', async () => {
    const stopped = new AbortController();
    const run = taken(stopped.signal);
    const stops = step('stops', {
      run: () => {
        stopped.abort();
        return fails();
      },
    });
    await expect(takeSteps([stops, step('last')], run, run)).rejects.toThrow();
    expect(run.names).toEqual([]);
    expect(run.lines).toEqual([]);
  });
});
