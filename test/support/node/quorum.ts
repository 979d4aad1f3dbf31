// Members of etcd asked all the while, each by itself, by a client that shares no code with what is tested.
import { get } from 'node:https';
import { setTimeout as delay } from 'node:timers/promises';
import type { Node } from './node.ts';

export interface QuorumReport {
  /** How often all members were asked. */
  readonly looks: number;
  /** The most members at a time that were not healthy. */
  readonly mostAway: number;
  /** What they said when there was no quorum. */
  readonly lost: readonly string[];
}

const pki = '/etc/kubernetes/pki';

/** A member says that it is healthy once a quorum has confirmed what it reads, which may take an election. */
export async function watchQuorum(nodes: readonly Node[]): Promise<{ stop(): Promise<QuorumReport> }> {
  const [node] = nodes;
  if (node === undefined) throw new Error('No node');
  const [ca, cert, key] = await Promise.all(
    ['etcd/ca.crt', 'etcd/healthcheck-client.crt', 'etcd/healthcheck-client.key'].map((name) =>
      node.read(`${pki}/${name}`),
    ),
  );
  const once = ({ address: host }: Node): Promise<string> =>
    new Promise((resolve) => {
      const signal = AbortSignal.timeout(5000);
      const asked = { host, port: 2379, path: '/health', agent: false, signal, ca, cert, key } as const;
      get(asked, (answer) => {
        let text = '';
        answer.setEncoding('utf8').on('data', (part: string) => (text += part));
        answer.on('end', () => resolve(text)).on('error', (err) => resolve(err.message));
      }).on('error', (err) => resolve(err.message));
    });
  /**
   * What is read while the members vote fails so, and is read again once they have: a member that is told to end closes its
   * listeners first, and hands the lead over then.
   */
  const ask = async (member: Node): Promise<string> => {
    const answer = await once(member);
    if (!/leader changed|NO LEADER|timed out/.test(answer)) return answer;
    await delay(1500);
    return once(member);
  };
  const stopping = new AbortController();
  const lost: string[] = [];
  let [looks, mostAway] = [0, 0];
  const running = (async () => {
    for (; !stopping.signal.aborted; looks += 1) {
      const answers = await Promise.all(nodes.map(ask));
      const away = answers.filter((answer) => !answer.includes('"health":"true"')).length;
      mostAway = Math.max(mostAway, away);
      if (nodes.length - away <= nodes.length / 2) lost.push(`${new Date().toISOString()} ${answers.join('; ')}`);
      await delay(100);
    }
  })();
  return {
    async stop() {
      stopping.abort();
      await running;
      return { looks, mostAway, lost };
    },
  };
}
