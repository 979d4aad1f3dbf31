// Discovery of a control plane of kubeadm on this machine. Impure: it reads files, and nothing else; kubeadm.ts
// interprets them. Never fails because of a file that is missing or broken: only a machine that is no control plane of
// kubeadm is refused (ConfigInvalid).
import { join } from 'node:path';
import { RecoveryError } from '../../errors.ts';
import { staticPods } from '../../components.ts';
import type { Environment } from '../resolve.ts';
import { readByAdopted, signingProblem, type FilesRead } from './adopted.ts';
import { hostPathOf } from './component-settings.ts';
import { flagsOf } from './documents.ts';
import { isOnMachine, type MachineFiles, readerBelow } from './machine-files.ts';
import type { SettingsHere } from './named-files.ts';
import type { StaticPods } from './pod-manifests.ts';
import { otherDistribution } from './other-distributions.ts';
import { isOfThisSystem, settingsHere } from './settings-here.ts';
import { isSignOfControlPlane } from './signs.ts';
import type { AddressWitnesses } from './address-witnesses.ts';
import { addressesHere, candidateAddresses, defaultAddress, type Addresses } from './machine-addresses.ts';
import { decideKubeadm, type KubeadmFiles, type KubeadmFindings, witnessesIn } from './kubeadm.ts';

/** `reads`: the files that flags of an adopted machine's components name, by component. */
export interface Discovery extends KubeadmFindings {
  readonly reads: FilesRead;
  /** Texts of its static pods, by component. */
  readonly manifests: StaticPods['manifests'];
  /** Manifests that start no pod, and manifests with a second one for the same pod that names other files. */
  readonly broken: StaticPods['unread'];
  /** Settings from manifests, units, configurations and processes. */
  readonly settings: SettingsHere;
  /** Components that do not run here: it is a machine of etcd alone. */
  readonly without: readonly string[];
  /** Directory shown by flags, else the requested one. */
  readonly pkiDir: string;
  readonly witnesses: AddressWitnesses;
}

/** The machine whose files are read: this one, or one below another root. */
export interface Machine {
  /** Default: `/`. */
  readonly root?: string;
  /** Addresses by the name of the interface. */
  readonly addresses?: () => Addresses;
}

interface KubeadmQuestion extends Machine {
  readonly directories: Readonly<Record<'kubernetesDir' | 'pkiDir' | 'kubeletDir', string>>;
  /** Values that the administrator has configured. */
  readonly given: Environment;
  /** Returns the directory of certificates shown by flags. */
  readonly shown?: (settings: SettingsHere) => string | undefined;
}

/** Returns kubeadm's own directories, unless different ones are known. */
export function directoriesOfKubeadm(known: Readonly<Record<string, string>>): KubeadmQuestion['directories'] {
  const { kubernetesDir = '/etc/kubernetes', kubeletDir = '/var/lib/kubelet' } = known;
  return { kubernetesDir, kubeletDir, pkiDir: known['pkiDir'] ?? join(kubernetesDir, 'pki') };
}

/** Discovers a control plane. Throws PreconditionFailed on a machine that is no control plane of kubeadm. */
export async function discoverKubeadm(question: KubeadmQuestion): Promise<Discovery> {
  const { directories, given, root = '/', addresses = addressesHere } = question;
  const { kubernetesDir, kubeletDir } = directories;
  // The CAs alone are no evidence: people copy them to a machine before `kubeadm join --control-plane`, which refuses
  // to join where it finds the files we would make.
  const manifest = join(kubernetesDir, 'manifests/kube-apiserver.yaml');
  const machineFiles = readerBelow(root);
  const { text, unread } = machineFiles;
  const { pods, settings } = await settingsHere({ kubernetesDir, kubeletDir, root }, machineFiles);
  const { manifests, unread: broken, notes: doubled } = pods;
  const pkiDir = question.shown?.(settings) ?? directories.pkiDir;
  const others = {
    'controller-manager.conf': await text(join(kubernetesDir, 'controller-manager.conf')),
    'scheduler.conf': await text(join(kubernetesDir, 'scheduler.conf')),
  };
  const apiServerManifest = manifests['kube-apiserver'];
  const signs = {
    ...others,
    manifest: apiServerManifest ?? (await text(manifest)),
    'apiserver.crt': await text(join(pkiDir, 'apiserver.crt')),
    'apiserver.key': await text(join(pkiDir, 'apiserver.key')),
  };
  // A file without read permission exists all the same.
  const isShut = unread.some((note) => /\b(EACCES|EPERM)\b/.test(note));
  const isControlPlane = isShut || isSignOfControlPlane(signs);
  // A machine of kubeadm's guide "Set up a High Availability etcd Cluster with kubeadm".
  if (!isControlPlane && manifests['etcd'] === undefined) {
    const message =
      `Cannot find a control plane of kubeadm on this machine: there is no "${manifest}" and nothing that only a ` +
      'control-plane node has, so nothing is here to be recovered; run this on a control-plane node after `kubeadm init` ' +
      `or \`kubeadm join\`, or say where the files are (directories.kubernetesDir)${otherDistribution(root)}`;
    throw new RecoveryError('PreconditionFailed', message);
  }
  const files = await textsOf({ directories: { ...directories, pkiDir }, manifests, settings, others, text });
  const etcdAuthority = join(pkiDir, 'etcd/ca.crt');
  const hasEtcdAuthority = await isOnMachine(join(root, etcdAuthority));
  const here = addresses();
  const address = defaultAddress((await text('/proc/net/route')) ?? '', here);
  const ownAddresses = Object.values(here).flat();
  const candidates = candidateAddresses(here);
  const kubelet = settings['kubelet']?.values;
  const sight = { files, etcdAuthority, hasEtcdAuthority, address, ownAddresses, candidates, kubelet };
  const discovery = decideKubeadm(sight, given);
  const reads = readByAdopted(manifests);
  const without = isControlPlane ? [] : [...staticPods, ...(files.kubeletKubeconfig === undefined ? ['kubelet'] : [])];
  const own = { reads, manifests, broken, settings, without, pkiDir, witnesses: witnessesIn(files, ownAddresses) };
  const doubt = await doubtOfAdopted({ reads, pkiDir, kubernetesDir, files, endpoints: discovery.endpoints, text });
  const found = { ...discovery, ...own, notes: [...unread, ...discovery.notes, ...doubled] };
  if (doubt === undefined) return found;
  return { ...found, lacks: given.lacks ?? [...found.lacks, 'trustedAuthority'], notes: [...found.notes, doubt] };
}

interface Adopted extends Pick<Discovery, 'reads' | 'pkiDir' | 'endpoints'> {
  readonly kubernetesDir: string;
  readonly files: KubeadmFiles;
  readonly text: MachineFiles['text'];
}

/** Returns why an adopted machine renews no certificate of its kubelet; undefined where it may. */
async function doubtOfAdopted(adopted: Adopted): Promise<string | undefined> {
  const { reads, pkiDir, kubernetesDir, files, endpoints, text } = adopted;
  const flags = reads['kube-apiserver'] && flagsOf(files.apiServerManifest ?? '', 'kube-apiserver');
  if (flags === undefined) return undefined;
  const authority = join(pkiDir, 'ca.crt');
  const problem = signingProblem({
    authority: await text(authority),
    clientAuthorities: await text(flags.get('client-ca-file') ?? authority),
    served: await text(flags.get('tls-cert-file') ?? join(pkiDir, 'apiserver.crt')),
    kubeletKubeconfig: files.kubeletKubeconfig,
    kubeconfigFile: join(kubernetesDir, 'kubelet.conf'),
    endpoints,
  });
  if (problem === undefined) return undefined;
  return `the kubelet's certificate is not renewed with "${authority}": ${problem}; the kubelet asks for one with bootstrap-kubelet.conf`;
}

interface Gathering {
  readonly directories: KubeadmQuestion['directories'];
  readonly manifests: StaticPods['manifests'];
  readonly settings: SettingsHere;
  /** Kubeconfigs of kube-controller-manager and kube-scheduler, as far as they have been read. */
  readonly others: Readonly<Record<string, string | undefined>>;
  readonly text: MachineFiles['text'];
}

async function textsOf({ directories, manifests, settings, others, text }: Gathering): Promise<KubeadmFiles> {
  const { kubernetesDir, pkiDir, kubeletDir } = directories;
  const conf = (name: string): Promise<string | undefined> => text(join(kubernetesDir, name));
  const told = (flag: string): string | undefined =>
    hostPathOf(settings['kubelet']?.values.get(flag)?.at(-1), settings['kubelet'] ?? { mounts: [] });
  const superAdminKubeconfig = await conf('super-admin.conf');
  return {
    apiServerManifest: manifests['kube-apiserver'],
    etcdManifest: manifests['etcd'],
    kubeletConfiguration: await text(told('config') ?? join(kubeletDir, 'config.yaml')),
    kubeletFlags: await text(join(kubeletDir, 'kubeadm-flags.env')),
    kubeletCertificate: await text(join(told('cert-dir') ?? join(kubeletDir, 'pki'), 'kubelet-client-current.pem')),
    kubeletKubeconfig: await text(told('kubeconfig') ?? join(kubernetesDir, 'kubelet.conf')),
    adminKubeconfig: await conf('admin.conf'),
    superAdminKubeconfig,
    otherKubeconfigs: [superAdminKubeconfig, ...Object.values(others)],
    // The name that the kubelet takes for itself, and the name at the last boot of the machine.
    hostname: (await text('/proc/sys/kernel/hostname')) ?? (await text('/etc/hostname')),
    staticHostname: isOfThisSystem(kubernetesDir) ? await text('/etc/hostname') : undefined,
    authorities: await text(join(pkiDir, 'ca.crt')),
    apiServerCertificate: await text(join(pkiDir, 'apiserver.crt')),
    etcdCertificates: [await text(join(pkiDir, 'etcd/server.crt')), await text(join(pkiDir, 'etcd/peer.crt'))],
  };
}
