// Commands of docs/ansible.md, with the published playbook and role, on a machine that is its own controller.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { blocks, page, section } from '../../docs/markdown.ts';
import { type Node, type Outcome, withScratch } from './node.ts';

const published = fileURLToPath(new URL('../../../manifests/ansible', import.meta.url));
const directory = '/root/packages/ansible';
const inventory = `[kube_control_plane]
node1 ansible_connection=local
[kube_node]
node2 ansible_connection=local
`;

const [playing = '', asking = ''] = blocks(section(page('docs/ansible.md'), 'The role')).flatMap(
  ({ language, text }) => (language === 'text' ? [text.trim()] : []),
);

export interface Played {
  readonly code: number;
  /** Names of the tasks that have changed something, without that of their role. */
  readonly changed: readonly string[];
  readonly output: string;
}

/** Puts the playbook and its role on the machine. */
export async function bringPlaybook(node: Node): Promise<void> {
  await node.sh(`mkdir -p ${directory}`);
  await node.copyIn(published, directory);
  await withScratch(async (scratch) => {
    await writeFile(join(scratch, 'inventory.ini'), inventory);
    await node.copyIn(scratch, directory);
  });
}

/** Plays it for this machine, with these variables of the role, without their common prefix. */
export async function play(node: Node, variables: Readonly<Record<string, unknown>>, flags = ''): Promise<Played> {
  const prefixed = Object.entries(variables).map(([name, value]) => [`kube_cert_recovery_${name}`, value] as const);
  await withScratch(async (scratch) => {
    await writeFile(join(scratch, 'cert-recovery.yml'), JSON.stringify(Object.fromEntries(prefixed)));
    await node.copyIn(scratch, directory);
  });
  const { code, output } = await typed(node, `${playing} --limit=${node.name} ${flags}`);
  const tasks = output.split(/^TASK \[(?:\w+ : )?(.*)\] \*+$/m).slice(1);
  const changed = tasks.filter((_, at) => at % 2 === 0 && /^changed: /m.test(tasks[at + 1] ?? ''));
  return { code, changed, output };
}

/** The state of this machine, as the page asks for it. */
export const ask = (node: Node): Promise<Outcome> => typed(node, `${asking} --limit=${node.name}`);

function typed(node: Node, command: string): Promise<Outcome> {
  const own = 'LC_ALL=C.UTF-8 ANSIBLE_HOME=/tmp/ansible ANSIBLE_REMOTE_TMP=/tmp/ansible/tmp';
  return node.run(`cd ${directory} && ${own} ${command} 2>&1`, { seconds: 240 });
}
