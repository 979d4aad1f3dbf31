// What the API of an OpenShift cluster has besides upstream's: namespaces, and the objects Infrastructure, Network and
// FeatureGate "cluster" of the group config.openshift.io, with as much of their schema as is read here (FeatureGate is
// not: it is there because the operators' own recovery reads it); bundles of others; and how the objects of all three
// presets end.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { systemClock } from '../../lib/clock.ts';
import { accountName } from '../../lib/install/accounts.ts';
import { applyManifest } from '../../lib/install/apply.ts';
import { installManifests } from '../../lib/install/rbac.ts';
import type { Resolved, ResolvedArtefact } from '../../lib/inventory/model.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import type { Store } from '../../lib/store/store.ts';
import { parseYaml } from '../../lib/yaml.ts';
import { createAuthority } from './certificates.ts';
import type { ControlPlane } from './control-plane.ts';
import { eventually } from './eventually.ts';
import { expire } from './expire.ts';
import { writeKubeconfig } from './kubeconfig.ts';
import { openshiftPresets, openshiftStatus } from './openshift-objects.ts';

const definitions = new URL('./openshift-crds.yaml', import.meta.url);
const group = '/apis/config.openshift.io/v1';

export type Preset = (typeof openshiftPresets)[number];

const namespaces = [
  'openshift-config',
  'openshift-config-managed',
  'openshift-kube-apiserver',
  'openshift-kube-apiserver-operator',
  'openshift-kube-controller-manager',
  'openshift-kube-controller-manager-operator',
  'openshift-kube-scheduler',
];

/** Whoever may do everything, by `POST` and by `PATCH` as a merge. */
export type Admin = Pick<ControlPlane, 'admin'>;

export async function create(api: Admin, path: string, body: unknown): Promise<void> {
  const answer = await api.admin(path, { method: 'POST', body });
  if (answer.status !== 201) throw new Error(`POST ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
}

/** Namespaces, definitions and their objects, which say nothing yet. */
export async function prepareOpenshift(api: Admin): Promise<void> {
  for (const name of namespaces) await create(api, '/api/v1/namespaces', { metadata: { name } });
  const { items } = parseYaml(await readFile(definitions, 'utf8')) as { readonly items: readonly unknown[] };
  for (const one of items) await create(api, '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', one);
  for (const [resource, kind] of [
    ['infrastructures', 'Infrastructure'],
    ['networks', 'Network'],
    ['featuregates', 'FeatureGate'],
  ] as const) {
    const body = { apiVersion: 'config.openshift.io/v1', kind, metadata: { name: 'cluster' }, spec: {} };
    // The API server serves a new definition a moment later.
    await eventually(() => create(api, `${group}/${resource}`, body));
  }
}

/** The names that regen reads. */
export async function giveNames(api: Admin): Promise<void> {
  await setStatus(api, 'infrastructures', openshiftStatus.infrastructures);
  await setStatus(api, 'networks', openshiftStatus.networks);
}

/** Bundles of others, whose CAs are made in `directory`. */
export async function giveBundles(api: Admin, directory: string): Promise<void> {
  for (const object of [
    'openshift-config/admin-kubeconfig-client-ca',
    'openshift-config-managed/kubelet-bootstrap-kubeconfig',
    'openshift-config-managed/default-ingress-cert',
  ]) {
    const [namespace = '', name = ''] = object.split('/');
    const { cert } = await createAuthority(join(directory, name), { commonName: name });
    const data = { 'ca-bundle.crt': await readFile(cert, 'utf8') };
    await create(api, `/api/v1/namespaces/${namespace}/configmaps`, { metadata: { name }, data });
  }
}

const isRecovery = ({ name }: ResolvedArtefact): boolean => name.startsWith('localhost-recovery');
const isMadeOfOthers = ({ kind }: ResolvedArtefact): boolean => kind === 'copy' || kind === 'composedBundle';

/**
 * Everything but localhost-recovery has ended an hour ago, in all three presets; what others give besides goes on. What
 * kube-controller-manager copies of kube-apiserver ends last.
 */
export async function expireOpenshift(
  access: (preset: Preset) => Promise<{ readonly resolved: Resolved; readonly store: Store }>,
): Promise<void> {
  const [apiserver, manager, scheduler] = openshiftPresets;
  const now = systemClock.now();
  await expire({ ...(await access(manager)), now });
  await expire({ ...(await access(apiserver)), now, except: isRecovery });
  await expire({ ...(await access(manager)), now, except: (row) => !isMadeOfOthers(row) });
  await expire({ ...(await access(scheduler)), now });
}

export async function setStatus(
  api: Admin,
  resource: 'infrastructures' | 'networks',
  status: Readonly<Record<string, unknown>>,
): Promise<void> {
  const path = `${group}/${resource}/cluster/status`;
  const answer = await api.admin(path, { method: 'PATCH', body: { status } });
  if (answer.status !== 200) throw new Error(`PATCH ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
}

export interface GrantOptions {
  readonly resolved: Resolved;
  /** Of the accounts. */
  readonly namespace: string;
  /** Where kubeconfigs are written to. */
  readonly directory: string;
}

/** A kubeconfig of regen's account, with the rights that `init` gives it and no other. */
export async function grantRegen(controlPlane: ControlPlane, options: GrantOptions): Promise<string> {
  return (await grant(controlPlane, options)).regen;
}

/** One for each mode. */
export async function grant(
  controlPlane: ControlPlane,
  { resolved, namespace, directory }: GrantOptions,
): Promise<Readonly<Record<'regen' | 'syncer', string>>> {
  const kubeconfigFile = controlPlane.recoveryKubeconfig;
  const connection = await openConnection({ kubeconfigFile, clock: systemClock, userAgent: 'test' });
  try {
    const api = { connection, signal: AbortSignal.timeout(30_000) };
    for (const manifest of installManifests({ ...resolved, namespace })) await applyManifest(api, manifest);
  } finally {
    await connection.close();
  }
  const kubeconfigOf = async (account: 'regen' | 'syncer'): Promise<string> => {
    const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${accountName(account)}/token`;
    const { body } = await controlPlane.admin(path, { method: 'POST', body: { spec: {} } });
    const { token } = (body as { readonly status: { readonly token: string } }).status;
    return writeKubeconfig(join(directory, `${namespace}-${account}.kubeconfig`), {
      server: controlPlane.url,
      certificateAuthority: controlPlane.recoveryCa,
      tlsServerName: 'localhost-recovery',
      token,
    });
  };
  return { regen: await kubeconfigOf('regen'), syncer: await kubeconfigOf('syncer') };
}
