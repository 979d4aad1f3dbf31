// Processes stand still, all of a cgroup at once. The kernel freezes one after the other, and one that waits for the disk
// when that is done: `docker pause` and `ctr tasks pause` give up after a thousand tries (runc's freezer.go), which on a
// loaded machine is a few milliseconds, so we write the state ourselves and wait for it.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { asRoot } from './as-root.ts';
import type { Node } from './node.ts';

const run = promisify(execFile);

/**
 * Shell functions `freeze ID` and `thaw ID`: the cgroup of a container, with all below, in cgroup v1 and v2. It is named
 * for the container by every driver; numbers of processes are others where its daemon lives.
 */
const functions = `
group() {
  [ -d /sys/fs/cgroup/freezer ] && top=/sys/fs/cgroup/freezer || top=/sys/fs/cgroup
  find "$top" -type d -name "*$1*" -print -quit 2>/dev/null || true # others come and go meanwhile
}
freeze() {
  group=$(group "$1")
  if [ -e "$group/freezer.state" ]; then
    until [ "$(cat "$group/freezer.state")" = FROZEN ]; do echo FROZEN > "$group/freezer.state"; sleep 0.05; done
  else
    echo 1 > "$group/cgroup.freeze"
    until grep -qx 'frozen 1' "$group/cgroup.events"; do sleep 0.05; done
  fi
}
thaw() {
  group=$(group "$1")
  [ -n "$group" ] || return 0
  if [ -e "$group/freezer.state" ]; then echo THAWED > "$group/freezer.state"; else echo 0 > "$group/cgroup.freeze"; fi
}
`;

/** The whole container, on the machine of the test. */
export async function freezeContainer(id: string): Promise<void> {
  await run(...asRoot('timeout', ['60', 'sh', '-euc', `${functions} freeze ${id}`]));
}

export async function thawContainer(id: string): Promise<void> {
  await run(...asRoot('sh', ['-euc', `${functions} thaw ${id}`]));
}

/**
 * Our containers of a machine stand still while a test changes what they would act on: half of it looks broken.
 * `names`: of containers, as a regular expression of containerd's filters. The answer lets them go on.
 */
export async function standStill(node: Node, names: string): Promise<() => Promise<unknown>> {
  const select = `ctr -n k8s.io containers list 'labels."io.kubernetes.container.name"~="${names}"' --quiet`;
  const tasks = await node.sh('ctr -n k8s.io tasks list');
  const selected = new Set((await node.sh(select)).split('\n'));
  const ids = tasks
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([id, , state]) => id !== undefined && selected.has(id) && state === 'RUNNING')
    .map(([id]) => id);
  const each = (verb: string): Promise<string> =>
    node.sh(`${functions} for id in ${ids.join(' ')}; do ${verb} $id; done`);
  await each('set -e; freeze');
  return () => each('thaw');
}
