// The repair of one control-plane node: the built program, a tree of files as the real kubeadm makes it, from the start of
// the process to its end, as the kubelet waits for it.
import { cp, mkdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { KubeadmMachine } from '../../test/support/cluster/kubeadm-machine.ts';
import { leaves, past, reissueFiles, superAdmin } from '../../test/support/node/leaves.ts';
import { Tool } from '../../test/support/cluster/recovery-world.ts';
import { timeOf } from './probes.ts';
import type { Measured } from './table.ts';

const all = [...leaves, superAdmin];
const goals = { 'RSA-2048': '<= 1000', 'ECDSA-P256': '<= 400' } as const;
export const algorithms = ['RSA-2048', 'ECDSA-P256'] as const;

interface Run {
  readonly whole: number;
  /** From the first decision to the last write. */
  readonly working: number;
}

/** i: all leaves expired, and nothing to do. */
export async function repairs(count: number): Promise<Measured[]> {
  const measured: Measured[] = [];
  for (const algorithm of algorithms) {
    await using machine = await KubeadmMachine.create(`encryptionAlgorithm: ${algorithm}`);
    await joinCluster(machine);
    const healthy = await repeated(machine, { count, regenerated: 0 });
    await reissueFiles(machine.root, all, past(new Date()));
    const expired = await repeated(machine, { count, regenerated: all.length });
    const row = (what: string, values: number[], goal?: string): Measured => ({
      what: `${algorithm}: ${what}`,
      unit: 'ms',
      values,
      ...(goal !== undefined && { goal }),
    });
    measured.push(
      row(`repair of ${all.length} expired leaves, whole process`, whole(expired), goals[algorithm]),
      row(
        `repair of ${all.length} expired leaves, first decision to last write`,
        expired.map(({ working }) => working),
      ),
      row('healthy node, nothing to do, whole process', whole(healthy)),
    );
  }
  return measured;
}

const whole = (runs: readonly Run[]): number[] => runs.map((run) => run.whole);

/** What the kubelet does when it has its first certificate: kubelet.conf names the file behind a link. */
async function joinCluster(machine: KubeadmMachine): Promise<void> {
  const pki = join(machine.root, 'var/lib/kubelet/pki');
  await mkdir(pki, { recursive: true });
  const kubeconfig = machine.path('kubelet.conf');
  const text = await readFile(kubeconfig, 'utf8');
  const data = (name: string): string =>
    Buffer.from(new RegExp(`${name}: (\\S+)`).exec(text)?.[1] ?? '', 'base64').toString();
  const pem = data('client-certificate-data') + data('client-key-data');
  await writeFile(join(pki, 'kubelet-client-2026-01-01-00-00-00.pem'), pem, { mode: 0o600 });
  await symlink('kubelet-client-2026-01-01-00-00-00.pem', join(pki, 'kubelet-client-current.pem'));
  await machine.kubeadmDone('init', 'phase', 'kubelet-finalize', 'enable-client-cert-rotation');
  const referring = await readFile(kubeconfig, 'utf8');
  if (!referring.includes('/var/lib/kubelet/pki/')) throw new Error('kubelet.conf names no file');
  await writeFile(kubeconfig, referring.replaceAll('/var/lib/kubelet/pki', pki));
}

interface Repeated {
  readonly count: number;
  /** How many each run must have made. */
  readonly regenerated: number;
}

/** Runs on the same files again and again; one run is not counted. */
async function repeated(machine: KubeadmMachine, { count, regenerated }: Repeated): Promise<Run[]> {
  const { root } = machine;
  const kept = join(root, 'kept');
  const parts = ['etc', 'var'];
  await mkdir(kept);
  for (const part of parts) await cp(join(root, part), join(kept, part), copyOptions);
  const runs: Run[] = [];
  for (let n = -1; n < count; n += 1) {
    for (const part of [...parts, 'state']) await rm(join(root, part), { recursive: true, force: true });
    for (const part of parts) await cp(join(kept, part), join(root, part), copyOptions);
    const run = await repairOnce(machine, regenerated);
    if (n >= 0) runs.push(run);
  }
  for (const part of parts) {
    await rm(join(root, part), { recursive: true });
    await rename(join(kept, part), join(root, part));
  }
  await rm(kept, { recursive: true });
  return runs;
}

const copyOptions = { recursive: true, verbatimSymlinks: true, preserveTimestamps: true } as const;

async function repairOnce(machine: KubeadmMachine, regenerated: number): Promise<Run> {
  const config = join(machine.root, 'settings.json');
  const state = join(machine.root, 'state');
  await mkdir(join(state, 'lock'), { recursive: true });
  await writeFile(config, JSON.stringify(settings(machine, state)));
  const began = performance.now();
  const tool = new Tool(['--mode=regen', '--once', '--preset=kubeadm', `--config=${config}`]);
  const code = await tool.ended;
  const ended = performance.now();
  const made = tool.lines.filter(({ event }) => event === 'target.regenerated');
  if (code !== 0 || made.length !== regenerated) {
    const said = tool.lines.map(({ event, fields }) => `${event} ${JSON.stringify(fields)}`);
    throw new Error(`exit code ${code}, ${made.length} of ${regenerated} regenerated:\n${said.join('\n')}`);
  }
  const decided = tool.lines.filter(({ event }) => event === 'rotation.decided').map(timeOf);
  return { whole: ended - began, working: Math.max(...made.map(timeOf)) - Math.min(...decided) };
}

const settings = (machine: KubeadmMachine, state: string) => ({
  apiVersion: 'kube-cert-recovery/v1alpha1',
  kind: 'Configuration',
  directories: {
    kubernetesDir: machine.path(),
    pkiDir: machine.path('pki'),
    kubeletDir: join(machine.root, 'var/lib/kubelet'),
  },
  regen: { backupDir: join(state, 'backup'), lockDir: join(state, 'lock') },
});
