// `init approver` and `uninstall approver`: the approver as a static pod of its own on a control-plane machine that is
// not adopted. First the identity, then its credential, which is tried, and last the manifest: a pod that starts can
// work.
import { join } from 'node:path';
import { ensurePrivateDirectory, replaceFile } from '../disk/files.ts';
import { errorText, RecoveryError } from '../errors.ts';
import { openConnection } from '../kube/connection.ts';
import type { Clock } from '../clock.ts';
import { filesOfSource } from '../config/address-settings.ts';
import { getIfPresent } from '../kube/objects.ts';
import type { ReceivedRequest } from '../kube/received.ts';
import { collectionPath, withQuery } from '../kube/resources.ts';
import { type Problem, problemsError } from '../problems.ts';
import { retry } from '../retry.ts';
import { kubeletSigners } from '../well-known.ts';
import { toYaml } from '../yaml.ts';
import { type Api, applyManifests } from './apply.ts';
import { approverConfig, approverName, approverStaticPod } from './approver-pod.ts';
import { givenServerIn, kubeconfigYaml } from './component-flags.ts';
import { containerLabel, requireImage } from './container.ts';
import { isThere, readIfPresent, removeDirectory, removeFile } from './existing-files.ts';
import { adoptionFile, approverAuthorityFile } from './layout.ts';
import { approverManifest } from './leaving-approver.ts';
import { readToken } from './mode-credentials.ts';
import { approverInstallManifests } from './rbac.ts';
import type { ApproverGrant } from './rules.ts';

interface ApproverFiles {
  /** Absolute path of the directory for all files that `init` writes on a machine. */
  readonly directory: string;
  /** Directory of the kubelet's static pods. */
  readonly manifestsDir: string;
  readonly dryRun: boolean;
  readonly print: (line: string) => void;
}

export interface InstallApproverOptions extends ApproverFiles {
  /** Administrator's connection. */
  readonly api: Api;
  readonly clock: Clock;
  /** Undefined: no static pod; the administrator deploys the approver. */
  readonly image: string | undefined;
  readonly namespace: string;
  /** API server on this machine: an address in its certificate, or any address and this tlsServerName. */
  readonly server: string;
  /** Whether the administrator gave the server, now or earlier. */
  readonly isServerGiven: boolean;
  readonly tlsServerName: string | undefined;
  readonly kubeletPki: string;
  /** Section of the approver in the configuration file. */
  readonly settings: object;
  /** Settings that decide its rights. */
  readonly grant: ApproverGrant;
  readonly userAgent: string;
}

/** Longest time until a new right reaches the API server's authoriser. */
const rightsMs = 30_000;
const pollMs = 250;

const filesOf = ({ directory, manifestsDir }: Pick<ApproverFiles, 'directory' | 'manifestsDir'>) => {
  const own = join(directory, 'approver');
  return {
    own,
    token: join(own, 'token'),
    authority: approverAuthorityFile(directory),
    kubeconfig: join(own, 'kubeconfig'),
    config: join(own, 'config.yaml'),
    manifest: approverManifest(manifestsDir),
  };
};

/** Server that an earlier run was given for the approver of this directory. Throws ReadFailed. */
export async function givenServer(directory: string): Promise<string | undefined> {
  const { kubeconfig } = filesOf({ directory, manifestsDir: '' });
  const text = await readIfPresent(kubeconfig, 'kubeconfig');
  return text && givenServerIn(text.toString());
}

/** Throws KubeConflict on an adopted machine, the API's refusals, and WriteFailed. */
export async function installApprover(options: InstallApproverOptions): Promise<void> {
  const { api, directory, image, namespace, server, isServerGiven, tlsServerName, kubeletPki, dryRun, print, clock } =
    options;
  const { signal } = api;
  const adoption = adoptionFile(directory);
  if (await isThere(adoption, 'record of an adoption')) {
    const message = `Cannot install the approver: this machine is adopted ("${adoption}"), and the container in its kube-apiserver pod is an approver; its settings are in ${join(directory, 'kube-apiserver/config.yaml')}`;
    throw new RecoveryError('KubeConflict', message);
  }
  const files = filesOf(options);
  requireMounted(options.grant, files.own, image !== undefined);
  const manifests = approverInstallManifests(namespace, { token: true, grant: options.grant });
  const settings = { ...options.settings, kubeconfig: files.kubeconfig, bootstrapNamespace: namespace };
  const config = approverConfig({ ...settings, nodeCertificate: join(kubeletPki, 'kubelet-client-current.pem') });
  const pod = { configFile: files.config, config, directory: files.own, kubeletPki, seLinux: await containerLabel() };
  const manifest = image === undefined ? undefined : toYaml(approverStaticPod({ image, ...pod }));
  if (image !== undefined) await requireImage({ image, dryRun, print, signal });
  if (dryRun) {
    for (const each of manifests) print(`---\n${toYaml(each)}`.trimEnd());
    print(`--- # ${files.config}\n${config}`.trimEnd());
    if (manifest !== undefined) print(`--- # ${files.manifest}\n${manifest}`.trimEnd());
    return;
  }
  await applyManifests(api, manifests, print);
  const { token, rootCa } = await readToken('approver', { api, namespace, clock });
  if (rootCa === undefined) {
    const message = 'Cannot write kubeconfig: kube-controller-manager puts no CA beside tokens; give it --root-ca-file';
    throw new RecoveryError('KubeUnavailable', message);
  }
  const user = { name: approverName, tokenFile: files.token };
  const kubeconfig = kubeconfigYaml({
    server,
    isServerGiven,
    certificateAuthority: files.authority,
    tlsServerName,
    user,
  });
  await ensurePrivateDirectory(files.own);
  const written = [
    { path: files.token, content: token, mode: 0o600, what: 'token' },
    { path: files.authority, content: rootCa, mode: 0o600, what: 'CA bundle' },
    { path: files.kubeconfig, content: kubeconfig, mode: 0o600, what: 'kubeconfig' },
    { path: files.config, content: config, mode: 0o600, what: 'configuration' },
  ];
  for (const file of written) if ((await replaceFile(file)) === 'written') print(`Wrote ${file.path}`);
  await requireRights(files.kubeconfig, options);
  if (manifest !== undefined) {
    const last = { path: files.manifest, content: manifest, mode: 0o600, what: 'manifest' };
    if ((await replaceFile(last)) === 'written') print(`Wrote ${files.manifest}; the kubelet starts it now`);
    else print(`Unchanged: ${files.manifest}`);
  }
  if (!options.grant.signers.includes('kubelet-serving')) await reportServing(options);
}

/** Kubelets with `serverTLSBootstrap` wait for the administrator, who may have installed this for their requests. */
async function reportServing({ api, print }: InstallApproverOptions): Promise<void> {
  const fieldSelector = `spec.signerName=${kubeletSigners['kubelet-serving']}`;
  const path = withQuery(collectionPath('CertificateSigningRequest'), { fieldSelector });
  const look = getIfPresent<{ readonly items?: readonly ReceivedRequest[] }>(api, path);
  // All is installed by now: an API server that does not answer takes nothing of that back.
  const answer = await look.catch((err: unknown) => {
    if (api.signal.aborted) throw err;
    print(`Not counted: requests for serving certificates of kubelets (${errorText(err)})`);
  });
  const pending = (answer?.items ?? []).filter(({ status }) => (status?.conditions ?? []).length === 0).length;
  if (pending > 0)
    print(
      `Left pending: ${pending} for serving certificates of kubelets; approver.signers and approver.addresses in a file ` +
        'given with --config have them approved (docs/approver.md)',
    );
}

/** The pod mounts its own directory and nothing else of the machine. Throws ConfigInvalid. */
function requireMounted({ addresses }: ApproverGrant, directory: string, isPod: boolean): void {
  const named = addresses.flatMap((source, at) => filesOfSource(source).map((each) => ({ at, each })));
  const problems = named
    .filter(({ each }) => isPod && !each.startsWith(`${directory}/`))
    .map(({ at, each }): Problem => {
      const message = `must name a file below ${directory}, which the pod mounts, got "${each}"`;
      return { path: `approver.addresses[${at}]`, kind: 'invalid', message };
    });
  if (problems.length > 0) throw problemsError('ConfigInvalid', 'Cannot install the approver', problems);
}

/** Checks the rights with the kubeconfig that the pod will use. */
async function requireRights(kubeconfigFile: string, options: InstallApproverOptions): Promise<void> {
  const { clock, userAgent, api } = options;
  const connection = await openConnection({ kubeconfigFile, clock, userAgent });
  const path = withQuery(collectionPath('CertificateSigningRequest'), { limit: '1' });
  const { signal } = api;
  const look = (): Promise<unknown> => connection.request({ method: 'GET', path, signal });
  try {
    await retry(look, () => true, { forMs: rightsMs, everyMs: pollMs, clock, signal });
  } finally {
    await connection.close();
  }
}

/** Removes the pod and its files (with dryRun: only prints them). The identity stays: other machines may use it. */
export async function removeApprover({ dryRun, print, ...where }: ApproverFiles): Promise<void> {
  const { own, manifest } = filesOf(where);
  const done = dryRun ? 'Would remove' : 'Removed';
  const there = [];
  for (const path of [manifest, own]) if (await isThere(path, `"${path}"`)) there.push(path);
  // The pod first: it needs these files.
  if (there.includes(manifest)) {
    if (!dryRun) await removeFile(manifest, 'manifest');
    print(`${done} ${manifest}`);
  }
  if (there.includes(own)) {
    if (!dryRun) await removeDirectory(own);
    print(`${done} ${own}`);
  }
  if (there.length === 0) print('Nothing to remove.');
}
