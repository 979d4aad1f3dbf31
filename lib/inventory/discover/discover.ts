// Finds on this machine what its inventory cannot know and nobody has configured. Impure: it reads files, and nothing
// else; what they mean is decided in kubeadm.ts. Never fails because of a file that is missing or broken: only a machine
// that is no control plane of kubeadm is refused (ConfigInvalid).
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { RecoveryError } from '../../errors.ts';
import type { Inventory } from '../model.ts';
import { allDirectories } from '../located.ts';
import type { Environment } from '../resolve.ts';
import { readByAdopted, signingProblem, type FilesRead } from './adopted.ts';
import { flagsOf } from './documents.ts';
import { discoverEtcd } from './etcd-machine.ts';
import { isOnMachine, readerBelow } from './machine-files.ts';
import { movedPaths, namedFiles } from './named-files.ts';
import { readStaticPods } from './pod-manifests.ts';
import { isSignOfControlPlane } from './signs.ts';
import { decideKubeadm, type KubeadmFiles, type KubeadmFindings } from './kubeadm.ts';

/** `reads`: by component of an adopted machine, the files that its flags name. */
export interface Discovery extends KubeadmFindings {
  readonly reads: FilesRead;
  /** Of its static pods, by component. */
  readonly manifests: Readonly<Record<string, string | undefined>>;
}

/** Whose files are read: this machine's, or those below another root. */
interface Machine {
  /** Default: `/`. */
  readonly root?: string;
  /** Addresses by the name of the interface. */
  readonly addresses?: () => Readonly<Record<string, readonly string[]>>;
}

interface KubeadmQuestion extends Machine {
  readonly directories: Readonly<Record<'kubernetesDir' | 'pkiDir' | 'kubeletDir', string>>;
  /** What the administrator says. */
  readonly given: Environment;
  /** The place on this machine of a path that a flag names. Default: the same. */
  readonly moved?: (path: string) => string;
}

/**
 * The environment of an inventory: what was given, and what discovery adds where the inventory asks for it; `notes` say
 * in plain sentences what could not be read. Throws ConfigInvalid.
 */
export async function discoverEnvironment(
  inventory: Inventory,
  given: Environment,
  machine: Machine = {},
): Promise<{ readonly environment: Environment; readonly notes: readonly string[] }> {
  if (inventory.discover === 'etcd') return discoverEtcd(inventory, given, machine.root);
  if (inventory.discover !== 'kubeadm') return { environment: given, notes: [] };
  const directories = directoriesOfKubeadm(allDirectories(inventory, given.directories ?? {}));
  const moved = movedPaths(allDirectories(inventory, {}), allDirectories(inventory, given.directories ?? {}));
  const { parameters, endpoints, lacks, reads, manifests, notes } = await discoverKubeadm({
    ...machine,
    directories,
    given,
    moved,
  });
  // An inventory of your own may declare fewer.
  const declared = Object.entries(parameters).filter(
    ([name]) => Object.hasOwn(inventory.parameters, name) || Object.hasOwn(given.parameters ?? {}, name),
  );
  const files = namedFiles(inventory.files, manifests, moved);
  return { environment: { ...given, parameters: Object.fromEntries(declared), files, endpoints, lacks, reads }, notes };
}

/** Where kubeadm has its files, unless others are known. */
export function directoriesOfKubeadm(known: Readonly<Record<string, string>>): KubeadmQuestion['directories'] {
  const { kubernetesDir = '/etc/kubernetes', kubeletDir = '/var/lib/kubelet' } = known;
  return { kubernetesDir, kubeletDir, pkiDir: known['pkiDir'] ?? join(kubernetesDir, 'pki') };
}

/** Throws ConfigInvalid on a machine that is no control plane of kubeadm. */
export async function discoverKubeadm(question: KubeadmQuestion): Promise<Discovery> {
  const { directories, given, root = '/', addresses = ownAddresses, moved = (path) => path } = question;
  const { kubernetesDir, pkiDir, kubeletDir } = directories;
  // The CAs alone say nothing: people copy them to a machine before `kubeadm join --control-plane`, which refuses to join
  // where it finds what we would make.
  const manifest = join(kubernetesDir, 'manifests/kube-apiserver.yaml');
  const machineFiles = readerBelow(root);
  const { text, unread } = machineFiles;
  const conf = (name: string): Promise<string | undefined> => text(join(kubernetesDir, name));
  const own = {
    'controller-manager.conf': await conf('controller-manager.conf'),
    'scheduler.conf': await conf('scheduler.conf'),
  };
  const manifests = await readStaticPods(join(kubernetesDir, 'manifests'), machineFiles);
  const apiServerManifest = manifests['kube-apiserver'];
  const pki = (name: string): Promise<string | undefined> => text(join(pkiDir, name));
  const signs = {
    ...own,
    manifest: apiServerManifest ?? (await text(manifest)),
    'apiserver.crt': await pki('apiserver.crt'),
    'apiserver.key': await pki('apiserver.key'),
  };
  // What may not be looked at is there all the same.
  const isShut = unread.some((note) => /\b(EACCES|EPERM)\b/.test(note));
  if (!isShut && !isSignOfControlPlane(signs)) {
    const message =
      `Cannot find a control plane of kubeadm on this machine: there is no "${manifest}" and nothing that only a ` +
      'control-plane node has, so nothing is here to be recovered; run this on a control-plane node after `kubeadm init` ' +
      'or `kubeadm join`, or say where the files are (directories.kubernetesDir)';
    throw new RecoveryError('ConfigInvalid', message);
  }
  const kubeletKubeconfig = await conf('kubelet.conf');
  const clientAuthorities = flagsOf(apiServerManifest ?? '', 'kube-apiserver')?.get('client-ca-file');
  const authorityFiles = new Set([moved(clientAuthorities ?? join(pkiDir, 'ca.crt')), join(pkiDir, 'ca.crt')]);
  const authorities = await Promise.all([...authorityFiles].map(text));
  const files: KubeadmFiles = {
    apiServerManifest,
    etcdManifest: manifests['etcd'],
    kubeletConfiguration: await text(join(kubeletDir, 'config.yaml')),
    kubeletFlags: await text(join(kubeletDir, 'kubeadm-flags.env')),
    kubeletCertificate: await text(join(kubeletDir, 'pki/kubelet-client-current.pem')),
    kubeletKubeconfig,
    adminKubeconfig: await conf('admin.conf'),
    otherKubeconfigs: [await conf('super-admin.conf'), ...Object.values(own)],
    // What the kubelet takes for its name, and what it was at the last start of the machine.
    hostname: (await text('/proc/sys/kernel/hostname')) ?? (await text('/etc/hostname')),
    authorities: authorities.flatMap((pem) => pem ?? []).join('\n'),
  };
  const etcdAuthority = join(pkiDir, 'etcd/ca.crt');
  const hasEtcdAuthority = await isOnMachine(join(root, etcdAuthority));
  const address = defaultAddress((await text('/proc/net/route')) ?? '', addresses());
  const discovery = decideKubeadm({ files, etcdAuthority, hasEtcdAuthority, address }, given);
  const reads = readByAdopted(manifests);
  const authority = join(pkiDir, 'ca.crt');
  const flags = reads['kube-apiserver'] && flagsOf(apiServerManifest ?? '', 'kube-apiserver');
  const problem =
    flags &&
    signingProblem({
      authority: await text(authority),
      clientAuthorities: await text(flags.get('client-ca-file') ?? authority),
      served: await text(flags.get('tls-cert-file') ?? join(pkiDir, 'apiserver.crt')),
      kubeletKubeconfig,
      kubeconfigFile: join(kubernetesDir, 'kubelet.conf'),
      endpoints: discovery.endpoints,
    });
  const found = { ...discovery, reads, manifests, notes: [...unread, ...discovery.notes] };
  if (problem === undefined) return found;
  const note = `the kubelet's certificate is not renewed with "${authority}": ${problem}; the kubelet asks for one with bootstrap-kubelet.conf`;
  return { ...found, lacks: given.lacks ?? [...found.lacks, 'trustedAuthority'], notes: [...found.notes, note] };
}

function ownAddresses(): Record<string, string[]> {
  const all = Object.entries(networkInterfaces()).map(([name, list = []]): [string, string[]] => [
    name,
    list.filter(({ internal }) => !internal).map(({ address }) => address),
  ]);
  return Object.fromEntries(all);
}

/** As kubeadm chooses: the address of the interface that has the default route (/proc/net/route). */
function defaultAddress(routes: string, addresses: Readonly<Record<string, readonly string[]>>): string | undefined {
  const rows = routes.split('\n').map((line) => line.trim().split(/\s+/));
  const name = rows.find(([, destination]) => destination === '00000000')?.[0];
  return name === undefined ? undefined : addresses[name]?.find((address) => !address.startsWith('fe80:'));
}
