// `init adopt`: moves a control-plane machine of a kubeadm cluster to certificate files that follow objects in the API.
// Run on one machine after the other, the API stays up where there are several:
//
//  1. RBAC, identities, tokens          4. the kubelet's way back: a bootstrap kubeconfig
//  2. the objects (see below)           5. patches for kubeadm, which rewrites manifests
//  3. the files of the three pods       6. the manifests: kube-apiserver, then its clients
//
// Absent objects are created, and an existing serving certificate gets the names of this machine, too. Every file
// exists before a component reads it. Running it again changes nothing that is already right, completes a killed
// run, and corrects the manifests after `kubeadm upgrade`.
import { join } from 'node:path';
import { replaceFile } from '../disk/files.ts';
import { isCode, RecoveryError } from '../errors.ts';
import type { Lock } from '../host/lock.ts';
import { type StaticPod, staticPods } from '../components.ts';
import { defaultNamespace, podContainers } from '../install/accounts.ts';
import { type Api, applyManifest, fieldManager, type Manifest, manifestText } from '../install/apply.ts';
import { containerLabel, requireImage } from '../install/container.ts';
import { kubeconfigAuthority, kubeconfigYaml } from '../install/component-flags.ts';
import { readToken } from '../install/mode-credentials.ts';
import { readIfPresent } from '../install/existing-files.ts';
import { recordToCome } from '../install/install-record.ts';
import { formerManifest } from '../install/layout.ts';
import { installManifests, podSyncers, type RbacOptions } from '../install/rbac.ts';
import type { ApproverGrant } from '../install/rules.ts';
import { readBy } from '../inventory/component-view.ts';
import { isFile } from '../inventory/places.ts';
import { createApiStore } from '../store/api-store.ts';
import type { Material, Store } from '../store/store.ts';
import { findWebhooks } from '../webhooks/find.ts';
import type { WebhookFinding } from '../webhooks/intercepting.ts';
import { toYaml } from '../yaml.ts';
import { requireAdoptableInventory, requireKubeadmFlags, requireOwnAddresses, requireSameTrust } from './guard.ts';
import { asPresent, type MachineOptions, readAuthorities } from './kubeadm-files.ts';
import { forgetFailures, withManifestsLock } from './manifests-lock.ts';
import { absentIn, bundlesOf, completeNames, createObjects, takeStock } from './first-objects.ts';
import { podAddition, podLayout, requireNoPodLinks, writePodFiles } from './pod-files.ts';
import { readRecord, writeRecord } from './record.ts';
import { changeStaticPod, manifestPath, podManifest, readManifest, runsOurs } from './static-pods-apply.ts';
import { addTo, kubeadmPatches, type PodAddition, removeFrom } from './static-pods.ts';

export interface AdoptOptions extends MachineOptions {
  readonly kubeletDir: string;
  readonly image: string;
  /** Namespace of the ServiceAccounts. */
  readonly namespace?: string | undefined;
  /** API server on this machine, for clients on the same machine. */
  readonly server: string;
  /**
   * API server for the kubelet, which after its first certificate no longer requests the recovery name: an address in
   * the API server's own certificate.
   */
  readonly kubeletServer: string;
  readonly recoveryServerName: string;
  readonly settings: Readonly<Record<string, unknown>>;
  /** Kinds of requests that the approver approves. */
  readonly approver: ApproverGrant;
  readonly policy?: RbacOptions['policy'];
}

/** Work to do on this machine. `resolved`: only artefacts in the API, with names and subjects of this machine. */
interface Adoption extends AdoptOptions {
  readonly namespace: string;
  readonly api: Api;
  readonly store: Store;
  readonly nodeCertificate: string;
  readonly rights: readonly Manifest[];
  readonly additions: readonly PodAddition[];
}

/**
 * Returns webhooks that could intercept requests for the objects. Throws ConfigInvalid, the API's refusals, WriteFailed,
 * ReadFailed, MaterialInvalid, ProofFailed: each names what to do.
 */
export async function runAdopt(options: AdoptOptions): Promise<readonly WebhookFinding[]> {
  requireOwnAddresses(options.settings);
  const adopt = async (lock?: Lock): Promise<readonly WebhookFinding[]> => {
    const adoption = await planAdoption(options);
    const webhooks = await findWebhooks(adoption);
    const adoptable = await requireAdoptable(adoption);
    await requireImage(options);
    if (options.dryRun) await printPlan(adoption, adoptable);
    else {
      await applyRights(adoption, adoptable);
      const material = await adoptObjects(adoption);
      await lock?.confirm();
      await writeMachine(adoption, material, adoptable);
      await changeStaticPods({ ...adoption, lock });
    }
    return webhooks;
  };
  // The plan stays valid until it is carried out: the lock keeps the timer from adding our containers until then.
  return options.dryRun ? adopt() : withManifestsLock(options, adopt);
}

/** Writes nothing. */
async function planAdoption(options: AdoptOptions): Promise<Adoption> {
  const { connection, signal, directory, kubeletDir, image, namespace = defaultNamespace, approver, policy } = options;
  const inApi = options.resolved.artefacts.filter(({ location }) => !isFile(location));
  const resolved = await asPresent({ ...options.resolved, artefacts: inApi }, options, signal);
  const { artefacts } = resolved;
  const kubeletPki = join(kubeletDir, 'pki');
  const seLinux = await containerLabel();
  return {
    ...options,
    resolved,
    namespace,
    api: { connection, signal },
    store: createApiStore({ connection, fieldManager }),
    nodeCertificate: join(kubeletPki, 'kubelet-client-current.pem'),
    rights: installManifests({ artefacts, namespace, syncers: podSyncers(resolved), approver, policy }),
    additions: staticPods.map((pod) => podAddition(pod, { resolved, directory, image, kubeletPki, seLinux })),
  };
}

interface Adoptable {
  /** Pods in which our container runs. */
  readonly running: ReadonlySet<StaticPod>;
  /** The rights, and the record of objects to create. */
  readonly manifests: readonly Manifest[];
}

/** Checks first whatever could stop the adoption later. */
async function requireAdoptable(adoption: Adoption): Promise<Adoptable> {
  const { api, rights, resolved, nodeCertificate } = adoption;
  requireAdoptableInventory(resolved, adoption.additions);
  bootstrapAuthority(adoption);
  const running = new Set<StaticPod>();
  for (const pod of staticPods) {
    const manifest = await readManifest(manifestPath(adoption, pod), pod);
    requireKubeadmFlags(removeFrom(manifest), pod, adoption);
    if (runsOurs(manifest)) running.add(pod);
    await requireNoPodLinks(pod, adoption);
  }
  if ((await readIfPresent(nodeCertificate, 'certificate')) === undefined) {
    const message = `Cannot adopt this machine: "${nodeCertificate}" is not there, and the approver would take that for a certificate that has expired; have kubelet.conf name it (kubeadm init phase kubelet-finalize)`;
    throw new RecoveryError('MaterialInvalid', message);
  }
  const stock = await takeStock(adoption);
  await requireTrustOfToday(await bundlesOf(stock, adoption), adoption);
  const absent = absentIn(stock, resolved);
  return { running, manifests: [...rights, await recordToCome(api, { ...adoption, absent })] };
}

async function printPlan(adoption: Adoption, { manifests }: Adoptable): Promise<void> {
  const { additions, print } = adoption;
  for (const manifest of manifests) print(`---\n${toYaml(manifest)}`.trimEnd());
  for (const addition of additions) {
    const path = manifestPath(adoption, addition.pod);
    print(`--- # ${path}\n${toYaml(addTo(await readManifest(path, addition.pod), addition))}`.trimEnd());
  }
}

async function applyRights({ api, print }: Adoption, { manifests }: Adoptable): Promise<void> {
  let changed = 0;
  for (const manifest of manifests) {
    const outcome = await applyManifest(api, manifest);
    if (outcome !== 'unchanged') changed += 1;
    if (outcome === 'updated') print(`Updated ${manifestText(manifest)}`);
  }
  print(`Identities and their rights: ${changed === 0 ? 'as they should be' : `${changed} objects applied`}`);
}

/** Material by artefact, as the API holds it afterwards. */
async function adoptObjects(adoption: Adoption): Promise<ReadonlyMap<string, Material>> {
  const material = await completeNames(await createObjects(adoption), adoption);
  // Checked again: another machine may have created an object first, and this machine is about to trust it.
  await requireTrustOfToday(material, adoption);
  return material;
}

async function requireTrustOfToday(
  material: ReadonlyMap<string, Material>,
  { resolved, pkiDir, clock }: Adoption,
): Promise<void> {
  requireSameTrust(resolved, material, await readAuthorities(resolved, pkiDir), clock.now());
}

/** Writes all files but the manifests. */
async function writeMachine(
  adoption: Adoption,
  material: ReadonlyMap<string, Material>,
  { running }: Adoptable,
): Promise<void> {
  const { directory, additions, print } = adoption;
  for (const pod of staticPods) {
    const written = await writePodFiles(pod, { ...adoption, material, running });
    if (written.length > 0) print(`Wrote ${written.length} files and directories below ${join(directory, pod)}`);
  }
  await writeBootstrapKubeconfig(adoption);
  const patches = join(directory, 'patches');
  for (const [name, patch] of additions.flatMap((addition) => Object.entries(kubeadmPatches(addition)))) {
    await replaceFile({ path: join(patches, name), content: toYaml(patch), mode: 0o644, what: 'patch' });
  }
}

/** The kubelet requests a certificate with this kubeconfig when its own has expired. */
async function writeBootstrapKubeconfig(adoption: Adoption): Promise<void> {
  const { kubernetesDir, directory, print } = adoption;
  const path = join(kubernetesDir, 'bootstrap-kubelet.conf');
  const user = { name: 'kubelet-bootstrap', token: (await readToken('node-bootstrapper', adoption)).token };
  const { kubeletServer: server, recoveryServerName: tlsServerName } = adoption;
  const certificateAuthority = bootstrapAuthority(adoption);
  const content = kubeconfigYaml({ server, certificateAuthority, tlsServerName, user });
  const former = await readIfPresent(path, 'kubeconfig');
  if (former !== undefined && !former.includes(directory)) {
    const kept = join(directory, 'bootstrap-kubelet.conf.former');
    await replaceFile({ path: kept, content: former, mode: 0o600, what: 'kubeconfig' });
    print(`Kept the former ${path} as ${kept}`);
  }
  if ((await replaceFile({ path, content, mode: 0o600, what: 'kubeconfig' })) === 'written') print(`Wrote ${path}`);
}

/** One pod at a time: each runs before the next one is changed. */
async function changeStaticPods(adoption: Adoption & { readonly lock: Lock | undefined }): Promise<void> {
  const { additions, directory, print } = adoption;
  let recorded = await recordedAdditions(directory);
  for (const addition of additions) {
    await keepFormer(addition, adoption);
    const outcome = await changeStaticPod(addition.pod, (before) => addTo(before, addition), adoption);
    // The timer repairs every pod from the record, so a run that stops here must not leave the former addition in it.
    const known = new Map(recorded.map((former) => [former.pod, former])).set(addition.pod, addition);
    recorded = staticPods.flatMap((pod) => known.get(pod) ?? []);
    await writeRecord(directory, { ...adoption, additions: recorded });
    print(`Static pod ${addition.pod}: ${outcome === 'written' ? 'changed, and runs' : 'runs, as it should be'}`);
    await forgetFailures(adoption.lockDir, [addition.pod]);
  }
}

/** Backup for the administrator: a run that is killed before the pod runs cannot restore the manifest itself. */
async function keepFormer({ pod, layout }: PodAddition, adoption: Adoption): Promise<void> {
  const path = manifestPath(adoption, pod);
  const content = await readIfPresent(path, 'manifest');
  if (content === undefined || runsOurs(podManifest(content, pod, path))) return;
  await replaceFile({ path: formerManifest(layout), content, mode: 0o600, what: 'manifest' });
}

/** Empty on a machine that is not adopted and where the record is invalid: no repair uses that one. */
async function recordedAdditions(directory: string): Promise<readonly PodAddition[]> {
  try {
    return (await readRecord(directory))?.additions ?? [];
  } catch (err) {
    if (isCode(err, 'MaterialInvalid')) return [];
    throw err;
  }
}

function bootstrapAuthority({ directory, resolved }: Adoption): string {
  // The kubelet.conf that the kubelet writes afterwards names this file as its CA but sets no tls-server-name: the file
  // must hold both the CA of the recovery name and the CA of the API server's own certificate.
  const seen = readBy(resolved, podContainers['kube-apiserver'].components);
  const certificateAuthority = kubeconfigAuthority(resolved, seen, podLayout(directory, 'kube-apiserver'));
  if (certificateAuthority !== undefined) return certificateAuthority;
  const message = `Cannot write the bootstrap kubeconfig of the kubelet: no bundle that a reader's "kubeconfig" names as its authority is published beside kube-apiserver; name "kubelet" among the readers of that bundle`;
  throw new RecoveryError('InventoryInvalid', message);
}
