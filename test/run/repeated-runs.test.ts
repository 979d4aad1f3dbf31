import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import type { RegenConfig } from '../../lib/config/mode-settings.ts';
import { type ErrorCode, RecoveryError } from '../../lib/errors.ts';
import { Health } from '../../lib/health.ts';
import type { WatchEvent } from '../../lib/kube/kube.ts';
import { createLog } from '../../lib/log.ts';
import type { UnmetCondition } from '../../lib/regen/unmet.ts';
import { repeatRuns } from '../../lib/run/repeated-runs.ts';
import { createRunLog } from '../../lib/run/run-log.ts';
import type { Connected, Runtime } from '../../lib/run/runtime.ts';
import { FakeClock } from '../support/fake-clock.ts';

interface Line {
  readonly level: string;
  readonly event: string;
}

function world() {
  const clock = new FakeClock();
  const lines: Line[] = [];
  const log = createLog({ level: 'info', write: (line) => lines.push(JSON.parse(line) as Line) });
  const stop = new AbortController();
  const health = new Health();
  const runtime = { clock, log, signal: stop.signal, health, once: false, resolved: { name: 'none', artefacts: [] } };
  return { clock, lines, log, stop, health, runtime: runtime as unknown as Runtime };
}

const mode = { locations: 'all', restart: true } as RegenConfig;

describe('repeatRuns()', () => {
  it('makes a single run at once and every half minute, as a unit does, until it is stopped', async () => {
    const { clock, runtime, stop } = world();
    const runs: Runtime[] = [];
    const ended = repeatRuns(mode, runtime, async (_, given) => {
      runs.push(given);
      return [];
    });
    await clock.waiting();
    expect(runs).toMatchObject([{ once: true, isOfUnit: true, isRepeated: true }]);
    clock.advance(29_000);
    await clock.waiting();
    expect(runs).toHaveLength(1);
    clock.advance(1000);
    await expect.poll(() => runs.length).toBe(2);
    stop.abort();
    await ended;
    expect(runs).toHaveLength(2);
  });

  it('waits half a minute after a run however long that took: no run overlaps another', async () => {
    const { clock, runtime, stop } = world();
    let running = 0;
    const seen: number[] = [];
    const ended = repeatRuns(mode, runtime, async (_, { signal }) => {
      seen.push((running += 1));
      await clock.sleep(300_000, signal);
      running -= 1;
      return [];
    });
    for (let count = 1; count <= 3; count += 1) {
      await expect.poll(() => seen.length).toBe(count);
      await clock.waiting();
      clock.advance(300_000);
      await clock.waiting();
      clock.advance(30_000);
    }
    stop.abort();
    await ended;
    expect(new Set(seen)).toEqual(new Set([1]));
  });

  it('goes on after a run that has failed, and says so once', async () => {
    const { clock, runtime, stop, lines } = world();
    let runs = 0;
    const ended = repeatRuns(mode, runtime, () => {
      runs += 1;
      return Promise.reject(new RecoveryError('WriteFailed', 'Cannot lock'));
    });
    for (let count = 1; count <= 3; count += 1) {
      await expect.poll(() => runs).toBe(count);
      await clock.waiting();
      clock.advance(30_000);
    }
    stop.abort();
    await ended;
    expect(lines).toMatchObject([{ level: 'warn', event: 'run.failed', err: 'Cannot lock', code: 'WriteFailed' }]);
  });

  it('is ready when the last run has left nothing to do, and live while runs end', async () => {
    const { clock, runtime, stop, health } = world();
    const states = (): object =>
      Object.fromEntries(health.report().map(({ name, ok, message }) => [name, message ?? ok]));
    let left: readonly UnmetCondition[] = [{ message: 'ca: its ConfigMap is absent' }];
    let lastsMs = 0;
    const ended = repeatRuns(mode, runtime, async (_, { signal }) => {
      await clock.sleep(lastsMs, signal);
      return left;
    });
    expect(states()).toEqual({ 'regen-loop': true, regen: 'nothing has been looked at yet' });
    await clock.waiting();
    clock.advance(0);
    await expect.poll(states).toEqual({ 'regen-loop': true, regen: 'ca: its ConfigMap is absent' });
    clock.suspend(3_600_000);
    expect(states()).toMatchObject({ 'regen-loop': true });
    left = [];
    await clock.waiting();
    clock.advance(30_000);
    await clock.waiting();
    lastsMs = 3_600_000;
    clock.advance(0);
    await expect.poll(states).toEqual({ 'regen-loop': true, regen: true });
    await clock.waiting();
    clock.advance(30_000);
    await clock.waiting();
    clock.advance(1_800_000);
    expect(states()).toEqual({ 'regen-loop': 'no end of a run for 1800 s', regen: true });
    stop.abort();
    await ended;
  });

  it('reads anew what the inventory means here at each run', async () => {
    const { clock, runtime, stop } = world();
    const names: string[] = [];
    let count = 0;
    const resolveAgain = () => Promise.resolve({ name: `${(count += 1)}`, artefacts: [] });
    const ended = repeatRuns(mode, { ...runtime, resolveAgain }, async (_, { resolved }) => {
      names.push(resolved.name);
      return [];
    });
    await clock.waiting();
    clock.advance(30_000);
    await expect.poll(() => names).toEqual(['1', '2']);
    stop.abort();
    await ended;
  });
});

/** An API server that refuses with this code, or has one version of each object. */
class FakeApi {
  code: ErrorCode | undefined;
  version = '1';
  readonly paths: string[] = [];
  readonly events: unknown[] = [];
  readonly #events: ((event: WatchEvent) => void)[] = [];
  readonly connection = {
    server: 'https://api:6443',
    request: ({ path }: { readonly path: string }) => {
      this.paths.push(path);
      return this.code === undefined
        ? Promise.resolve({ metadata: { resourceVersion: this.version }, items: [this.#object()] })
        : Promise.reject(new RecoveryError(this.code, 'refused'));
    },
    turn: () => Promise.resolve(() => undefined),
    watch: (_: string, { signal }: { readonly signal: AbortSignal }) => this.#watch(signal),
  };

  change(): void {
    this.version = `${Number(this.version) + 1}`;
    for (const send of this.#events.splice(0)) send({ type: 'MODIFIED', object: this.#object() });
  }

  #object = () => ({ metadata: { resourceVersion: this.version } });

  async *#watch(signal: AbortSignal): AsyncIterable<WatchEvent> {
    while (!signal.aborted) {
      const stopped = new Promise<undefined>((resolve) => signal.addEventListener('abort', () => resolve(undefined)));
      const event = await Promise.race([new Promise<WatchEvent>((resolve) => this.#events.push(resolve)), stopped]);
      if (event !== undefined) yield event;
    }
  }
}

describe('repeatRuns() with an input in the API', () => {
  const configMap = { kind: 'configMap', namespace: 'n', name: 'node-ca' };
  const recorded = { type: 'Warning', reason: 'CertificateUpdateFailed', note: 'it is empty' };

  function started(
    api: FakeApi,
    locations: readonly object[] = [configMap],
    lasts?: (given: Runtime) => Promise<unknown>,
  ) {
    const { clock, runtime, stop, lines } = world();
    const covered: string[] = [];
    const artefacts = locations.map((location, at) => ({ kind: 'external', name: `${at}`, location, readers: [] }));
    const events = { record: (one: unknown) => api.events.push(one), flush: () => Promise.resolve(0) };
    const connecting = { resolved: { name: 'node', artefacts }, connection: api.connection, events };
    const connected = { ...runtime, ...connecting } as unknown as Connected;
    const ended = repeatRuns(mode, connected, async ({ locations: looked }, given) => {
      covered.push(looked);
      (given as unknown as typeof connecting).events.record(recorded);
      if (lasts !== undefined) await lasts(given);
      return [];
    });
    const end = async (): Promise<void> => {
      stop.abort();
      await ended;
    };
    return { clock, covered, lines, end };
  }

  it('looks at files alone until the API answers, and while it is away', async () => {
    const api = new FakeApi();
    api.code = 'KubeUnavailable';
    const { clock, covered, end } = started(api);
    await clock.waiting(2);
    clock.advance(30_000);
    await expect.poll(() => covered).toEqual(['disk', 'disk']);
    api.code = undefined;
    await clock.waiting(2);
    clock.advance(5000);
    await expect.poll(() => covered).toEqual(['disk', 'disk', 'all']);
    await end();
  });

  it('watches each object once, by its name', async () => {
    const api = new FakeApi();
    const [group, resource] = ['machineconfiguration.openshift.io/v1', 'controllerconfigs'];
    const field = { kind: 'field', apiVersion: group, resource, name: 'one', path: 'spec.ca' };
    const { end } = started(api, [{ ...configMap, key: 'a' }, { ...configMap, key: 'b' }, field]);
    await expect
      .poll(() => api.paths.map((path) => path.replace(/&.*/, '')))
      .toEqual([
        '/api/v1/namespaces/n/configmaps?fieldSelector=metadata.name%3Dnode-ca',
        `/apis/${group}/${resource}?fieldSelector=metadata.name%3Done`,
      ]);
    await end();
  });

  it('records an Event of what lasts once', async () => {
    const api = new FakeApi();
    const { covered, end } = started(api);
    await expect.poll(() => covered.length).toBe(2);
    await end();
    expect(api.events).toEqual([recorded]);
  });

  it('makes one more run for all changes during a run', async () => {
    const api = new FakeApi();
    const { covered, end } = started(api);
    await expect.poll(() => covered.at(-1)).toBe('all');
    await expect.poll(() => covered.length).toBe(2);
    api.change();
    await expect.poll(() => covered.length).toBe(3);
    await end();
    expect(covered).toEqual(['disk', 'all', 'all']);
  });

  it('tells a run that an input has changed, so that the next one need not wait for it', async () => {
    const api = new FakeApi();
    const untilNews = ({ news, signal }: Runtime) => {
      const told = AbortSignal.any([signal, ...(news ? [news] : [])]);
      return told.aborted ? Promise.resolve() : once(told, 'abort');
    };
    const { covered, end } = started(api, [configMap], untilNews);
    await expect.poll(() => covered).toEqual(['disk', 'all']);
    api.change();
    await expect.poll(() => covered).toEqual(['disk', 'all', 'all']);
    await end();
  });

  it('covers the API where the right to watch is missing, and asks no more after half a minute', async () => {
    const api = new FakeApi();
    api.code = 'KubeForbidden';
    const { clock, covered, lines, end } = started(api);
    const pass = async (seconds: number): Promise<number> => {
      for (let second = 0; second < seconds; second += 1) {
        await clock.waiting();
        clock.advance(1000);
        await new Promise((resolve) => setImmediate(resolve));
      }
      return api.paths.length;
    };
    const requests = await pass(35);
    expect(await pass(60)).toBe(requests);
    expect(covered.slice(0, 2)).toEqual(['disk', 'all']);
    expect(covered.slice(2)).toEqual(['all', 'all', 'all']);
    expect(lines.map(({ event }) => event)).toEqual(['watch.failed']);
    await end();
  });
});

describe('createRunLog()', () => {
  it('says what lasts when it begins, hourly, and again when it comes back; each change always', () => {
    const { clock, log, lines } = world();
    const { log: own, runEnded } = createRunLog({ clock, log });
    const run = (isBlocked: boolean): void => {
      if (isBlocked) own.with({ mode: 'regen' }).warn('rotation.blocked', { recheckAt: clock.now().toISOString() });
      own.info('api.answered', { attempt: lines.length, duration: 1 });
      own.info('caBundle.updated', { artefact: 'ca' });
      runEnded();
      clock.advance(30_000);
    };
    const said = (): string[] => lines.splice(0).map(({ event }) => event);
    run(true);
    expect(said()).toEqual(['rotation.blocked', 'api.answered', 'caBundle.updated']);
    for (let minute = 0; minute < 59; minute += 1) run(true);
    expect(new Set(said())).toEqual(new Set(['caBundle.updated']));
    for (let minute = 0; minute < 61; minute += 1) run(true);
    expect(said().filter((event) => event !== 'caBundle.updated')).toEqual(['rotation.blocked', 'api.answered']);
    run(false);
    run(true);
    expect(said()).toEqual(['caBundle.updated', 'rotation.blocked', 'caBundle.updated']);
  });
});
