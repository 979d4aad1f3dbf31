// What a control plane of kubeadm on this machine says of itself. Impure: it reads files, and nothing else; what they mean is
// decided in kubeadm.ts. Never fails because of a file that is missing or broken: only a machine that is no control plane
// of kubeadm is refused (ConfigInvalid).
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { RecoveryError } from '../../errors.ts';
import { staticPods } from '../../components.ts';
import type { Environment } from '../resolve.ts';
import { readByAdopted, signingProblem, type FilesRead } from './adopted.ts';
import { readComponents } from './components-here.ts';
import { flagsOf } from './documents.ts';
import { isOnMachine, readerBelow } from './machine-files.ts';
import type { SettingsHere } from './named-files.ts';
import { readStaticPods, type StaticPods } from './pod-manifests.ts';
import { isSignOfControlPlane } from './signs.ts';
import { decideKubeadm, type KubeadmFiles, type KubeadmFindings } from './kubeadm.ts';

/** `reads`: by component of an adopted machine, the files that its flags name. */
export interface Discovery extends KubeadmFindings {
  readonly reads: FilesRead;
  /** Of its static pods, by component. */
  readonly manifests: StaticPods['manifests'];
  /** What each component is told, wherever that stands. */
  readonly settings: SettingsHere;
  /** Components that do not run here: it is a machine of etcd alone. */
  readonly without: readonly string[];
  /** As it is shown, else as it was asked for. */
  readonly pkiDir: string;
}

/** Whose files are read: this machine's, or those below another root. */
export interface Machine {
  /** Default: `/`. */
  readonly root?: string;
  /** Addresses by the name of the interface. */
  readonly addresses?: () => Readonly<Record<string, readonly string[]>>;
}

export interface KubeadmQuestion extends Machine {
  readonly directories: Readonly<Record<'kubernetesDir' | 'pkiDir' | 'kubeletDir', string>>;
  /** What the administrator says. */
  readonly given: Environment;
  /** The directory of certificates, as flags show it. */
  readonly shown?: (settings: SettingsHere) => string | undefined;
}

/** Where kubeadm has its files, unless others are known. */
export function directoriesOfKubeadm(known: Readonly<Record<string, string>>): KubeadmQuestion['directories'] {
  const { kubernetesDir = '/etc/kubernetes', kubeletDir = '/var/lib/kubelet' } = known;
  return { kubernetesDir, kubeletDir, pkiDir: known['pkiDir'] ?? join(kubernetesDir, 'pki') };
}

/** Throws ConfigInvalid on a machine that is no control plane of kubeadm. */
export async function discoverKubeadm(question: KubeadmQuestion): Promise<Discovery> {
  const { directories, given, root = '/', addresses = ownAddresses } = question;
  const { kubernetesDir, kubeletDir } = directories;
  // The CAs alone say nothing: people copy them to a machine before `kubeadm join --control-plane`, which refuses to join
  // where it finds what we would make.
  const manifest = join(kubernetesDir, 'manifests/kube-apiserver.yaml');
  const machineFiles = readerBelow(root);
  const { text, unread } = machineFiles;
  const { manifests, notes: doubled } = await readStaticPods(join(kubernetesDir, 'manifests'), machineFiles);
  const settings = await readComponents(machineFiles, {
    manifests,
    kubeletConfiguration: join(kubeletDir, 'config.yaml'),
    // Beside a machine whose files lie elsewhere run the components of another one.
    processes: kubernetesDir === directoriesOfKubeadm({}).kubernetesDir ? readerBelow(root) : undefined,
  });
  const pkiDir = question.shown?.(settings) ?? directories.pkiDir;
  const conf = (name: string): Promise<string | undefined> => text(join(kubernetesDir, name));
  const others = {
    'controller-manager.conf': await conf('controller-manager.conf'),
    'scheduler.conf': await conf('scheduler.conf'),
  };
  const apiServerManifest = manifests['kube-apiserver'];
  const signs = {
    ...others,
    manifest: apiServerManifest ?? (await text(manifest)),
    'apiserver.crt': await text(join(pkiDir, 'apiserver.crt')),
    'apiserver.key': await text(join(pkiDir, 'apiserver.key')),
  };
  // What may not be looked at is there all the same.
  const isShut = unread.some((note) => /\b(EACCES|EPERM)\b/.test(note));
  const isControlPlane = isShut || isSignOfControlPlane(signs);
  // As kubeadm's guide for an etcd of several machines makes them ("Set up a High Availability etcd Cluster with kubeadm").
  if (!isControlPlane && manifests['etcd'] === undefined) {
    const message =
      `Cannot find a control plane of kubeadm on this machine: there is no "${manifest}" and nothing that only a ` +
      'control-plane node has, so nothing is here to be recovered; run this on a control-plane node after `kubeadm init` ' +
      'or `kubeadm join`, or say where the files are (directories.kubernetesDir)';
    throw new RecoveryError('ConfigInvalid', message);
  }
  const kubeletKubeconfig = await conf('kubelet.conf');
  const files: KubeadmFiles = {
    apiServerManifest,
    etcdManifest: manifests['etcd'],
    kubeletConfiguration: await text(join(kubeletDir, 'config.yaml')),
    kubeletFlags: await text(join(kubeletDir, 'kubeadm-flags.env')),
    kubeletCertificate: await text(join(kubeletDir, 'pki/kubelet-client-current.pem')),
    kubeletKubeconfig,
    adminKubeconfig: await conf('admin.conf'),
    otherKubeconfigs: [await conf('super-admin.conf'), ...Object.values(others)],
    // What the kubelet takes for its name, and what it was at the last start of the machine.
    hostname: (await text('/proc/sys/kernel/hostname')) ?? (await text('/etc/hostname')),
    authorities: await text(join(pkiDir, 'ca.crt')),
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
  const without = isControlPlane ? [] : [...staticPods, ...(kubeletKubeconfig === undefined ? ['kubelet'] : [])];
  const own = { reads, manifests, settings, without, pkiDir };
  const found = { ...discovery, ...own, notes: [...unread, ...discovery.notes, ...doubled] };
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
