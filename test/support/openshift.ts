// What the API of an OpenShift cluster has besides upstream's: namespaces, and the objects Infrastructure and Network
// "cluster" of the group config.openshift.io, with as much of their schema as is read here.
import { readFile } from 'node:fs/promises';
import { parseYaml } from '../../lib/yaml.ts';
import type { ControlPlane } from './control-plane.ts';
import { eventually } from './eventually.ts';

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

type Admin = Pick<ControlPlane, 'admin'>;

async function create({ admin }: Admin, path: string, body: unknown): Promise<void> {
  const answer = await admin(path, { method: 'POST', body });
  if (answer.status !== 201) throw new Error(`POST ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
}

export async function prepareOpenshift(controlPlane: ControlPlane): Promise<void> {
  const api: Admin = { admin: (path, request) => controlPlane.admin(path, request) };
  for (const name of namespaces) await create(api, '/api/v1/namespaces', { metadata: { name } });
  const { items } = parseYaml(await readFile(definitions, 'utf8')) as { readonly items: readonly unknown[] };
  for (const one of items) await create(api, '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', one);
  for (const [resource, kind] of [
    ['infrastructures', 'Infrastructure'],
    ['networks', 'Network'],
  ] as const) {
    const body = { apiVersion: 'config.openshift.io/v1', kind, metadata: { name: 'cluster' }, spec: {} };
    // The API server serves a new definition a moment later.
    await eventually(() => create(api, `${group}/${resource}`, body));
  }
}

export async function setStatus(
  controlPlane: ControlPlane,
  resource: 'infrastructures' | 'networks',
  status: Readonly<Record<string, unknown>>,
): Promise<void> {
  const path = `${group}/${resource}/cluster/status`;
  const answer = await controlPlane.admin(path, { method: 'PATCH', body: { status } });
  if (answer.status !== 200) throw new Error(`PATCH ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
}
