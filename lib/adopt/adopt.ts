// `init adopt`: a control-plane machine of a kubeadm cluster comes to read its certificates from files that follow
// objects in the API. Run on one machine after the other, the API stays up where there are several:
//
//  1. RBAC, identities, tokens          4. the kubelet's way back: a bootstrap kubeconfig
//  2. the objects (see below)           5. patches for kubeadm, which rewrites manifests
//  3. the files of the three pods       6. the manifests: kube-apiserver, then its clients
//
// Objects are made where they are absent, and a serving certificate that is there gets the names of this machine, too.
// Everything is there before a component reads it. Run again, it changes nothing that is as it should be, completes what
// a killed run began, and puts the manifests right after `kubeadm upgrade`.
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
import { installManifests, podSyncers } from '../install/rbac.ts';
import type { ApproverGrant } from '../install/rules.ts';
import { readBy } from '../inventory/resolve.ts';
import { isFile } from '../inventory/places.ts';
import { createApiStore } from '../store/api-store.ts';
import type { Material, Store } from '../store/store.ts';
import { findWebhooks } from '../webhooks/find.ts';
import type { WebhookFinding } from '../webhooks/intercepting.ts';
import { toYaml } from '../yaml.ts';
import { requireAdoptableInventory, requireKubeadmFlags, requireSameTrust } from './guard.ts';
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
  /** Of the ServiceAccounts. */
  readonly namespace?: string | undefined;
  /** The API server on this machine, for clients beside it. */
  readonly server: string;
  /**
   * The same for the kubelet, which after its first certificate asks for no name of ours any more: an address that the
   * API server's own certificate holds.
   */
  readonly kubeletServer: string;
  readonly recoveryServerName: string;
  readonly settings: Readonly<Record<string, unknown>>;
  /** What the approver is told to approve. */
  readonly approver: ApproverGrant;
}

/** What is to be done on this machine. `resolved`: artefacts in the API alone, as the machine has them at present. */
interface Adoption extends AdoptOptions {
  readonly namespace: string;
  readonly api: Api;
  readonly store: Store;
  readonly nodeCertificate: string;
  readonly rights: readonly Manifest[];
  readonly additions: readonly PodAddition[];
}

/**
 * Returns webhooks that could stand between recovery and its objects. Throws what the API refuses, WriteFailed,
 * ReadFailed, MaterialInvalid, ProofFailed: each names what to do.
 */
export async function runAdopt(options: AdoptOptions): Promise<readonly WebhookFinding[]> {
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
  // What is decided holds until it is done: no timer starts a container of ours meanwhile.
  return options.dryRun ? adopt() : withManifestsLock(options, adopt);
}

/** Writes nothing. */
async function planAdoption(options: AdoptOptions): Promise<Adoption> {
  const { connection, signal, directory, kubeletDir, image, namespace = defaultNamespace } = options;
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
    rights: installManifests({ artefacts, namespace, syncers: podSyncers(resolved), approver: options.approver }),
    additions: staticPods.map((pod) => podAddition(pod, { resolved, directory, image, kubeletPki, seLinux })),
  };
}

interface Adoptable {
  /** Pods in which our container runs. */
  readonly running: ReadonlySet<StaticPod>;
  /** The rights, and the record of what is to be created. */
  readonly manifests: readonly Manifest[];
}

/** Everything that would stop it later stops it now. */
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

/** As the API has them then, by artefact. */
async function adoptObjects(adoption: Adoption): Promise<ReadonlyMap<string, Material>> {
  const material = await completeNames(await createObjects(adoption), adoption);
  // Once more: another machine may have been quicker with an object, and this one is about to believe it.
  await requireTrustOfToday(material, adoption);
  return material;
}

async function requireTrustOfToday(
  material: ReadonlyMap<string, Material>,
  { resolved, pkiDir, clock }: Adoption,
): Promise<void> {
  requireSameTrust(resolved, material, await readAuthorities(resolved, pkiDir), clock.now());
}

/** All files but the manifests. */
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

/** By which the kubelet asks for a certificate when its own has expired. */
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

/** One after the other, each seen to run before the next. */
async function changeStaticPods(adoption: Adoption & { readonly lock: Lock | undefined }): Promise<void> {
  const { additions, directory, print } = adoption;
  let recorded = await recordedAdditions(directory);
  for (const addition of additions) {
    await keepFormer(addition, adoption);
    const outcome = await changeStaticPod(addition.pod, (before) => addTo(before, addition), adoption);
    // A timer gives every pod what the record says, so a run that ends here must not leave the former addition in it.
    const known = new Map(recorded.map((former) => [former.pod, former])).set(addition.pod, addition);
    recorded = staticPods.flatMap((pod) => known.get(pod) ?? []);
    await writeRecord(directory, { ...adoption, additions: recorded });
    print(`Static pod ${addition.pod}: ${outcome === 'written' ? 'changed, and runs' : 'runs, as it should be'}`);
    await forgetFailures(adoption.lockDir, [addition.pod]);
  }
}

/** To be put back by hand: a run that is killed before the pod is seen to run cannot. */
async function keepFormer({ pod, layout }: PodAddition, adoption: Adoption): Promise<void> {
  const path = manifestPath(adoption, pod);
  const content = await readIfPresent(path, 'manifest');
  if (content === undefined || runsOurs(podManifest(content, pod, path))) return;
  await replaceFile({ path: formerManifest(layout), content, mode: 0o600, what: 'manifest' });
}

/** None on a machine that is not adopted, and where the record is of no use: no repair goes by it then. */
async function recordedAdditions(directory: string): Promise<readonly PodAddition[]> {
  try {
    return (await readRecord(directory))?.additions ?? [];
  } catch (err) {
    if (isCode(err, 'MaterialInvalid')) return [];
    throw err;
  }
}

function bootstrapAuthority({ directory, resolved }: Adoption): string {
  // The kubelet.conf that the kubelet writes afterwards has this file as its CA, but not the name to ask for: so it must
  // hold both, the CA of the recovery name and that of the API server's own.
  const seen = readBy(resolved, podContainers['kube-apiserver'].components);
  const certificateAuthority = kubeconfigAuthority(resolved, seen, podLayout(directory, 'kube-apiserver'));
  if (certificateAuthority !== undefined) return certificateAuthority;
  const message = `Cannot write the bootstrap kubeconfig of the kubelet: no bundle that a reader's "kubeconfig" names as its authority is published beside kube-apiserver; name "kubelet" among the readers of that bundle`;
  throw new RecoveryError('InventoryInvalid', message);
}
