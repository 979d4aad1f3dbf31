// Places of this machine's pairs outside of the cluster (`regen.sources`, `regen.deliveries`, `regen.machine`): how
// each place is reached, for a limited time, and when it was reached last.
import type { RegenConfig } from '../config/mode-settings.ts';
import type { PairDelivery } from '../config/management-settings.ts';
import { errorText, RecoveryError } from '../errors.ts';
import { RunState } from '../host/state.ts';
import { deliverPairs, type PairDestination } from '../management/deliver.ts';
import { annotateMachine, expiryText, machineText } from '../management/machine-expiry.ts';
import { identityOf, inTime, type Reaching, secretText, withPlace, withSecretsOf } from '../origin/other-cluster.ts';
import type { Store } from '../store/store.ts';
import { connectorOf } from './connections.ts';
import type { Runtime } from './runtime.ts';

/** Interval between reads of a Secret whose pair is up to date: another client may change it. */
const lookAgainMs = 3_600_000;
/** Delay after a failure; a timer runs each minute. */
const tryAgainMs = 600_000;

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

const reachingOf = ({ clock, log, signal }: Runtime): Reaching => ({
  connect: connectorOf({ clock, log, signal }),
  clock,
  log,
  signal,
});

function destinationOf({ secret }: PairDelivery, runtime: Runtime): PairDestination {
  const { namespace, name } = secret;
  return {
    text: secretText(secret),
    location: { kind: 'secret', namespace, name },
    withStore: (work) =>
      inTime(reachingOf(runtime), secretText(secret), (limited) =>
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
    const outcome = await inTime(reachingOf(runtime), machineText(machine), (limited) =>
      withPlace(machine, limited, (connection) =>
        annotateMachine({ connection, signal: limited.signal, machine, notAfter }),
      ),
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
