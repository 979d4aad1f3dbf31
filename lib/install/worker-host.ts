// Token of a worker on its disk: validation, location, and removal.
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { tokenAccount, workerAccount } from '../bootstrap-identity.ts';
import { ensurePrivateDirectory, replaceFile } from '../disk/files.ts';
import { RecoveryError } from '../errors.ts';
import { otherDistribution } from '../inventory/discover/other-distributions.ts';
import { isThere, namesIn, removeDirectory } from './existing-files.ts';
import { hostLayout, workerTokenFile } from './layout.ts';

/** Token in a text; `what` names the text in messages. Throws ConfigInvalid for the token of another account. */
export function workerToken(text: string, what: string): string {
  const token = text.trim();
  const refuse = (problem: string): RecoveryError =>
    new RecoveryError(
      'ConfigInvalid',
      `Cannot use the token in ${what}: ${problem}; init workers, on a control-plane node, prints the one for workers`,
    );
  if (token === '') throw refuse('there is none');
  const subject = tokenAccount(token);
  if (subject === undefined) throw refuse('it is no token of a ServiceAccount');
  // A compromised worker must not give away more than a worker's rights.
  if (!subject.startsWith('system:serviceaccount:') || !subject.endsWith(`:${workerAccount}`)) {
    throw refuse(`it is that of "${subject}", wanted ServiceAccount "${workerAccount}"`);
  }
  return token;
}

/** `directory`: holds all our files. Throws WriteFailed. */
export async function writeWorkerToken(token: string, directory: string): Promise<'written' | 'unchanged'> {
  const layout = hostLayout(directory);
  const path = workerTokenFile(layout);
  await ensurePrivateDirectory(layout.credentials);
  await ensurePrivateDirectory(dirname(path));
  return replaceFile({ path, content: token, mode: 0o600, what: 'token' });
}

/** Removed (with dryRun: to be removed) files and then empty directories. Throws ReadFailed, WriteFailed. */
export async function removeWorkerToken(directory: string, dryRun: boolean): Promise<readonly string[]> {
  const layout = hostLayout(directory);
  const own = join(layout.credentials, 'worker');
  if (!(await isThere(own, 'directory'))) return [];
  if (dryRun) return [own];
  await removeDirectory(own);
  for (const above of [layout.credentials, layout.directory]) {
    if ((await namesIn(above)).length > 0) break;
    await removeDirectory(above);
  }
  return [own];
}

type Directories = Record<'kubernetesDir' | 'pkiDir', string>;

/** Whether this machine has joined, and is neither a control plane nor an etcd-only machine. */
export function isWorker({ kubernetesDir, pkiDir }: Directories): boolean {
  const isOfEtcd = existsSync(join(kubernetesDir, 'manifests/etcd.yaml'));
  return hasKubelet(kubernetesDir) && !isOfEtcd && controlPlaneSign({ kubernetesDir, pkiDir }) === undefined;
}

const hasKubelet = (kubernetesDir: string): boolean => existsSync(join(kubernetesDir, 'kubelet.conf'));

/** Requires a kubeadm node; a user other than root may miss some of its signs. Throws PreconditionFailed. */
export function requireNode({ kubernetesDir, pkiDir }: Directories): void {
  const signs = ['manifests', 'kubelet.conf', 'controller-manager.conf', 'scheduler.conf'].map((name) =>
    join(kubernetesDir, name),
  );
  if (signs.some((path) => existsSync(path)) || controlPlaneSign({ kubernetesDir, pkiDir }) !== undefined) return;
  const message =
    `Cannot find a node of kubeadm on this machine: there is neither a control plane ("${signs[0]}") nor a worker ` +
    `("${signs[1]}"); say where the files are (--directory=kubernetesDir=...)${otherDistribution()}`;
  throw new RecoveryError('PreconditionFailed', message);
}

/** Path that only a control-plane node has, if present here: such a node makes its certificates itself. */
export function controlPlaneSign({ kubernetesDir, pkiDir }: Directories): string | undefined {
  const signs = [
    join(pkiDir, 'ca.key'),
    join(kubernetesDir, 'manifests/kube-apiserver.yaml'),
    join(pkiDir, 'apiserver.crt'),
  ];
  return signs.find((path) => existsSync(path));
}
