// The nodes of other machines whose signs of life are remembered from look to look: only such as the API has, because
// whoever may ask can name any number of others.
import { type Clock, steadyMs } from '../clock.ts';
import { canBeHeard, type NodeFacts } from './judge.ts';
import { type Signs, watch, type Watched } from './silence.ts';

export class WatchedNodes {
  readonly #clock: Clock;
  readonly #nodes = new Map<string, Watched>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** What is known of this node, with what this look has seen of its signs of life. */
  see(name: string, facts: NodeFacts): NodeFacts {
    const { renewedAt, heartbeatAt, renewalMs } = facts;
    if (!canBeHeard(facts)) {
      this.#nodes.delete(name);
      return facts;
    }
    const signs: Signs = {
      ...(renewedAt && { renewedAt }),
      ...(heartbeatAt && { heartbeatAt }),
      ...(renewalMs !== undefined && { renewalMs }),
    };
    const watched = watch(this.#nodes.get(name), signs, steadyMs(this.#clock));
    this.#nodes.set(name, watched);
    return { ...facts, watched };
  }
}
