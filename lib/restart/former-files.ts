// Processes that run with a former version of a file: processes and files of this machine, compared with the note of
// earlier runs, which is kept in the lock directory for this boot. A component to be restarted now gets a marker, as
// after a write of our own: there is one way to restart (host-restarts.ts).
import type { Clock } from '../clock.ts';
import type { ComponentName } from '../components.ts';
import { ourPlaces, type ProcessFacts, type ProcessId, readProcesses } from '../host/proc.ts';
import type { RunState } from '../host/state.ts';
import type { Resolved } from '../inventory/model.ts';
import { type HostProofs, proveIdentityHere, proveServedHere } from '../proof/prove.ts';
import type { ProofResult } from '../proof/result.ts';
import { type Component, due, ownKubeconfig, readersOf, startedSeconds } from './decide.ts';
import { type FormerFile, formerFiles, isToRestart, learn, type LoadedNote, nothingLoaded } from './loaded.ts';
import { Markers } from './markers.ts';
import { startFilesOf, stateOfFile } from './start-files.ts';
import { isMapping } from '../yaml.ts';

interface Looking {
  readonly components: readonly Component[];
  readonly resolved: Resolved;
  readonly state: RunState;
  readonly clock: Pick<Clock, 'now' | 'uptimeSeconds'>;
}

type Loaded = Partial<Record<ComponentName, LoadedNote>>;

/** Former files of the running processes. `keep`: leaves the note for the next run. Never rejects. */
export async function lookForFormer(options: Looking, keep: 'keep' | 'forget'): Promise<readonly FormerFile[]> {
  const { components, resolved, state, clock } = options;
  // Runs with another inventory of this machine know other files.
  const name = `loaded-${resolved.name}`;
  const before = (await state.get(name, asLoaded))?.value ?? {};
  const after: Loaded = {};
  const found: FormerFile[] = [];
  // Read before the files: a process that starts in between has read the present content, and the next run finds it.
  const all = processesOf(components);
  for (const component of components) {
    const processes = readersOf(component, all ?? [], ourPlaces);
    const uptimeSeconds = clock.uptimeSeconds();
    const note = before[component.name] ?? nothingLoaded;
    if (all === undefined || uptimeSeconds === undefined || isAhead(processes, uptimeSeconds)) continue;
    const reads = startFilesOf(component, resolved).map((file) => stateOfFile(file, resolved, clock));
    const files = (await Promise.all(reads)).filter((file) => file !== undefined);
    const learnt = learn(note, { processes, files, seconds: clock.uptimeSeconds() ?? uptimeSeconds });
    after[component.name] = learnt;
    found.push(...formerFiles(component, learnt, { processes, files }));
  }
  if (keep === 'keep' && JSON.stringify(after) !== JSON.stringify(before)) await state.keep(name, after);
  return found;
}

/**
 * Former files for `status`, which leaves no note. Processes that a write of our own has marked are restarted by the
 * next run; waitingServices() reports services.
 */
export async function formerHere(
  options: Looking & { readonly markers: Pick<Markers, 'look'> },
): Promise<readonly FormerFile[]> {
  const { components, markers, clock } = options;
  const found = await lookForFormer(options, 'forget');
  const each = found.map(async (one): Promise<readonly FormerFile[]> => {
    const marker = await markers.look(one.component);
    if (marker === undefined || due(marker, [one.process]).length === 0) return [one];
    const isService = components.some(({ name, isService: is }) => name === one.component && is);
    return isService ? [] : [{ ...one, restartsAt: clock.now() }];
  });
  return (await Promise.all(each)).flat();
}

/**
 * Artefacts whose present file a component has not loaded, or may not have: a component whose processes are not seen
 * counts as one that has not.
 */
export async function notLoaded(options: Looking): Promise<ReadonlySet<string>> {
  const { components, state } = options;
  const markers = new Markers({ state, onFailed: () => undefined });
  const found = (await lookForFormer(options, 'forget')).map(({ artefact }) => artefact);
  const all = processesOf(components) ?? [];
  for (const component of components) {
    const processes = readersOf(component, all, ourPlaces);
    const marker = await markers.look(component.name);
    if (processes.length === 0 || (marker !== undefined && due(marker, processes).length > 0))
      found.push(...component.artefacts);
  }
  return new Set(found);
}

function processesOf(components: readonly Component[]): readonly ProcessFacts[] | undefined {
  try {
    return readProcesses(components.map(({ name }) => name));
  } catch {
    return undefined; // /proc is not readable
  }
}

/**
 * Whether the clock of processes is ahead: more than a second means that /proc/uptime is not this machine's (lxcfs).
 */
const isAhead = (processes: readonly ProcessId[], uptimeSeconds: number): boolean =>
  processes.some((one) => startedSeconds(one) > uptimeSeconds + 1);

const isContent = (value: unknown): boolean =>
  isMapping(value) && typeof value['digest'] === 'string' && ['number', 'undefined'].includes(typeof value['until']);

const areContents = (value: unknown): boolean => isMapping(value) && Object.values(value).every(isContent);

function asLoaded(value: unknown): Loaded | undefined {
  if (!isMapping(value)) return undefined;
  const isWhole = Object.values(value).every((note) => {
    if (!isMapping(note) || !areContents(note['seen']) || !Array.isArray(note['processes'])) return false;
    const seen = Object.values(note['seen'] as Readonly<Record<string, { readonly since?: unknown }>>);
    const isProcess = (one: unknown): boolean =>
      isMapping(one) &&
      typeof one['pid'] === 'number' &&
      typeof one['started'] === 'number' &&
      areContents(one['files']);
    return seen.every(({ since }) => typeof since === 'number') && note['processes'].every(isProcess);
  });
  return isWhole ? value : undefined;
}

interface Marking extends HostProofs {
  readonly components: readonly Component[];
  readonly markers: Markers;
}

/** Leaves a marker for each component that has a process to be restarted now. */
export async function markFormer(found: readonly FormerFile[], options: Marking): Promise<void> {
  const { components, markers, clock } = options;
  for (const component of components) {
    const own = found.filter(({ component: name }) => name === component.name);
    if (own.length === 0 || (await isMarked(component, own, markers))) continue;
    const hasRestart = own.some((one) => isToRestart(one, undefined, clock.now()));
    const use = hasRestart ? undefined : await useOf(component, own, options);
    // A proof of its identity proves nothing about a CA that it has loaded as well.
    const useOfFile = (file: string) => (file === ownKubeconfig(component) ? use : undefined);
    const restarts = own.filter((one) => isToRestart(one, useOfFile(one.file), clock.now()));
    if (restarts.length > 0) await mark(component, restarts, markers);
  }
}

/** Whether a write of our own has left a marker for these processes, which is acted on in any case. */
async function isMarked({ name }: Component, own: readonly FormerFile[], markers: Markers): Promise<boolean> {
  const marker = await markers.look(name);
  if (marker === undefined) return false;
  const processes = own.map(({ process }) => process);
  return marker.state === 'writing' || due(marker, processes).length === processes.length;
}

/** Leaves a marker: `found` are due, with the processes that a marker names already. */
export async function mark(
  { name }: Pick<Component, 'name'>,
  found: readonly Pick<FormerFile, 'process' | 'until'>[],
  markers: Markers,
): Promise<void> {
  const before = await markers.look(name);
  const running = [...(before?.running ?? []), ...found.map(({ process: { pid, started } }) => ({ pid, started }))];
  const ends = [before?.until, ...found.map(({ until }) => until)].filter((end) => end !== undefined);
  const until = ends.toSorted((one, other) => one.getTime() - other.getTime())[0];
  await markers.set(name, { state: 'written', running, until });
}

/** A leader renews its Lease every 2 s, a kubelet every 10 s. */
const renewedWithinMs = 30_000;
const patienceMs = 20_000;

/** Whether the identity of a component is accepted now; undefined where it has none, or no API server here answers. */
async function useOf(
  component: Component,
  own: readonly FormerFile[],
  options: Marking,
): Promise<ProofResult['state'] | undefined> {
  const kubeconfig = ownKubeconfig(component);
  if (kubeconfig === undefined || !own.some(({ file }) => file === kubeconfig)) return undefined;
  if ((await proveServedHere(0, options))?.state !== 'proven') return undefined;
  const since = new Date(options.clock.now().getTime() - renewedWithinMs);
  return (await proveIdentityHere({ kubeconfig, since }, patienceMs, options))?.state;
}
