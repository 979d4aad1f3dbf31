// A control plane in whose API are the identities of both layouts: of one process for all components (`init`), and of a
// container in each static pod (`init adopt`), with their credentials and configurations as these commands write them.
// The API server's own certificates are the library's: those of the inventory may be absent and may have expired.
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { podLayout, writePodFiles } from '../../../lib/adopt/pod-files.ts';
import { systemClock } from '../../../lib/clock.ts';
import { type StaticPod, staticPods } from '../../../lib/components.ts';
import { type Account, defaultNamespace as namespace } from '../../../lib/install/accounts.ts';
import { type Api, applyManifest, type Manifest } from '../../../lib/install/apply.ts';
import { type CredentialOptions, readToken } from '../../../lib/install/mode-credentials.ts';
import { installManifests, podSyncers } from '../../../lib/install/rbac.ts';
import type { Resolved } from '../../../lib/inventory/model.ts';
import { isFile } from '../../../lib/inventory/places.ts';
import { loadPreset } from '../../../lib/inventory/preset.ts';
import { resolve } from '../../../lib/inventory/resolve.ts';
import { openConnection } from '../../../lib/kube/connection.ts';
import type { KubeConnection } from '../../../lib/kube/kube.ts';
import { createApiStore } from '../../../lib/store/api-store.ts';
import type { Store } from '../../../lib/store/store.ts';
import { parseYaml, toYaml } from '../../../lib/yaml.ts';
import { type ControlPlane, startControlPlane } from './control-plane.ts';
import { writeKubeconfig } from '../certificates/kubeconfig.ts';

export const nodeName = 'panda';

/** A name without a Node, for which the approver of this world may approve one request. */
export const expectedNode = 'newcomer';

export interface GrantedWorld extends AsyncDisposable {
  readonly root: string;
  readonly controlPlane: ControlPlane;
  /** The preset's objects. */
  readonly resolved: Resolved;
  /** As an administrator. */
  readonly store: Store;
  readonly admin: KubeConnection;
  readonly plain: readonly Manifest[];
  readonly adopted: readonly Manifest[];
  readonly tokenOf: (account: Account) => Promise<string>;
  /** A kubeconfig with that account's token. */
  readonly kubeconfigOf: (account: Account) => Promise<string>;
  /** What the container in a pod runs with. */
  readonly configOf: (pod: StaticPod) => string;
  /** What one process of mode syncer runs with that serves all components. */
  readonly plainConfig: string;
  /** Of this machine's node, for the approver. */
  readonly nodeCertificate: string;
}

const { signal } = new AbortController();
const preset = 'kubernetes';
const parameters = { apiServerHostnames: ['127.0.0.1'] };

export async function createGrantedWorld({ audit = false } = {}): Promise<GrantedWorld> {
  const root = await mkdtemp(join(tmpdir(), 'granted-'));
  const controlPlane = await startControlPlane({
    components: ['etcd', 'kube-apiserver', 'kube-controller-manager'],
    audit,
    flags: {
      // Thousands of requests by one account are no flood here: what is answered is what its rights say.
      'kube-apiserver': { 'enable-priority-and-fairness': 'false' },
      // Leader leases are the test's.
      'kube-controller-manager': { 'leader-elect': 'false' },
    },
  });
  const kubeconfigFile = controlPlane.recoveryKubeconfig;
  const admin = await openConnection({ kubeconfigFile, clock: systemClock, userAgent: 'test' });
  const all = resolve(loadPreset(preset), { parameters });
  const resolved = { ...all, artefacts: all.artefacts.filter(({ location }) => !isFile(location)) };
  const { artefacts } = resolved;
  const plain = installManifests({ artefacts, namespace });
  const adopted = installManifests({ artefacts, namespace, syncers: podSyncers(resolved), approver: true });
  const api: Api = { connection: admin, signal };
  for (const manifest of [...plain, ...adopted]) await applyManifest(api, manifest);

  const tokenOf = (account: Account): Promise<string> =>
    readToken(account, { api, namespace, clock: systemClock }).then(({ token }) => token);
  const kubeconfig = async (path: string, token: string): Promise<string> => {
    await mkdir(dirname(path), { recursive: true });
    const certificateAuthority = controlPlane.recoveryCa;
    const tlsServerName = 'localhost-recovery';
    return writeKubeconfig(path, { server: controlPlane.url, certificateAuthority, tlsServerName, token });
  };
  const kubeconfigOf = async (account: Account): Promise<string> =>
    kubeconfig(join(root, 'kubeconfigs', account), await tokenOf(account));

  const store = createApiStore({ connection: admin, fieldManager: 'test' });
  const nodeCertificate = join(root, 'pki', 'kubelet-client-current.pem');
  const directory = join(root, 'adopted');
  const common: Omit<CredentialOptions, 'layout' | 'resolved'> & { server: string } = {
    api,
    store,
    clock: systemClock,
    namespace,
    server: controlPlane.url,
    recoveryServerName: 'localhost-recovery',
  };
  const settings = {
    preset,
    parameters,
    regen: { backupDir: join(root, 'backups'), lockDir: join(root, 'lock') },
  };
  for (const pod of staticPods) {
    const material = new Map<string, never>();
    const more = { directory, resolved, material, settings, nodeCertificate, kubeletServer: controlPlane.url };
    await writePodFiles(pod, { ...common, ...more, running: new Set(staticPods) });
    const layout = podLayout(directory, pod);
    const text = await readFile(layout.configFile, 'utf8');
    const config = structuredClone(parseYaml(text)) as Record<string, Record<string, unknown>>;
    for (const mode of config['modes'] as unknown as readonly string[]) {
      // The token as it lies there; the CA is the one by which this API server is known.
      const place = join(layout.credentials, mode);
      await kubeconfig(join(place, 'kubeconfig'), await readFile(join(place, 'token'), 'utf8'));
    }
    // Processes of components on this machine are none of this pod's.
    delete config['syncer']?.['restart'];
    if (config['approver'] !== undefined) config['approver']['expectedNodes'] = [expectedNode];
    await writeFile(layout.configFile, toYaml(config));
  }
  const plainConfig = join(root, 'plain.yaml');
  await writeFile(
    plainConfig,
    toYaml({
      apiVersion: 'kube-cert-recovery/v1alpha1',
      kind: 'Configuration',
      modes: ['syncer'],
      preset,
      parameters,
      syncer: { kubeconfig: await kubeconfigOf('syncer'), destinationDir: join(root, 'certs') },
    }),
  );
  return {
    root,
    controlPlane,
    resolved,
    store,
    admin,
    plain,
    adopted,
    tokenOf,
    kubeconfigOf,
    configOf: (pod) => podLayout(directory, pod).configFile,
    plainConfig,
    nodeCertificate,
    async [Symbol.asyncDispose]() {
      await admin.close();
      await controlPlane[Symbol.asyncDispose]();
      await rm(root, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}
