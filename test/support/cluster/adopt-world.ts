// A machine of kubeadm as files, and the options with which it is adopted by the API of a test control plane.
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { AdoptOptions } from '../../../lib/adopt/adopt.ts';
import { servedNames } from '../../../lib/adopt/kubeadm-files.ts';
import { systemClock } from '../../../lib/clock.ts';
import { staticPods } from '../../../lib/components.ts';
import { loadPreset } from '../../../lib/inventory/preset.ts';
import { resolve } from '../../../lib/inventory/resolve.ts';
import type { KubeConnection } from '../../../lib/kube/kube.ts';
import { advertiseAddress, type KubeadmMachine } from './kubeadm-machine.ts';

/** Makes what a kubelet has besides, and lets the manifests name the files where this machine has them. */
export async function asAdoptable(machine: KubeadmMachine): Promise<KubeadmMachine> {
  const kubelet = join(machine.root, 'var/lib/kubelet/pki');
  await mkdir(kubelet, { recursive: true });
  await writeFile(join(kubelet, 'kubelet-client-current.pem'), 'a certificate');
  for (const pod of staticPods) {
    const path = machine.path('manifests', `${pod}.yaml`);
    const text = await readFile(path, 'utf8');
    await writeFile(path, text.replaceAll(/(?<=[=:] ?)\/etc\/kubernetes/g, machine.path()), { mode: 0o600 });
  }
  return machine;
}

/** Another control plane of the same cluster, with a serving certificate of its own. */
export async function joined(first: KubeadmMachine, name: string, address: string): Promise<KubeadmMachine> {
  const machine = await first.copy();
  const config = join(machine.root, 'config.yaml');
  const text = await readFile(config, 'utf8');
  await writeFile(config, text.replaceAll(advertiseAddress, address).replace('name: node1', `name: ${name}`));
  for (const file of ['apiserver.crt', 'apiserver.key']) await rm(machine.path('pki', file));
  await machine.kubeadmDone('init', 'phase', 'certs', 'apiserver');
  return machine;
}

export interface Adopting {
  readonly connection: KubeConnection;
  readonly nodeName?: string;
  readonly server?: string;
  readonly signal: AbortSignal;
  readonly print?: (line: string) => void;
}

/** The container runtime of the machine that runs the tests is not asked, if it has one. */
async function hideRuntime(machine: KubeadmMachine): Promise<void> {
  const bin = join(machine.root, 'bin');
  const path = process.env['PATH'] ?? '';
  if (path.startsWith(`${bin}:`)) return;
  await mkdir(bin, { recursive: true });
  await writeFile(join(bin, 'crictl'), '#!/bin/sh\nexit 1\n', { mode: 0o755 });
  process.env['PATH'] = `${bin}:${path}`;
}

/** What `init adopt` finds on this machine. */
export async function adoptOptions(machine: KubeadmMachine, adopting: Adopting): Promise<AdoptOptions> {
  const { nodeName = 'node1', server = 'https://127.0.0.1:6443', print = () => undefined } = adopting;
  const parameters = { apiServerHostnames: await servedNames(machine.path('pki')) };
  await hideRuntime(machine);
  return {
    ...adopting,
    print,
    nodeName,
    server,
    kubeletServer: server,
    resolved: resolve(loadPreset('kubernetes'), { parameters, directories: { pkiDir: machine.path('pki') } }),
    directory: machine.path('kube-cert-recovery'),
    kubernetesDir: machine.path(),
    pkiDir: machine.path('pki'),
    kubeletDir: join(machine.root, 'var/lib/kubelet'),
    image: 'example.com/recovery:1',
    recoveryServerName: 'localhost-recovery',
    approver: { signers: ['kubelet-client'], addresses: [] },
    settings: { preset: 'kubernetes', parameters },
    lockDir: join(machine.root, 'run'),
    // Other tests on this machine may run a kubeadm.
    refuseBesideOthers: () => undefined,
    clock: systemClock,
    dryRun: false,
  };
}
