// What an administrator types on a dead node of kubeadm, and what the program answers: `status`, one command, `status`.
import { eventually } from '../eventually.ts';
import type { Cluster } from './cluster.ts';
import { programPath } from './container.ts';
import { leaves, past, reissue, superAdmin } from './leaves.ts';
import type { Node } from './node.ts';

export interface Answer {
  readonly command: string;
  readonly code: number;
  /** With colours, as on a terminal. */
  readonly output: string;
}

/** Switched off until every certificate but those of the CAs has expired, and switched on: the kubelet has failed once. */
export async function letDie({ node }: Cluster): Promise<void> {
  await node.off();
  await reissue(node, [...leaves, superAdmin], past(new Date()));
  await node.on();
  await eventually(async () => {
    const restarts = await node.sh('systemctl show --property=NRestarts --value kubelet.service');
    if (Number(restarts) === 0) throw new Error('the kubelet has not failed yet');
  });
}

/** On a terminal of the node. */
export async function ask(node: Node, words: string): Promise<Answer> {
  const typed = `script --quiet --return --command '${programPath} ${words}' /dev/null < /dev/null`;
  const { code, output } = await node.run(typed, { seconds: 300 });
  return { command: `kube-cert-recovery ${words}`, code, output: output.replaceAll('\r\n', '\n') };
}

export const askStatus = (node: Node): Promise<Answer> => ask(node, 'status');
/** Resolves when the node is Ready. */
export const askRecovery = (node: Node): Promise<Answer> => ask(node, 'init host --wait=4m');
