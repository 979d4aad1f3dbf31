// What the API of an OpenShift cluster has besides upstream's: namespaces, and the objects Infrastructure, Network and
// FeatureGate "cluster" of the group config.openshift.io, with as much of their schema as is read here (FeatureGate is
// not: it is there because the operators' own recovery reads it); bundles of others; and how the objects of all three
// presets end.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { systemClock } from '../../../lib/clock.ts';
import { accountName } from '../../../lib/install/accounts.ts';
import { applyManifest } from '../../../lib/install/apply.ts';
import { installManifests } from '../../../lib/install/rbac.ts';
import type { Resolved } from '../../../lib/inventory/model.ts';
import { openConnection } from '../../../lib/kube/connection.ts';
import { type Store } from '../../../lib/store/store.ts';
import { parseYaml } from '../../../lib/yaml.ts';
import type { ControlPlane } from './control-plane.ts';
import { eventually } from '../eventually.ts';
import { expireAll } from './expire.ts';
import { writeKubeconfig } from '../certificates/kubeconfig.ts';
import { openshiftPresets, openshiftStatus } from './openshift-objects.ts';
import { externalAuthority } from '../stories/preset-worlds.ts';
import { isRecovery } from './recovery-world.ts';
import { caBundleKey } from '../../../lib/inventory/content.ts';

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

/** A user who may do everything, by `POST` and by `PATCH` as a merge. */
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
export async function giveNames(
  api: Admin,
  networks: Readonly<Record<string, unknown>> = openshiftStatus.networks,
): Promise<void> {
  await setStatus(api, 'infrastructures', openshiftStatus.infrastructures);
  await setStatus(api, 'networks', networks);
}

/** Bundles of others, each with a CA of its own; `known`: PEM of those that are to hold another. */
export async function giveBundles(api: Admin, known: Readonly<Record<string, string>> = {}): Promise<void> {
  for (const object of [
    'openshift-config/admin-kubeconfig-client-ca',
    'openshift-config-managed/kubelet-bootstrap-kubeconfig',
    'openshift-config-managed/default-ingress-cert',
  ]) {
    const [namespace = '', name = ''] = object.split('/');
    const pem = known[object] ?? (await externalAuthority(name, systemClock.now()));
    const data = { [caBundleKey]: pem };
    await create(api, `/api/v1/namespaces/${namespace}/configmaps`, { metadata: { name }, data });
  }
}

/** Everything but localhost-recovery has ended an hour ago, in all three presets; what others give besides goes on. */
export async function expireOpenshift(
  access: (preset: Preset) => Promise<{ readonly resolved: Resolved; readonly store: Store }>,
): Promise<void> {
  const inventories = await Promise.all(openshiftPresets.map(access));
  await expireAll(inventories, { now: systemClock.now(), except: isRecovery });
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
