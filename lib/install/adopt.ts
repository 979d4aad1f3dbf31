// `init adopt`: a control-plane machine of a kubeadm cluster comes to read its certificates from files that follow
// objects in the API. Run on one machine after the other, the API stays up where there are several:
//
//  1. RBAC, identities, tokens          4. the kubelet's way back: a bootstrap kubeconfig
//  2. the objects (see below)           5. patches for kubeadm, which writes manifests anew
//  3. the files of the three pods       6. the manifests: kube-apiserver, then its clients
//
// Objects are made where they are absent, and a serving certificate that is there gets the names of this machine, too.
// Everything is there before a component reads it. Run again, it changes nothing that is as it should be, completes what
// a killed run began, and puts the manifests right after `kubeadm upgrade`.
import { join } from 'node:path';
import type { Clock } from '../clock.ts';
import { replaceFile } from '../disk/files.ts';
import { RecoveryError } from '../errors.ts';
import { readBy } from '../inventory/components.ts';
import type { Resolved } from '../inventory/model.ts';
import { isFile } from '../inventory/places.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { createApiStore } from '../store/api.ts';
import { caBundleKey } from '../store/store.ts';
import { findWebhooks } from '../webhooks/find.ts';
import type { WebhookFinding } from '../webhooks/intercepting.ts';
import { toYaml } from '../yaml.ts';
import { defaultNamespace, tokenSecretName } from './accounts.ts';
import { requireKubeadmFlags, requireSameTrust, trustedFiles } from './adopt-guard.ts';
import { adoptMaterial, takeStock } from './adopt-material.ts';
import { completeNames } from './adopt-names.ts';
import { asPresent } from './adopt-present.ts';
import { writeRecord } from './adopt-record.ts';
import { type Api, applyManifest, fieldManager } from './apply.ts';
import { serverBundle } from './component-flags.ts';
import { readToken } from './credentials.ts';
import { readIfPresent } from './files.ts';
import { removeFormerSyncer } from './former-syncer.ts';
import { kubeconfigYaml } from './kubeconfig.ts';
import { fileOf } from './layout.ts';
import { manifestText } from './manifest.ts';
import { withManifestsLock } from './manifests-lock.ts';
import { podAddition, podLayout, podSyncers, writePodFiles } from './pod-files.ts';
import { installManifests } from './rbac.ts';
import { changeStaticPod, readManifest } from './static-pods-apply.ts';
import {
  addTo,
  componentsOfPod,
  digestAnnotation,
  kubeadmPatches,
  manifestPath,
  removeFrom,
  type StaticPod,
  staticPods,
} from './static-pods.ts';

export interface AdoptOptions {
  /** As an administrator. */
  readonly connection: KubeConnection;
  readonly resolved: Resolved;
  /** Of our files. Absolute path. */
  readonly directory: string;
  readonly kubernetesDir: string;
  readonly pkiDir: string;
  readonly kubeletDir: string;
  readonly nodeName: string;
  readonly image: string;
  /** Of the ServiceAccounts. */
  readonly namespace?: string;
  /** The API server on this machine, for whoever lives beside it. */
  readonly server: string;
  /**
   * The same for the kubelet, which after its first certificate asks for no name of ours any more: an address that the
   * API server's own certificate holds.
   */
  readonly kubeletServer: string;
  readonly recoveryServerName: string;
  readonly settings: Readonly<Record<string, unknown>>;
  /** Of the locks of this machine. */
  readonly lockDir: string;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Writes nothing, and tells what would be written. */
  readonly dryRun: boolean;
  /** Told of each step when it is done. */
  readonly told: (line: string) => void;
}

export interface AdoptOutcome {
  readonly webhooks: readonly WebhookFinding[];
}

const tokenTimeoutMs = 60_000;

/** Throws what the API refuses, WriteFailed, ReadFailed, MaterialInvalid, ProofFailed: each names what to do. */
export async function runAdopt(options: AdoptOptions): Promise<AdoptOutcome> {
  const { connection, signal, told, clock, directory, namespace = defaultNamespace } = options;
  const { kubernetesDir, pkiDir, kubeletDir, nodeName, image } = options;
  const api: Api = { connection, signal };
  const store = createApiStore({ connection, fieldManager });
  const directories = { kubernetesDir, pkiDir };
  const inApi = { ...options.resolved, artefacts: options.resolved.artefacts.filter(({ truth }) => !isFile(truth)) };
  const resolved = await asPresent(inApi, directories, signal);

  const webhooks = await findWebhooks({ ...api, artefacts: resolved.artefacts });
  const kubeletPki = join(kubeletDir, 'pki');
  const manifestsDir = join(kubernetesDir, 'manifests');
  const additions = staticPods.map((pod) => podAddition(pod, { resolved, directory, image, kubeletPki }));
  const { artefacts } = resolved;
  const rights = installManifests({ artefacts, namespace, syncers: podSyncers(resolved), approver: true });
  if (options.dryRun) {
    for (const manifest of rights) told(`---\n${toYaml(manifest)}`.trimEnd());
    for (const addition of additions) {
      const path = manifestPath(manifestsDir, addition.pod);
      told(`--- # ${path}\n${toYaml(addTo(await readManifest(path, addition.pod), addition))}`.trimEnd());
    }
    return { webhooks };
  }

  // Everything that would stop it later stops it now.
  const running = new Set<StaticPod>();
  for (const pod of staticPods) {
    const manifest = await readManifest(manifestPath(manifestsDir, pod), pod);
    requireKubeadmFlags(removeFrom(manifest), pod, directories);
    if (manifest.metadata.annotations?.[digestAnnotation] !== undefined) running.add(pod);
  }
  const nodeCertificate = join(kubeletPki, 'kubelet-client-current.pem');
  if ((await readIfPresent(nodeCertificate, 'certificate')) === undefined) {
    const message = `Cannot adopt this machine: "${nodeCertificate}" is not there, and the approver would take that for a certificate that has ended; have kubelet.conf name it (kubeadm init phase kubelet-finalize)`;
    throw new RecoveryError('MaterialInvalid', message);
  }
  await takeStock({ resolved, directories, store, clock, signal });

  let changed = 0;
  for (const manifest of rights) {
    const outcome = await applyManifest(api, manifest);
    if (outcome !== 'unchanged') changed += 1;
    if (outcome === 'updated') told(`Updated ${manifestText(manifest)}`);
  }
  told(`Identities and their rights: ${changed === 0 ? 'as they should be' : `${changed} objects applied`}`);

  const adopted = await adoptMaterial({ resolved, directories, store, clock, signal });
  for (const { what, from } of adopted.created) told(`Created ${what}${from === undefined ? '' : ` from ${from}`}`);
  const material = await completeNames({ resolved, material: adopted.material, store, clock, signal, told });

  const authorities = new Map<string, Uint8Array>();
  for (const file of trustedFiles) {
    authorities.set(file, (await readIfPresent(join(pkiDir, file), 'CA')) ?? new Uint8Array());
  }
  requireSameTrust(material, authorities, clock.now());

  const runs = (pod: StaticPod): boolean => running.has(pod);
  const files = { ...options, api, store, resolved, namespace, material, nodeCertificate, runs, tokenTimeoutMs };
  for (const pod of staticPods) {
    const written = await writePodFiles(pod, files);
    if (written.length > 0) told(`Wrote ${written.length} files and directories below ${join(directory, pod)}`);
  }

  const path = join(kubernetesDir, 'bootstrap-kubelet.conf');
  const content = await bootstrapKubeconfig(api, { ...options, namespace, resolved });
  const former = await readIfPresent(path, 'kubeconfig');
  if (former !== undefined && !former.includes(directory)) {
    const kept = join(directory, 'bootstrap-kubelet.conf.former');
    await replaceFile({ path: kept, content: former, mode: 0o600, what: 'kubeconfig' });
    told(`Kept the former ${path} as ${kept}`);
  }
  if ((await replaceFile({ path, content, mode: 0o600, what: 'kubeconfig' })) === 'written') told(`Wrote ${path}`);

  const patches = join(directory, 'patches');
  for (const [name, patch] of additions.flatMap((addition) => Object.entries(kubeadmPatches(addition)))) {
    await replaceFile({ path: join(patches, name), content: toYaml(patch), mode: 0o644, what: 'patch' });
  }

  const machine = { api, manifestsDir, nodeName, clock };
  await withManifestsLock(options, async () => {
    for (const addition of additions) {
      const outcome = await changeStaticPod(addition.pod, (before) => addTo(before, addition), machine);
      told(`Static pod ${addition.pod}: ${outcome === 'written' ? 'changed, and runs' : 'runs, as it should be'}`);
    }
    await writeRecord(directory, { kubernetesDir, pkiDir, nodeName, additions });
  });
  const { removed, usedOn } = await removeFormerSyncer(api);
  for (const what of removed) told(`Removed ${what}: each pod has an account of its own now`);
  if (usedOn.length > 0) told(`Run this on ${usedOn.join(', ')}, too: there one account still serves all pods`);
  return { webhooks };
}

/** By which the kubelet asks for a certificate when its own has ended. */
async function bootstrapKubeconfig(
  api: Api,
  options: Pick<AdoptOptions, 'clock' | 'directory' | 'kubeletServer' | 'recoveryServerName'> & {
    readonly namespace: string;
    readonly resolved: Resolved;
  },
): Promise<string> {
  const { clock, namespace, directory, kubeletServer: server, recoveryServerName, resolved } = options;
  // The kubelet.conf that the kubelet writes afterwards has this file as its CA, but not the name to ask for: so it must
  // hold both, the CA of the recovery name and that of the API server's own.
  const seen = readBy(resolved, componentsOfPod['kube-apiserver']);
  const bundle = seen.artefacts.find(({ name }) => name === serverBundle);
  const certificateAuthority = bundle && fileOf(bundle, caBundleKey, podLayout(directory, 'kube-apiserver'));
  if (certificateAuthority === undefined) {
    const message = `Cannot write the bootstrap kubeconfig of the kubelet: the inventory publishes no "${serverBundle}" beside kube-apiserver; name "kubelet" among its readers`;
    throw new RecoveryError('InventoryInvalid', message);
  }
  const secret = tokenSecretName('node-bootstrapper');
  const token = await readToken(api, { clock, namespace, secret, tokenTimeoutMs });
  const user = { name: 'kubelet-bootstrap', token };
  return kubeconfigYaml({ server, certificateAuthority, tlsServerName: recoveryServerName, user });
}
