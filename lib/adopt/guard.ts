// Preconditions for changing the static pods of a machine: no client may lose a trust or a setting that works today.
// Pure.
import { basename, join } from 'node:path';
import { flagsIn } from '../command-flags.ts';
import { RecoveryError } from '../errors.ts';
import { controlPlane, type StaticPod } from '../components.ts';
import type { Resolved } from '../inventory/model.ts';
import { type Certificate, wholeCertificates } from '../pki/certificate.ts';
import { type Material } from '../store/store.ts';
import { bundlesWith, type KubeadmDirectories } from './kubeadm-files.ts';
import type { PodAddition, PodManifest } from './static-pods.ts';
import { caBundleKey } from '../inventory/content.ts';
import { nextCommand } from '../next-command.ts';
import { type Problem, problemsError } from '../problems.ts';
import { isMapping } from '../yaml.ts';

/**
 * Throws InventoryInvalid when an inventory lacks the fields that an adoption is checked by: without them existing keys
 * would be replaced, or a trust of today be lost unnoticed.
 */
export function requireAdoptableInventory(
  resolved: Pick<Resolved, 'name' | 'artefacts'>,
  additions: readonly Pick<PodAddition, 'pod' | 'flags'>[],
): void {
  const keys = resolved.artefacts.filter(({ kind, adoptedFrom }) => kind === 'keyPair' && adoptedFrom === undefined);
  const unchecked = (['adoptedFrom', 'givenBackTo'] as const).filter((one) => bundlesWith(resolved, one).length === 0);
  const idle = additions.filter(({ flags }) => Object.keys(flags).length === 0);
  const problems = [
    ...keys.map(({ name }) => `"${name}" has no "adoptedFrom": a new key would make every token invalid`),
    ...unchecked.map((field) => `no bundle has "${field}": nothing shows that the trust of today is kept`),
    ...idle.map(({ pod }) => `no artefact has "flags" of ${pod}: it would go on with the files of kubeadm`),
  ];
  if (problems.length === 0) return;
  const message = `Cannot adopt a machine by inventory "${resolved.name}": ${problems.join('; ')}`;
  throw new RecoveryError('InventoryInvalid', message);
}

/**
 * Throws ConfigInvalid for an address that the containers of all pods would share, on the network of their host: the
 * first would have it, and the others wait for it for ever. The pods do not mount the certificate of its server either.
 */
export function requireOwnAddresses({ metrics }: Readonly<Record<string, unknown>>): void {
  if (!isMapping(metrics) || metrics['bindAddress'] === undefined) return;
  const message =
    'must be left out: the containers of three static pods would share it; for metrics of this machine over the network: ' +
    `${nextCommand('init host')} --metrics-file=FILE`;
  const problem: Problem = { path: 'metrics.bindAddress', kind: 'conflict', message };
  throw problemsError('ConfigInvalid', 'Cannot adopt this machine', [problem]);
}

/** Throws MaterialInvalid when a CA that this machine trusts today would lose that trust. */
export function requireSameTrust(
  resolved: Pick<Resolved, 'artefacts'>,
  material: ReadonlyMap<string, Material>,
  authorities: ReadonlyMap<string, Uint8Array>,
  now: Date,
): void {
  for (const { name: artefact, file } of bundlesWith(resolved, 'adoptedFrom')) {
    const lost = validAndNotIn(authorities.get(file), material.get(artefact)?.entries[caBundleKey], now);
    if (lost.length === 0) continue;
    const names = lost.map(({ facts }) => `"${facts.subject}"`).join(', ');
    const message = `Cannot adopt this machine: ConfigMap "${artefact}" in the API would not hold ${names} of "${file}", whom it trusts today; finish a rotation of the CA first, or delete what an earlier installation has left (uninstall --purge)`;
    throw new RecoveryError('MaterialInvalid', message);
  }
}

/** Valid certificates of a bundle that `other` lacks; an absent bundle is empty. */
function validAndNotIn(bundle: Uint8Array | undefined, other: Uint8Array | undefined, now: Date): Certificate[] {
  const [own, others] = [bundle, other].map((pem) => wholeCertificates(pem));
  const prints = new Set(others?.map(({ facts }) => facts.fingerprint));
  return own?.filter(({ facts }) => facts.notAfter > now && !prints.has(facts.fingerprint)) ?? [];
}

/**
 * Throws MaterialInvalid when kubeadm's files lack a CA that the cluster trusts now: the CA was replaced after the
 * adoption, and clients that hold a certificate of the new CA, or trust only that CA, would be cut off.
 */
export function requireTrustInFiles(
  resolved: Pick<Resolved, 'artefacts'>,
  material: ReadonlyMap<string, Material>,
  authorities: ReadonlyMap<string, Uint8Array>,
  now: Date,
): void {
  const bundles = bundlesWith(resolved, 'givenBackTo');
  if (bundles.length === 0) {
    const message = `Cannot give the static pods back to kubeadm's files: no bundle of the inventory has "givenBackTo", so nothing shows that the trust of today is kept`;
    throw new RecoveryError('InventoryInvalid', message);
  }
  for (const { name: artefact, file } of bundles) {
    const lost = validAndNotIn(material.get(artefact)?.entries[caBundleKey], authorities.get(file), now);
    if (lost.length === 0) continue;
    const names = lost.map(({ facts }) => `"${facts.subject}" (until ${facts.notAfter.toISOString()})`).join(', ');
    const state = `"${file}" lacks ${names}, whom the cluster trusts now (ConfigMap "${artefact}")`;
    const message = `Cannot give the static pods back to kubeadm's files: ${state}; whoever has a certificate of it would be cut off. Leave this machine adopted, or replace kubeadm's CA first: its certificate and key are in the Secret of its signer; then run "${nextCommand('', { '--mode': 'regen', '--once': true, '--preset': 'kubeadm' })}", what that names, and this again`;
    throw new RecoveryError('MaterialInvalid', message);
  }
}

/** Files below pkiDir that kubeadm passes to the flags that ours replace. */
const kubeadmFiles: Readonly<Record<string, string>> = {
  'client-ca-file': 'ca.crt',
  'tls-cert-file': 'apiserver.crt',
  'tls-private-key-file': 'apiserver.key',
  'kubelet-client-certificate': 'apiserver-kubelet-client.crt',
  'kubelet-client-key': 'apiserver-kubelet-client.key',
  'proxy-client-cert-file': 'front-proxy-client.crt',
  'proxy-client-key-file': 'front-proxy-client.key',
  'requestheader-client-ca-file': 'front-proxy-ca.crt',
  'service-account-key-file': 'sa.pub',
  'service-account-signing-key-file': 'sa.key',
  'cluster-signing-cert-file': 'ca.crt',
  'cluster-signing-key-file': 'ca.key',
  'root-ca-file': 'ca.crt',
  'service-account-private-key-file': 'sa.key',
};
const kubeconfigFlags = ['kubeconfig', 'authentication-kubeconfig', 'authorization-kubeconfig'];

function expectedFile(pod: StaticPod, flag: string, directories: KubeadmDirectories): string | undefined {
  const { kubeconfig } = controlPlane[pod];
  if (kubeconfig !== undefined && kubeconfigFlags.includes(flag)) return join(directories.kubernetesDir, kubeconfig);
  const file = kubeadmFiles[flag];
  return file === undefined ? undefined : join(directories.pkiDir, file);
}

/**
 * Throws MaterialInvalid when the component was given another file than kubeadm's: ours would replace it without
 * knowing its content. `manifest`: without our additions.
 */
export function requireKubeadmFlags(manifest: PodManifest, pod: StaticPod, directories: KubeadmDirectories): void {
  const container = manifest.spec.containers.find(({ name }) => name === pod);
  const words = [...(container?.command ?? []), ...(container?.args ?? [])];
  const refuse = (problem: string, wanted: string): never => {
    const message = `Cannot change static pod "${pod}": ${problem}; ${wanted}`;
    throw new RecoveryError('MaterialInvalid', message);
  };
  if (basename(words[0] ?? '') !== pod) refuse(`its command is "${words[0] ?? ''}"`, `the program ${pod} is wanted`);
  for (const { name: flag, value = '' } of flagsIn(words.slice(1))) {
    const expected = expectedFile(pod, flag, directories);
    if (expected !== undefined && value !== expected) {
      refuse(
        `--${flag} names "${value}", not kubeadm's "${expected}"`,
        'put what it holds there, or leave this pod alone',
      );
    }
    if (flag === 'tls-sni-cert-key') refuse('it has a --tls-sni-cert-key of its own', 'take it away first');
    if (pod === 'kube-apiserver' && flag === 'bind-address' && !['0.0.0.0', '::'].includes(value)) {
      refuse(`--bind-address=${value} keeps it from the loopback address`, 'take it away first');
    }
  }
}
