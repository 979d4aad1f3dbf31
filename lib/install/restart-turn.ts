// kube-apiserver is restarted on one machine of a cluster at a time, by whoever changes its manifest here: an adoption, its
// end, a repair. The turn is the one that the containers take, too (lib/leases/turn.ts).
import type { Clock } from '../clock.ts';
import { isCode } from '../errors.ts';
import { turnSeconds } from '../restart/decide.ts';
import { LeaseTurn, restartTurn } from '../restart/turn.ts';
import type { Api } from './apply.ts';

export interface Restarting {
  readonly api: Api;
  readonly nodeName: string;
  readonly clock: Clock;
  /** How long to wait for the turn; 0: not at all. Default: until one that a dead machine holds is over. */
  readonly turnTimeoutMs?: number;
  /** See TurnOptions. */
  readonly turnSeenFile?: string;
  /** Told once when it has to wait. */
  readonly told?: (line: string) => void;
}

const longestTurnMs = (turnSeconds + 10) * 1000;
const askAgainMs = 1000;
/** An API server that was just restarted answers within this. */
const giveBackMs = 60_000;

/** Throws KubeConflict when another machine still has the turn, what the connection throws, and what `work` throws. */
export async function withRestartTurn<T>(restarting: Restarting, work: () => Promise<T>): Promise<T> {
  const { api, nodeName: holder, clock, turnSeenFile: seenFile } = restarting;
  const seen = seenFile === undefined ? {} : { seenFile };
  const turn = new LeaseTurn({ ...api, lease: restartTurn, holder, clock, ...seen });
  const isOurs = await take(turn, restarting);
  try {
    return await work();
  } finally {
    if (isOurs) await turn.giveBack(giveBackMs);
  }
}

async function take(turn: LeaseTurn, restarting: Restarting): Promise<boolean> {
  const { api, clock, turnTimeoutMs = longestTurnMs, told } = restarting;
  const until = clock.now().getTime() + turnTimeoutMs;
  for (let isFirst = true; ; isFirst = false) {
    try {
      await turn.take();
      return true;
    } catch (err) {
      // Where there is no namespace for the Lease nobody else can have taken it.
      if (isCode(err, 'KubeNotFound')) return false;
      if (!isCode(err, 'KubeConflict') || api.signal.aborted || clock.now().getTime() >= until) throw err;
      if (isFirst) told?.(`Static pod kube-apiserver waits for its turn. ${err.message}`);
    }
    await clock.sleep(askAgainMs, api.signal);
  }
}
