// A client of all members of an etcd that writes one key after the other, reads each from another member at once, and
// remembers what was acknowledged: none of it may be lost. A request that fails is made once more, of another member; what
// fails twice has failed: nothing is known of it, and that is no loss. Each request is a connection of its own, so every one
// meets the certificates of that moment.
import { setTimeout as delay } from 'node:timers/promises';
import { errorText } from '../../../lib/errors.ts';
import { eventually } from '../eventually.ts';
import type { EtcdMembers } from './etcd-members.ts';

export interface EtcdWriter {
  /** So many were acknowledged until now. */
  readonly acknowledged: number;
  /** Ends it: what failed twice, and which acknowledged writes are gone from which member. */
  stop(): Promise<{ readonly failed: readonly string[]; readonly lost: readonly string[] }>;
}

export function startEtcdWriter(etcd: EtcdMembers): EtcdWriter {
  const { members } = etcd;
  const acknowledged: string[] = [];
  const failed: string[] = [];
  const lost: string[] = [];
  const stopping = new AbortController();
  /** Undefined once one of two members has answered as it should. */
  const tried = async (first: number, ask: (member: (typeof members)[number]) => Promise<string | undefined>) => {
    const problems: string[] = [];
    for (const attempt of [0, 1]) {
      const member = members[(first + attempt) % members.length];
      if (member === undefined) throw new Error('no member');
      const problem = await ask(member);
      if (problem === undefined) return undefined;
      problems.push(`${member.name}: ${problem}`);
    }
    return problems.join('; ');
  };
  const running = (async () => {
    for (let number = 0; !stopping.signal.aborted; number += 1) {
      const key = `write-${number}`;
      const unwritten = await tried(number, async (member) => {
        const answer = await etcd.put(member, key, key);
        return answer.includes('"revision"') ? undefined : answer;
      });
      if (unwritten === undefined) acknowledged.push(key);
      else failed.push(`${key}: ${unwritten}`);
      const unread = await tried(number + 1, async (member) => {
        try {
          const value = await etcd.get(member, key);
          if (unwritten === undefined && value !== key) lost.push(`${key} on ${member.name}: ${value}`);
          return undefined;
        } catch (err) {
          return errorText(err);
        }
      });
      if (unread !== undefined) failed.push(`${key}: ${unread}`);
      await delay(5);
    }
  })();
  return {
    get acknowledged() {
      return acknowledged.length;
    },
    async stop() {
      stopping.abort();
      await running;
      for (const member of members) {
        const kept = await eventually(() => etcd.all(member, 'write-'));
        for (const key of acknowledged) if (kept.get(key) !== key) lost.push(`${key} on ${member.name}`);
      }
      return { failed, lost };
    },
  };
}
