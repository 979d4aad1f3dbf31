// Places of this machine's pairs outside of the cluster (`regen.sources`, `regen.deliveries`, `regen.machine`): how
// each place is reached, for a limited time, and when it was reached last.
import { createHash } from 'node:crypto';
import type { RegenConfig } from '../config/mode-settings.ts';
import type { ManagementPlace, PairDelivery } from '../config/management-settings.ts';
import { errorText, RecoveryError } from '../errors.ts';
import { RunState } from '../host/state.ts';
import type { Api } from '../install/apply.ts';
import { deliverPairs, type PairDestination } from '../management/deliver.ts';
import { annotateMachine, expiryText, machineText } from '../management/machine-expiry.ts';
import { readSource, secretText, sourceText } from '../management/read-source.ts';
import type { Asked, Sources } from '../plan/gather-offers.ts';
import type { Store } from '../store/store.ts';
import { createApiStore } from '../store/api-store.ts';
import { withConnection } from './connections.ts';
import type { Runtime } from './runtime.ts';

/** Limit for all requests to one place. The repair itself needs a part of the drop-in's time, too. */
const placeMs = 8000;

/** Interval between reads of a Secret whose pair is up to date: another client may change it. */
const lookAgainMs = 3_600_000;
/** Delay after a failure; a timer runs each minute. */
const tryAgainMs = 600_000;

/** Sources of a single run: the places, and when an earlier run has fetched from each (/run). */
export async function sourcesOf({ sources, lockDir }: Pick<RegenConfig, 'sources' | 'lockDir'>): Promise<Sources> {
  const places = Object.entries(sources).map(async ([name, source]): Promise<[string, Asked]> => {
    const note = await new RunState(lockDir).getText(`asked-${name}`);
    const askedAt = note?.value === identityOf(source) ? note.at : undefined;
    return [name, { place: sourceText(source), ...(askedAt && { askedAt }) }];
  });
  return new Map(await Promise.all(places));
}

/** Hash of a place in its configured form: a note about another place counts for nothing. */
const identityOf = (place: object): string => createHash('sha256').update(JSON.stringify(place)).digest('hex');

const notRun = { problem: 'a run would run it', notRun: true } as const;

type Asking = Pick<Runtime, 'clock' | 'log' | 'signal'>;

/**
 * Answers of these sources. All are fetched in parallel, each for a limited time, and no lock is held until then. Never
 * rejects but by an abort. `lockDir`: directory of the notes of when. A dry run notes nothing, and runs no command.
 */
export async function askSources(
  { sources, lockDir, dryRun }: Pick<RegenConfig, 'sources'> & { readonly lockDir?: string; readonly dryRun: boolean },
  names: readonly string[],
  asking: Asking,
): Promise<Sources> {
  const asked = Object.entries(sources).filter(([name]) => names.includes(name));
  const answers = asked.map(async ([name, source]): Promise<[string, Asked]> => {
    const place = sourceText(source);
    if (dryRun && source.command !== undefined) return [name, { place, answer: notRun }];
    if (lockDir !== undefined && !dryRun)
      await new RunState(lockDir).keep(`asked-${name}`, identityOf(source), asking.clock.now());
    try {
      const answer = await inTime(asking, place, (limited) => {
        const withSecrets = <T>(secret: ManagementPlace, work: (store: Store) => Promise<T>): Promise<T> =>
          withSecretsOf(secret, limited, work);
        return readSource(source, { ...limited, withSecrets });
      });
      return [name, { place, answer }];
    } catch (err) {
      asking.signal.throwIfAborted();
      const problem = errorText(err);
      const code = err instanceof RecoveryError ? err.code : undefined;
      asking.log.warn('pair.failed', { artefact: name, message: place, err: problem, code });
      return [name, { place, answer: { problem } }];
    }
  });
  return new Map(await Promise.all(answers));
}

/** Delivers this host's certificates, read by `store`, to the Secrets of other clusters. */
export async function deliverFromHere(mode: RegenConfig, store: Store, runtime: Runtime): Promise<void> {
  const { deliveries, lockDir } = mode;
  const state = new RunState(lockDir);
  const all = Object.entries(deliveries).map(([name, one]) => [name, destinationOf(one, runtime)] as const);
  const noteOf = (name: string): string => `delivered-${name}`;
  const told = (name: string, fingerprint: string): string => `${fingerprint} ${identityOf(deliveries[name] ?? {})}`;
  await deliverPairs(new Map(all), {
    ...runtime,
    store,
    async isDone(name, fingerprint) {
      const [what, now] = [told(name, fingerprint), runtime.clock.now()];
      const hasFailed = await state.isFresh(noteOf(name), `${what} failed`, tryAgainMs, now);
      return hasFailed || state.isFresh(noteOf(name), `${what} looked`, lookAgainMs, now);
    },
    done: (name, fingerprint, outcome) =>
      state.keep(noteOf(name), `${told(name, fingerprint)} ${outcome}`, runtime.clock.now()),
  });
}

/** Reports work that is cut off by the time limit as KubeUnavailable. */
async function inTime<R extends Asking, T>(asking: R, place: string, work: (limited: R) => Promise<T>): Promise<T> {
  const over = AbortSignal.timeout(placeMs);
  try {
    return await work({ ...asking, signal: AbortSignal.any([asking.signal, over]) });
  } catch (cause) {
    if (!over.aborted || asking.signal.aborted) throw cause;
    throw new RecoveryError('KubeUnavailable', `Cannot use ${place}: no answer in ${placeMs / 1000} s`, { cause });
  }
}

/** Connects to another cluster: the TLS server name configured for this cluster's API server does not apply. */
function withPlace<T>(
  { kubeconfig }: ManagementPlace,
  { clock, log, signal }: Asking,
  work: (api: Api) => Promise<T>,
): Promise<T> {
  return withConnection(kubeconfig, { config: { once: true }, clock, log, signal }, (connection) =>
    work({ connection, signal }),
  );
}

const withSecretsOf = <T>(place: ManagementPlace, limited: Asking, work: (store: Store) => Promise<T>): Promise<T> =>
  withPlace(place, limited, ({ connection }) =>
    work(createApiStore({ connection, fieldManager: 'kube-cert-recovery' })),
  );

function destinationOf({ secret }: PairDelivery, runtime: Runtime): PairDestination {
  const { namespace, name } = secret;
  return {
    text: secretText(secret),
    location: { kind: 'secret', namespace, name },
    withStore: (work) =>
      inTime(runtime, secretText(secret), (limited) =>
        withSecretsOf(secret, limited, (store) => work(store, limited.signal)),
      ),
  };
}

/**
 * `regen.machine`: annotates the Machine in the management cluster with notAfter of the certificate that kube-apiserver
 * serves. A timer runs each minute, so the value written is noted (/run), and written again once a day in case another
 * controller has changed it. Never rejects: a management cluster that is away is none of this machine's faults.
 */
export async function keepMachineExpiry(mode: RegenConfig, notAfter: Date, runtime: Runtime): Promise<void> {
  const { machine, lockDir } = mode;
  const { clock, log, signal } = runtime;
  if (machine === undefined) return;
  const told = `${identityOf(machine)} ${expiryText(notAfter)}`;
  const state = new RunState(lockDir);
  if (await state.isFresh(noteOfMachine, told, toldAgainMs, clock.now())) return;
  if (await state.isFresh(noteOfMachine, `${told} failed`, tryAgainMs, clock.now())) return;
  try {
    const outcome = await inTime(runtime, machineText(machine), (limited) =>
      withPlace(machine, limited, (api) => annotateMachine({ ...api, machine, notAfter })),
    );
    if (outcome === 'written') {
      log.info('machine.annotated', { message: machineText(machine), notAfter: notAfter.toISOString() });
    }
    await state.keep(noteOfMachine, told, clock.now());
  } catch (err) {
    if (signal.aborted) return;
    const code = err instanceof RecoveryError ? err.code : undefined;
    log.warn('machine.failed', { message: machineText(machine), err: errorText(err), code });
    await state.keep(noteOfMachine, `${told} failed`, clock.now());
  }
}

const noteOfMachine = 'machine-expiry';
const toldAgainMs = 24 * 3_600_000;
