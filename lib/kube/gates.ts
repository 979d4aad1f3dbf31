// Whom a failure concerns. No answer at all is everybody's: the API server is away for all who ask it by the same name
// and CA. An answer that asks for patience (429, and 503 with Retry-After) is for the identity that got it alone:
// kube-apiserver's priority and fairness gives each user a queue of his own, and a mode that asks for much must not shut
// out the one that renews.
import { createHash } from 'node:crypto';
import type { Credentials } from '../kubeconfig/credentials.ts';
import type { Clock } from '../clock.ts';
import type { RecoveryError } from '../errors.ts';
import type { Attempt } from './api-error.ts';
import { type Entry, Gate } from './gate.ts';

/** The way of one identity to one API server: by the gate of all, and by its own. */
export class IdentityGate {
  readonly #all: Gate;
  readonly #own: Gate;

  constructor(all: Gate, own: Gate) {
    this.#all = all;
    this.#own = own;
  }

  /** As that of a gate: throws KubeUnavailable, KubeWrongAnswer. */
  async enter(attempt: Attempt, signal: AbortSignal): Promise<Entry> {
    const own = await this.#own.enter(attempt, signal);
    try {
      return joined(await this.#all.enter(attempt, signal), own);
    } catch (err) {
      own.end();
      throw err;
    }
  }

  /** As that of a gate. */
  enterAside(attempt: Attempt): Entry {
    const own = this.#own.enterAside(attempt);
    return joined(this.#all.enterAside(attempt), own);
  }

  /** As that of a gate. Who must be patient takes no turn from others. */
  async turn(signal: AbortSignal): Promise<() => void> {
    return this.#own.isClosed ? this.#own.turn(signal) : this.#all.turn(signal);
  }
}

function joined(all: Entry, own: Entry): Entry {
  return {
    answered() {
      own.answered();
      all.answered();
    },
    failed(failure: RecoveryError) {
      if (failure.details['away'] === true) return all.failed(failure);
      own.failed(failure);
      all.answered(); // it is there
    },
    end() {
      own.end();
      all.end();
    },
  };
}

/** The gates of a process: one for each server, name and CA, because what one of these cannot reach another may. */
export class Gates {
  readonly #clock: Clock;
  readonly #all = new Map<string, Gate>();
  readonly #own = new Map<string, Gate>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  of({ server, serverName, ca, token, clientCertificate }: Credentials): IdentityGate {
    const place = [server, serverName, digest(ca)];
    const identity = [token && digest(token), clientCertificate && digest(clientCertificate.cert)];
    return new IdentityGate(this.#gate(this.#all, place), this.#gate(this.#own, [...place, ...identity]));
  }

  #gate(gates: Map<string, Gate>, names: readonly (string | undefined)[]): Gate {
    const key = JSON.stringify(names);
    const gate = gates.get(key) ?? new Gate(this.#clock);
    gates.delete(key); // last in order, so what is asked for stays
    gates.set(key, gate);
    const [oldest] = gates.keys();
    if (gates.size > mostGates && oldest !== undefined) gates.delete(oldest); // CAs and tokens that were replaced
    return gate;
  }
}

const mostGates = 16;

const digest = (content: string | Buffer): string => createHash('sha256').update(content).digest('hex');
