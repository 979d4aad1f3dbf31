// Restarts after a run on the host: exactly the components named by markers, which must read renewed files again. A
// marker stays until its component has been restarted, by this run or a later one. The kubelet comes first, because it
// starts the other components again, and none of them is terminated while it is stopped. Then etcd, where the other
// members keep a quorum without it, and kube-apiserver with it; the other components once the API server answers,
// because without it they would exit immediately and be held back (CrashLoopBackOff). One restart each.
import type { Clock } from '../clock.ts';
import { type ComponentName, componentNames, starterOf } from '../components.ts';
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
  /** Whether an artefact is repaired: a component does not read a broken file again. */
  readonly isReady: (artefact: string) => boolean;
  /** Resolves when the API server answers, or when the wait for it is over. */
  readonly apiAnswers: () => Promise<unknown>;
  /** Problem of the etcd member here, or of its quorum; undefined where it is healthy or elsewhere. */
  readonly etcdProblem: () => Promise<string | undefined>;
  /** Why etcd would have no quorum while the member here is down; undefined where it has, or no member is here. */
  readonly quorumProblem: () => Promise<string | undefined>;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

export interface RestartOutcome {
  readonly component: Component;
  /** Since when its processes have read the present files. */
  readonly since: Date;
  /** Why it still has to be restarted. */
  readonly failure?: string;
}

/** Time that systemd has to start the kubelet again after our restart. */
const kubeletMs = 10_000;

/** One outcome for each component that had a marker. Never rejects but by an abort. */
export async function restartMarked(options: HostRestartOptions): Promise<readonly RestartOutcome[]> {
  const { components, signal } = options;
  const outcomes: RestartOutcome[] = [];
  // A marker of a write that begins during the restarts is no marker of a run that died.
  const before = new Map<string, Marker | undefined>();
  for (const { name } of components) before.set(name, await options.markers.look(name));
  const ended = new Map<ComponentName, Date>();
  let answers: Promise<unknown> | undefined;
  // Waited for only once: a machine whose API server stays away is to be reported in time.
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
  /** Components terminated with etcd, before their own turn; since when. */
  readonly ended: Map<ComponentName, Date>;
  /** Outcomes of this run so far. */
  readonly outcomes: readonly RestartOutcome[];
  /** Markers present when this run began to restart. */
  readonly before: ReadonlyMap<string, Marker | undefined>;
}

/** Undefined where the component has no marker. */
async function restart(component: Component, options: Restarting): Promise<RestartOutcome | undefined> {
  const { markers, clock, log, isReady } = options;
  const { name } = component;
  const { needs: starter, isOfHost } = starterOf(name);
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
    // Its marker may have been left by a run that died, by which all of its processes are to be restarted: it would be
    // terminated once more.
    const endedAt = options.ended.get(name);
    if (endedAt !== undefined) {
      await markers.settle(name, marker);
      return { component, since: endedAt };
    }
    const read = due(marker, readersOnHost(component));
    // `status` reports that they wait.
    if (component.isService && (read.length === 0 || !hasReadExpired(marker, clock.now()))) {
      // Whether the service runs at all is not ours to prove. After a run that died, the present processes are noted.
      if (read.length === 0) await markers.settle(name, marker);
      else if (marker.state === 'writing')
        await markers.set(name, { ...marker, state: 'written', running: runningOf(component) });
      return undefined;
    }
    if (!isOfHost && !component.isService && read.length > 0) {
      if (starter !== undefined && !(await runs(starter, options)))
        return not(`while no ${starter} runs, which would start it again`);
      const quorum =
        name === 'etcd' && !hasReadExpired(marker, clock.now()) ? await options.quorumProblem() : undefined;
      if (quorum !== undefined) return not(`before the other members keep a quorum: ${quorum}`);
      // Both have read the same CA, and where a member is away an API server is, too.
      if (name === 'kube-apiserver' && hasFailed('etcd', options)) return not('before etcd is');
      const problem = name === 'kube-apiserver' ? await options.etcdProblem() : undefined;
      if (problem !== undefined) return not(`before etcd is healthy: ${problem}`);
      // etcd and kube-apiserver may be the reason why it does not answer.
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

/** Terminates the processes that have read former content. Returns since when none of them runs. */
async function end(component: Component, marker: Marker, { clock, log, signal }: Restarting): Promise<Date> {
  let since = clock.now();
  const restarts = due(marker, readersOnHost(component)).map(async (reader) => {
    const message = await restartProcess(component, reader, { clock, signal });
    log.info('restart.done', { component: component.name, message });
    since = clock.now(); // the former process may have renewed its Lease until it exited
  });
  // A process that cannot be restarted may be no reader at all: the other readers do not wait for it.
  await together(restarts);
  return since;
}

/**
 * Terminates kube-apiserver, where it is to be restarted too, before etcd: etcd waits up to 7 s for its watchers, and
 * serves no client until then (etcd-io/etcd: server/embed, stopServers). Without watchers etcd exits immediately, and
 * both are away at the same time. At its start kube-apiserver waits for etcd.
 */
async function endWatchers(options: Restarting): Promise<void> {
  const component = options.components.find(({ name }) => name === 'kube-apiserver');
  const marker = component && (await markerOf(component, options));
  if (marker === undefined || !component?.artefacts.every(options.isReady)) return;
  const read = due(marker, readersOnHost(component));
  if (read.length === 0) return;
  try {
    options.ended.set(component.name, await end(component, marker, options));
  } catch {
    // A process that cannot be terminated is reported in its own turn.
  }
}

const hasFailed = (name: ComponentName, { outcomes }: Pick<Restarting, 'outcomes'>): boolean =>
  outcomes.some(({ component, failure }) => component.name === name && failure !== undefined);

/** Whether a process of the component runs; true where no file of ours identifies the component. */
async function runs(name: ComponentName, { components, clock, signal, outcomes }: Restarting): Promise<boolean> {
  const component = components.find((each) => each.name === name);
  if (component === undefined) return true;
  const look = (): true | undefined => (readersOnHost(component).length > 0 ? true : undefined);
  const mayComeBack = outcomes.some((one) => one.component === component);
  const forMs = mayComeBack ? kubeletMs : 0;
  return (await poll(look, { forMs, everyMs: 100, clock, signal })) ?? false;
}

/** One sentence for `status` for each process of a service that still runs with former content. */
export async function waitingServices(
  components: readonly Component[],
  markers: Pick<Markers, 'look'>,
): Promise<readonly string[]> {
  const each = components.map(async (component) => {
    const marker = component.isService ? await markers.look(component.name) : undefined;
    if (marker === undefined) return [];
    return due(marker, readersOnHost(component)).map(
      ({ pid }) =>
        `${component.artefacts.join(', ')}: ${component.name} (process ${pid}) runs since before it was renewed, and ` +
        'reads it at its start only: restart it, one machine after the other, each when the others are healthy',
    );
  });
  return (await Promise.all(each)).flat();
}
