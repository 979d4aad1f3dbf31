// The demo on a machine: a node that kubeadm made and systemd boots is dead after its certificates have expired, and comes
// back after one command.
import { performance } from 'node:perf_hooks';
import { stripVTControlCharacters } from 'node:util';
import { linesOf } from '../../../scripts/pictures.ts';
import { proveHealthy } from './boot.ts';
import { Cluster } from './cluster.ts';
import { leaves, superAdmin } from './leaves.ts';
import { type Answer, askRecovery, askStatus, letDie } from './recovery-session.ts';
import { openWorkshop } from './workshop.ts';

export interface NodeDemoOptions {
  readonly out: { write(text: string): unknown };
}

/** Shown to a person: what status says in its last lines. */
const verdictLines = 3;

export async function runNodeDemo({ out }: NodeDemoOptions): Promise<number> {
  const began = performance.now();
  const say = (text: string): void => {
    out.write(`${((performance.now() - began) / 1000).toFixed(1).padStart(5)} s  ${text}\n`);
  };
  const title = (text: string): void => void out.write(`\n${text}\n`);
  const show = ({ command, output }: Answer, lines = verdictLines): void =>
    void out.write(`# ${command}\n${stripVTControlCharacters(linesOf(output).slice(-lines).join('\n'))}\n`);
  const all = [...leaves, superAdmin];

  title('6. A node that kubeadm made; nothing of this program is installed');
  await using opened = await openWorkshop();
  await using cluster = await Cluster.create(opened.workshop, { systemd: true });
  const { node } = cluster;
  say('the node is Ready');

  title('7. Switched off until every certificate but those of the CAs has expired, and switched on');
  await letDie(cluster);
  say('the kubelet does not start, so no static pod does');
  show(await askStatus(node));

  title('8. One command');
  show(await askRecovery(node), Infinity);
  await proveHealthy(cluster, node, all);
  say(`openssl: all ${all.length} certificates are good; a new pod has run on the node`);
  show(await askStatus(node));
  return 0;
}
