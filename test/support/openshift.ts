// What the API of an OpenShift cluster has besides upstream's: namespaces, and the objects Infrastructure, Network and
// FeatureGate "cluster" of the group config.openshift.io, with as much of their schema as is read here.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { systemClock } from '../../lib/clock.ts';
import { applyManifest } from '../../lib/install/apply.ts';
import { installManifests } from '../../lib/install/rbac.ts';
import type { Resolved } from '../../lib/inventory/model.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import { parseYaml } from '../../lib/yaml.ts';
import type { ControlPlane } from './control-plane.ts';
import { eventually } from './eventually.ts';
import { writeKubeconfig } from './kubeconfig.ts';

const definitions = new URL('./openshift-crds.yaml', import.meta.url);
const group = '/apis/config.openshift.io/v1';

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

export async function setStatus(
  api: Admin,
  resource: 'infrastructures' | 'networks',
  status: Readonly<Record<string, unknown>>,
): Promise<void> {
  const path = `${group}/${resource}/cluster/status`;
  const answer = await api.admin(path, { method: 'PATCH', body: { status } });
  if (answer.status !== 200) throw new Error(`PATCH ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
}

/** A kubeconfig in `directory` of regen's account in that namespace, with the rights that `init` gives it and no other. */
export async function grantRegen(
  controlPlane: ControlPlane,
  { resolved, namespace, directory }: { resolved: Resolved; namespace: string; directory: string },
): Promise<string> {
  const kubeconfigFile = controlPlane.recoveryKubeconfig;
  const connection = await openConnection({ kubeconfigFile, clock: systemClock, userAgent: 'test' });
  try {
    const api = { connection, signal: AbortSignal.timeout(30_000) };
    for (const manifest of installManifests({ ...resolved, namespace })) await applyManifest(api, manifest);
  } finally {
    await connection.close();
  }
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts/kube-cert-recovery-regen/token`;
  const { body } = await controlPlane.admin(path, { method: 'POST', body: { spec: {} } });
  const { token } = (body as { readonly status: { readonly token: string } }).status;
  return writeKubeconfig(join(directory, `${namespace}.kubeconfig`), {
    server: controlPlane.url,
    certificateAuthority: controlPlane.recoveryCa,
    tlsServerName: 'localhost-recovery',
    token,
  });
}
