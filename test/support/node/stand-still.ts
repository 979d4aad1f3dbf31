// Processes stand still, all of a cgroup at once. The kernel freezes one after the other, and one that waits for the disk
// when that is done: `docker pause` and `ctr tasks pause` give up after a thousand tries (runc's freezer.go), which on a
// loaded machine is a few milliseconds, so we write the state ourselves and wait for it.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { asRoot } from './as-root.ts';
import type { Node } from './node.ts';

const run = promisify(execFile);

/** Shell functions `freeze PID` and `thaw PID`: the cgroup of that process, with all below, in cgroup v1 and v2. */
const functions = `
v1() { sed -n 's#^[0-9]*:freezer:#/sys/fs/cgroup/freezer#p' "/proc/$1/cgroup"; }
v2() { sed -n 's#^0::#/sys/fs/cgroup#p' "/proc/$1/cgroup"; }
freeze() {
  group=$(v1 "$1")
  if [ -n "$group" ]; then
    until [ "$(cat "$group/freezer.state")" = FROZEN ]; do echo FROZEN > "$group/freezer.state"; sleep 0.05; done
  else
    group=$(v2 "$1")
    echo 1 > "$group/cgroup.freeze"
    until grep -qx 'frozen 1' "$group/cgroup.events"; do sleep 0.05; done
  fi
}
thaw() {
  [ -e "/proc/$1/cgroup" ] || return 0
  group=$(v1 "$1")
  if [ -n "$group" ]; then echo THAWED > "$group/freezer.state"; else echo 0 > "$(v2 "$1")/cgroup.freeze"; fi
}
`;

/** The whole container whose first process this is, as the machine of the test sees it. */
export async function freezeContainer(pid: number): Promise<void> {
  await run(...asRoot('timeout', ['60', 'sh', '-euc', `${functions} freeze ${pid}`]));
}

export async function thawContainer(pid: number): Promise<void> {
  await run(...asRoot('sh', ['-euc', `${functions} thaw ${pid}`]));
}

/**
 * Our containers of a machine stand still while a test changes what they would act on: half of it looks broken.
 * `names`: of containers, as a regular expression of containerd's filters. The answer lets them go on.
 */
export async function standStill(node: Node, names: string): Promise<() => Promise<unknown>> {
  const select = `ctr -n k8s.io containers list 'labels."io.kubernetes.container.name"~="${names}"' --quiet`;
  const tasks = await node.sh('ctr -n k8s.io tasks list');
  const selected = new Set((await node.sh(select)).split('\n'));
  const pids = tasks
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([id, , state]) => id !== undefined && selected.has(id) && state === 'RUNNING')
    .map(([, pid]) => pid);
  const each = (verb: string): Promise<string> =>
    node.sh(`${functions} for pid in ${pids.join(' ')}; do ${verb} $pid; done`);
  await each('set -e; freeze');
  return () => each('thaw');
}
