// Restarts after a run on the host: what must read renewed files again, and nothing else, which markers name. A marker
// stays until its component has been restarted, whichever run that takes. The kubelet comes first, because it starts the
// others again, and none of them is ended while it is stopped. Then etcd, where the other members keep a quorum meanwhile, and
// kube-apiserver with it; the others once the API server answers, because without it they would end at once and be held
// back (CrashLoopBackOff). One restart each.
import type { Clock } from '../clock.ts';
import { type ComponentName, componentNames, controlPlane } from '../components.ts';
import { together } from '../disk/disk.ts';
import { errorText, isCode } from '../errors.ts';
import type { Log } from '../log.ts';
import { type Component, due, hasReadExpired, type Marker } from './decide.ts';
import { type Markers, runningOf } from './markers.ts';
import { poll } from '../retry.ts';
import { readersOnHost, restartProcess } from './processes.ts';

interface HostRestartOptions {
  readonly components: readonly Component[];
  readonly markers: Markers;
  /** Whether an artefact is as it should be: what has not been repaired is not read again. */
  readonly isReady: (artefact: string) => boolean;
  /** Resolves when the API server answers, or when there is no more waiting for it. */
  readonly apiAnswers: () => Promise<unknown>;
  /** What is wrong with the etcd member here, or with its quorum; undefined where it is well or elsewhere. */
  readonly etcdProblem: () => Promise<string | undefined>;
  /** Why etcd would have no quorum while the member here ends; undefined where it has, or no member is here. */
  readonly quorumProblem: () => Promise<string | undefined>;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

export interface RestartOutcome {
  readonly component: Component;
  /** Since then its processes have read what is there now. */
  readonly since: Date;
  /** Why it still has to be restarted. */
  readonly failure?: string;
}

/** After a restart of ours, until systemd has started it again. */
const kubeletMs = 10_000;

/** One outcome for each component that had a marker. Never rejects but by an abort. */
export async function restartMarked(options: HostRestartOptions): Promise<readonly RestartOutcome[]> {
  const { components, signal } = options;
  const outcomes: RestartOutcome[] = [];
  // A marker of a write that begins meanwhile is not one of a run that died.
  const before = new Map<string, Marker | undefined>();
  for (const { name } of components) before.set(name, await options.markers.look(name));
  const ended = new Map<ComponentName, Date>();
  let answers: Promise<unknown> | undefined;
  // Waited for once: a machine whose API server stays away is to be reported in time.
  const apiAnswers = (): Promise<unknown> => (answers ??= options.apiAnswers());
  for (const component of components.toSorted((one, other) => rank(one) - rank(other))) {
    if (signal.aborted) break;
    const outcome = await restart(component, { ...options, apiAnswers, outcomes, before, ended });
    if (outcome !== undefined) outcomes.push(outcome);
  }
  return outcomes;
}

const rank = ({ name }: Component): number => componentNames.indexOf(name);

interface Restarting extends HostRestartOptions {
  /** Ended with etcd, before it comes to itself; since when. */
  readonly ended: Map<ComponentName, Date>;
  /** In this run so far. */
  readonly outcomes: readonly RestartOutcome[];
  /** The markers that were there when this run began to restart. */
  readonly before: ReadonlyMap<string, Marker | undefined>;
}

/** Undefined where nothing is marked. */
async function restart(component: Component, options: Restarting): Promise<RestartOutcome | undefined> {
  const { markers, clock, log, isReady } = options;
  const { name } = component;
  const { startedBy } = controlPlane[name];
  const marker = await markerOf(component, options);
  if (marker === undefined) return undefined;
  const broken = component.artefacts.filter((artefact) => !isReady(artefact));
  const not = (why: string): RestartOutcome => ({
    component,
    since: clock.now(),
    failure: `${name} is not restarted ${why}`,
  });
  if (broken.length > 0) return not(`before ${broken.join(', ')} is repaired`);
  try {
    // Its marker may be that of a run that died, by which every process of it is to be restarted: it would be ended once more.
    const endedAt = options.ended.get(name);
    if (endedAt !== undefined) {
      await markers.settle(name, marker);
      return { component, since: endedAt };
    }
    const read = due(marker, readersOnHost(component), markers.boot);
    // `status` says that they wait.
    if (component.isService && (read.length === 0 || !hasReadExpired(marker, clock.now()))) {
      // Whether one runs at all is not ours to prove. Those that a run which died has left are known from now on.
      if (read.length === 0) await markers.settle(name, marker);
      else if (marker.state === 'writing')
        await markers.set(name, { ...marker, state: 'written', running: runningOf(component) });
      return undefined;
    }
    if (startedBy !== 'systemd' && !component.isService && read.length > 0) {
      if (!(await runs(startedBy, options))) return not(`while no ${startedBy} runs, which would start it again`);
      const quorum =
        name === 'etcd' && !hasReadExpired(marker, clock.now()) ? await options.quorumProblem() : undefined;
      if (quorum !== undefined) return not(`before the other members keep a quorum: ${quorum}`);
      // Both have read the same CA, and where a member is away an API server is, too.
      if (name === 'kube-apiserver' && hasFailed('etcd', options)) return not('before etcd is');
      const problem = name === 'kube-apiserver' ? await options.etcdProblem() : undefined;
      if (problem !== undefined) return not(`before etcd is healthy: ${problem}`);
      // These two may be away just because they need it.
      if (name !== 'etcd' && name !== 'kube-apiserver') await options.apiAnswers();
      if (name === 'etcd') await endWatchers(options);
    }
    const since = await end(component, marker, options);
    await markers.settle(name, marker);
    return { component, since };
  } catch (err) {
    const failure = errorText(err);
    const code = isCode(err, 'ReadFailed') ? err.code : 'WriteFailed';
    log.error('restart.failed', { component: name, err: failure, code });
    return { component, since: clock.now(), failure };
  }
}

async function markerOf({ name }: Component, { markers, before }: Restarting): Promise<Marker | undefined> {
  const now = await markers.look(name);
  return now?.state === 'writing' ? before.get(name) : now;
}

/** Ends those that have read what was there before; the answer: since when none of them runs. */
async function end(component: Component, marker: Marker, { markers, clock, log, signal }: Restarting): Promise<Date> {
  let since = clock.now();
  const restarts = due(marker, readersOnHost(component), markers.boot).map(async (reader) => {
    const message = await restartProcess(component, reader, { clock, signal });
    log.info('restart.done', { component: component.name, message });
    since = clock.now(); // the old one may have renewed its Lease until it ended
  });
  // One that cannot be restarted may be no reader at all: the others do not wait for it.
  await together(restarts);
  return since;
}

/**
 * etcd waits up to 7 s for those that watch it, and serves nobody meanwhile (etcd-io/etcd: server/embed, stopServers). Here
 * that is kube-apiserver: where it is to be restarted too, it is ended first. Then etcd ends at once, and both are away
 * at the same time. At its start kube-apiserver waits for etcd.
 */
async function endWatchers(options: Restarting): Promise<void> {
  const component = options.components.find(({ name }) => name === 'kube-apiserver');
  const marker = component && (await markerOf(component, options));
  if (marker === undefined || !component?.artefacts.every(options.isReady)) return;
  const read = due(marker, readersOnHost(component), options.markers.boot);
  if (read.length === 0) return;
  try {
    options.ended.set(component.name, await end(component, marker, options));
  } catch {
    // One that cannot be ended is reported when it comes to itself.
  }
}

const hasFailed = (name: ComponentName, { outcomes }: Pick<Restarting, 'outcomes'>): boolean =>
  outcomes.some(({ component, failure }) => component.name === name && failure !== undefined);

/** Whether one of ours runs. Where none is known by a file of ours, nothing is known about it. */
async function runs(name: ComponentName, { components, clock, signal, outcomes }: Restarting): Promise<boolean> {
  const component = components.find((each) => each.name === name);
  if (component === undefined) return true;
  const look = (): true | undefined => (readersOnHost(component).length > 0 ? true : undefined);
  const mayComeBack = outcomes.some((one) => one.component === component);
  const forMs = mayComeBack ? kubeletMs : 0;
  return (await poll(look, { forMs, everyMs: 100, clock, signal })) ?? false;
}

/** For `status`, one sentence for each process of a service that still has what was there before. */
export async function waitingServices(
  components: readonly Component[],
  markers: Pick<Markers, 'look' | 'boot'>,
): Promise<readonly string[]> {
  const each = components.map(async (component) => {
    const marker = component.isService ? await markers.look(component.name) : undefined;
    if (marker === undefined) return [];
    return due(marker, readersOnHost(component), markers.boot).map(
      ({ pid }) =>
        `${component.artefacts.join(', ')}: ${component.name} (process ${pid}) runs since before it was renewed, and ` +
        'reads it at its start only: restart it, one machine after the other, each when the others are healthy',
    );
  });
  return (await Promise.all(each)).flat();
}
