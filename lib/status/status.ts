// `status`: reads everything once and reports; changes nothing. For another time it answers whether the cluster,
// switched off now and on then, would come back by itself: the plan of that time with the facts of today.
import { readFile, stat } from 'node:fs/promises';
import type { Clock } from '../clock.ts';
import { errorText, isCode, RecoveryError, systemCode } from '../errors.ts';
import type { Location, Resolved, ResolvedArtefact } from '../inventory/model.ts';
import { type NamesInApi, withNames } from '../inventory/names-in-api.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { gather } from '../plan/gather.ts';
import { withAnswers } from '../plan/gather-asked.ts';
import { askingNodes } from '../plan/gather-nodes.ts';
import { type Sources, understandOffers } from '../plan/gather-offers.ts';
import { type Plan, plan, replanOf } from '../plan/plan.ts';
import type { ClockFacts } from '../plan/clock-rules.ts';
import type { Decision, PlanInput, RenewalPolicy } from '../plan/decision.ts';
import type { Prove } from '../proof/prove.ts';
import { certificateKey, privateKeyKey } from '../inventory/content.ts';
import { type Entries, type Found, type Store } from '../store/store.ts';
import { findWebhooks } from '../webhooks/find.ts';
import type { FormerFile } from '../restart/loaded.ts';
import { addressesNow, addressGone } from '../host/own-address.ts';
import { askOwn, askServers, localServers } from './local-servers.ts';
import type { AdoptionStatus } from './adoption-report.ts';
import { nodeReport, type NodeStatus } from './node-report.ts';
import { type OnDisk, report, type StatusReport, type Use, type WebhookSight } from './report.ts';
import { basename } from 'node:path';
import { filesOfReaders, isFile, isFileOfItsOwn, pathsOf } from '../inventory/places.ts';

export interface StatusOptions {
  readonly resolved: Resolved;
  readonly store: Store;
  /** Names that only the API knows; needed where the inventory uses them. */
  readonly namesInApi?: ((signal: AbortSignal) => Promise<NamesInApi>) | undefined;
  readonly policy: RenewalPolicy;
  readonly clockFacts: ClockFacts;
  readonly clock: Clock;
  /** Time of the report; disk and use are then left out, because their future is unknown. */
  readonly at?: Date | undefined;
  /** Directories where the syncers of this machine write an artefact; without it files are not checked. */
  readonly directoriesOf?: (artefact: ResolvedArtefact) => readonly string[];
  /** Locations that the modes work on; the other entries are left out of the report. Default: all. */
  readonly locations?: 'all' | 'disk' | 'api';
  /** Proof of use; undefined: use is not checked. */
  readonly prove?: Prove | undefined;
  readonly recoveryServerName?: string | undefined;
  /** Administrator's connection: with it, admission webhooks that could intercept recovery are reported. */
  readonly connection?: KubeConnection | undefined;
  readonly signal: AbortSignal;
}

export async function runStatus(options: StatusOptions): Promise<StatusReport> {
  const { store, policy, clockFacts, clock, at, signal, recoveryServerName, locations = 'all' } = options;
  const present = clock.now();
  const now = at ?? present;
  const only = (location: Location): boolean => locations === 'all' || isFile(location) === (locations === 'disk');
  const [{ facts, found }, webhooks, names] = await Promise.all([
    gather({ resolved: options.resolved, store, now: present, signal, only }),
    lookForWebhooks(options),
    options.namesInApi?.(signal),
  ]);
  const resolved = names === undefined ? options.resolved : withNames(options.resolved, names);
  const { connection } = options;
  const askNodes = at === undefined && connection ? askingNodes({ connection, clock }, policy) : undefined;
  const asking = { resolved, askNodes, clock, signal };
  const asked = await withAnswers({ resolved, facts, policy, clock: clockFacts, now }, asking);
  const input = {
    resolved: { ...resolved, artefacts: resolved.artefacts.filter(({ location }) => only(location)) },
    facts,
    plan: plan(asked),
    replan: replanOf(asked),
    now,
    recoveryServerName,
    webhooks,
  };
  if (at !== undefined) return report(input);
  const shown = { ...options, resolved: input.resolved };
  const [onDisk, inUse] = await Promise.all([lookAtDisk(found, shown), askForUse(shown)]);
  return report({ ...input, onDisk, inUse });
}

interface NodeOptions
  extends
    Pick<StatusOptions, 'resolved' | 'store' | 'policy' | 'clockFacts' | 'clock' | 'at' | 'signal'>,
    Partial<Pick<NodeStatus, 'reasons' | 'remedy' | 'stillRepairs'>> {
  /** Further notes on this machine, in plain sentences. */
  readonly notes?: readonly string[];
  /** Whether units of this machine carry out the plan before the kubelet starts. Default: true. */
  readonly isArmed?: boolean | undefined;
  /** Service whose start waits for the repair. Default: `the kubelet`. */
  readonly starter?: string | undefined;
  /** Whether this process may read everything: a refused read is then a fault. Default: true. */
  readonly isRoot?: boolean;
  /** Places outside this program for pairs that cannot be made here, and a function that polls some of them. */
  readonly sources?:
    { readonly places: Sources; readonly ask: (decisions: readonly Decision[]) => Promise<Sources> } | undefined;
  /** Components that run with a former CA, and who must restart them. */
  readonly stale?: readonly string[];
  /** Artefact whose outlook is wanted although nothing is announced. */
  readonly explained?: string | undefined;
  readonly former?: readonly FormerFile[];
  /** Adopted machines only: objects and containers. */
  readonly adopted?: AdoptionStatus | undefined;
}

/** Sources for the plan, which polls only the needed ones. */
async function sourcesAsked(
  planOf: (sources: Sources | undefined) => Plan,
  sources: NodeOptions['sources'],
): Promise<Sources | undefined> {
  if (sources === undefined) return undefined;
  const wanted = planOf(sources.places).decisions.filter(({ obtains }) => obtains !== undefined);
  return new Map([...sources.places, ...(await sources.ask(wanted))]);
}

/** Throws ReadFailed where a user other than root requests root's files. */
export async function runNodeStatus(options: NodeOptions): Promise<NodeStatus> {
  const { resolved, store, policy, clockFacts, clock, at, signal, isRoot = true } = options;
  const present = clock.now();
  const now = at ?? present;
  const gathered = await gather({ resolved, store, now: present, signal });
  const { facts, found, failures } = gathered;
  const isShutOut = [...failures.values()].some(({ details }) => details['system'] === 'EACCES');
  if (isShutOut && !isRoot) {
    const message = 'Cannot look at this machine: its keys and kubeconfigs are readable by root only; run it as root';
    throw new RecoveryError('ReadFailed', message);
  }
  const asking = { facts, found, clock, signal };
  const servers = at === undefined ? localServers(resolved) : [];
  const served = await Promise.all([askServers(servers, asking), askOwn(servers, asking)]);
  const isKeyOnly = ({ name, location }: ResolvedArtefact): boolean => {
    const entries = found.get(name)?.entries;
    return isFileOfItsOwn(location, privateKeyKey) && entries !== undefined && entries[certificateKey] === undefined;
  };
  const inputOf = (sources: Sources | undefined): PlanInput => {
    const offers = understandOffers(sources, { ...gathered, resolved });
    return { resolved, facts, policy, clock: clockFacts, now, offers };
  };
  const asked = inputOf(await sourcesAsked((places) => plan(inputOf(places)), options.sources));
  return nodeReport({
    ...options,
    facts,
    plan: plan(asked),
    replan: replanOf(asked),
    now,
    isForecast: at !== undefined,
    keyOnly: new Set(resolved.artefacts.filter(isKeyOnly).map(({ name }) => name)),
    served: served.flat(),
    addressGone: at === undefined ? addressGone(resolved.endpoints?.local, addressesNow()) : undefined,
  });
}

/** Unreadable webhooks are reported, and are no failure: the identities of the modes may not list them. */
async function lookForWebhooks({ connection, resolved, signal }: StatusOptions): Promise<WebhookSight | undefined> {
  if (connection === undefined) return undefined;
  try {
    return { seen: true, findings: await findWebhooks({ connection, resolved, signal }) };
  } catch (err) {
    if (isCode(err, 'KubeForbidden')) return { seen: false, message: 'only an administrator may list them' };
    return { seen: false, message: errorText(err) };
  }
}

async function lookAtDisk(found: ReadonlyMap<string, Found>, options: StatusOptions): Promise<Map<string, OnDisk>> {
  const { resolved, directoriesOf } = options;
  const states = new Map<string, OnDisk>();
  // Files follow an object of the API; a location on disk is its own only file.
  for (const artefact of resolved.artefacts.filter(({ location }) => !isFile(location))) {
    const entries = found.get(artefact.name)?.entries;
    const paths = (directoriesOf?.(artefact) ?? []).flatMap((directory) => pathsBelow(directory, artefact, resolved));
    if (entries !== undefined && paths.length > 0) states.set(artefact.name, await compare(paths, entries));
  }
  return states;
}

/** Files that readers of an artefact use. */
function pathsBelow(destinationDir: string, artefact: ResolvedArtefact, { artefacts }: Resolved): readonly string[] {
  const files = filesOfReaders({ artefact, artefacts, destinationDir });
  return files === undefined ? [] : pathsOf(files);
}

async function compare(paths: readonly string[], entries: Entries): Promise<OnDisk> {
  let state: OnDisk = 'same';
  for (const path of paths) {
    try {
      const wanted = entries[basename(path)];
      if (wanted === undefined || Buffer.compare(await readFile(path), wanted) !== 0) state = 'different';
    } catch (err) {
      if (systemCode(err) === 'ENOENT') return 'missing';
      state = 'different'; // unreadable for us: sameness cannot be confirmed
    }
  }
  return state;
}

async function askForUse(options: StatusOptions): Promise<Map<string, Use>> {
  const { resolved, prove, clock } = options;
  const uses = new Map<string, Use>();
  if (prove === undefined) return uses;
  await Promise.all(
    resolved.artefacts
      .filter(({ readers }) => readers.length > 0)
      .map(async (artefact) => {
        const since = (await writtenAt(artefact, options)) ?? clock.now();
        uses.set(artefact.name, await prove(artefact, since));
      }),
  );
  return uses;
}

/** Modification time of its files; undefined where there are none. */
async function writtenAt(
  artefact: ResolvedArtefact,
  { resolved, directoriesOf }: StatusOptions,
): Promise<Date | undefined> {
  const [directory = '/nonexistent'] = directoriesOf?.(artefact) ?? [];
  const [path] = pathsBelow(directory, artefact, resolved);
  try {
    return path === undefined ? undefined : (await stat(path)).mtime;
  } catch {
    return undefined; // then only use from now on would prove it, as the proof reports
  }
}
