// `uninstall adopt`: the static pods of this machine read kubeadm's files again. The objects in the API stay for the
// other machines; `uninstall` removes them. Refused while kubeadm's own files have expired or their CA is no longer the
// cluster's: kubeadm's files were unused since the adoption, and an API server that reads them could serve no client.
import { join } from 'node:path';
import { replaceFile } from '../disk/files.ts';
import { isCode, RecoveryError } from '../errors.ts';
import type { Lock } from '../host/lock.ts';
import { staticPods } from '../components.ts';
import { fieldManager } from '../install/apply.ts';
import { namesIn, readIfPresent, removeDirectory, removeFile } from '../install/existing-files.ts';
import { adoptionFile } from '../install/layout.ts';
import { unanswered } from '../kube/api-error.ts';
import { readersOnHost, restartProcess } from '../restart/processes.ts';
import { createApiStore } from '../store/api-store.ts';
import { createDiskStore } from '../store/disk-store.ts';
import { locationText, type Material } from '../store/store.ts';
import { editYaml } from '../yaml.ts';
import { requireTrustInFiles } from './guard.ts';
import { isForPeople, leafOf, type MachineOptions, readAuthorities, sourceOf } from './kubeadm-files.ts';
import { withManifestsLock } from './manifests-lock.ts';
import { podLayout } from './pod-files.ts';
import { removeRecord } from './record.ts';
import { changeStaticPod } from './static-pods-apply.ts';
import { removeFrom } from './static-pods.ts';
import { nextCommand } from '../next-command.ts';

/** Throws MaterialInvalid when kubeadm's files cannot be used, AlreadyRunning, and errors of changing a static pod. */
export async function runUnadopt(options: MachineOptions): Promise<void> {
  const giveBack = async (lock?: Lock): Promise<void> => {
    await requireWayBack(options);
    await lock?.confirm();
    // Removed first: from here on no timer restores the additions, even when this run is killed.
    if (!options.dryRun) await removeRecord(options.directory);
    await giveBackPods(options, lock);
  };
  await (options.dryRun ? giveBack() : withManifestsLock(options, giveBack));
}

async function requireWayBack(options: MachineOptions): Promise<void> {
  await requireKubeadmFiles(options);
  try {
    await requireSameAuthorities(options);
  } catch (err) {
    if (!isCode(err, ...unanswered)) throw err;
    const record = adoptionFile(options.directory);
    const message = `Cannot give the static pods back to kubeadm's files: nobody tells whom the cluster trusts now (${err.message}). This machine stays adopted: run this again when the API server answers. To change its manifests by hand until then, remove "${record}" first, else the timer of "init host" adds our containers again`;
    throw new RecoveryError(err.code, message, { cause: err });
  }
}

async function giveBackPods(options: MachineOptions, lock: Lock | undefined): Promise<void> {
  const { connection, directory, kubernetesDir, nodeName, clock, signal, dryRun, print } = options;
  const done = dryRun ? 'Would change' : 'Changed';
  const machine = { api: { connection, signal }, kubernetesDir, nodeName, clock, print, lock };
  const bootstrap = join(kubernetesDir, 'bootstrap-kubelet.conf');
  // A kubeconfig that names our files is ours. It is removed last, so a killed run is completed by the next one.
  const isBegun = (await readIfPresent(bootstrap, 'kubeconfig'))?.includes(directory) === true;
  // Clients first: when kube-apiserver restarts they already have the files they need.
  for (const pod of staticPods.toReversed()) {
    const beforeWait = async (): Promise<void> => {
      if (pod === 'kube-apiserver' && (await giveBackKubelet(options, isBegun))) print('Restarted the kubelet');
    };
    const outcome = dryRun ? 'written' : await changeStaticPod(pod, removeFrom, { ...machine, beforeWait });
    if (outcome === 'written') print(`${done} static pod ${pod}`);
  }
  if (isBegun && !dryRun) await removeFile(bootstrap, 'kubeconfig');
  for (const path of [...staticPods.map((pod) => podLayout(directory, pod).directory), join(directory, 'patches')]) {
    if (!dryRun) await removeDirectory(path);
    print(`${dryRun ? 'Would remove' : 'Removed'} ${path}`);
  }
  if (!dryRun && (await namesIn(directory)).length === 0) await removeDirectory(directory);
}

async function requireKubeadmFiles({ resolved, clock, signal, ...directories }: MachineOptions): Promise<void> {
  const store = createDiskStore();
  const bad: string[] = [];
  for (const artefact of resolved.artefacts) {
    const source = artefact.kind === 'target' ? sourceOf(artefact, directories) : undefined;
    if (source === undefined) continue;
    const found = await store.read(source, signal);
    if (found === undefined && isForPeople(artefact)) continue;
    const leaf = leafOf(found);
    if (leaf === undefined || leaf.facts.notAfter <= clock.now()) bad.push(locationText(source));
  }
  if (bad.length === 0) return;
  const message = `Cannot give the static pods back to kubeadm's files: ${bad.join(', ')} cannot be used or has expired; run "${nextCommand('', { '--mode': 'regen', '--once': true, '--preset': 'kubeadm' })}", then this again`;
  throw new RecoveryError('MaterialInvalid', message);
}

async function requireSameAuthorities({ connection, resolved, pkiDir, clock, signal }: MachineOptions): Promise<void> {
  const store = createApiStore({ connection, fieldManager });
  const material = new Map<string, Material>();
  for (const { name, location } of resolved.artefacts.filter(({ givenBackTo }) => givenBackTo !== undefined)) {
    const found = await store.read(location, signal);
    if (found !== undefined) material.set(name, found);
  }
  requireTrustInFiles(resolved, material, await readAuthorities(resolved, pkiDir), clock.now());
}

// A kubelet that requested a certificate with our bootstrap kubeconfig verifies its API server by our bundle, and its
// process requests the recovery name until it terminates (cmd/kubelet/app/server.go, buildKubeletClientConfig). Both
// must be replaced before our files and that name are removed.

interface Clusters {
  readonly clusters?: readonly { readonly cluster?: { readonly 'certificate-authority'?: string } }[];
}

/**
 * Replaces our bundle with kubeadm's CA. `isBegun`: the process may still request the recovery name although its
 * kubeconfig is right. Returns whether anything had to be done. Throws ReadFailed, WriteFailed, MaterialInvalid.
 */
async function giveBackKubelet(machine: MachineOptions, isBegun: boolean): Promise<boolean> {
  const kubeconfig = join(machine.kubernetesDir, 'kubelet.conf');
  const bytes = await readIfPresent(kubeconfig, 'kubeconfig');
  const edit = editYaml(bytes?.toString('utf8') ?? '');
  const ours = ((edit.value as Clusters | null)?.clusters ?? []).flatMap(({ cluster }, at) =>
    cluster?.['certificate-authority']?.startsWith(`${machine.directory}/`) === true ? [at] : [],
  );
  if (ours.length === 0 && !isBegun) return false;
  const authority = join(machine.pkiDir, 'ca.crt');
  for (const at of ours) edit.set(['clusters', at, 'cluster', 'certificate-authority'], authority);
  if (ours.length > 0) await replaceFile({ path: kubeconfig, content: edit.text(), mode: 0o600, what: 'kubeconfig' });
  const kubelet = { name: 'kubelet', file: kubeconfig, isService: false } as const;
  for (const reader of readersOnHost(kubelet)) {
    await restartProcess(kubelet, reader, machine);
  }
  return true;
}
