// OpenShift's ControllerConfig in a cluster: a definition with the fields that nodes follow, as openshift/api
// machineconfiguration/v1/types.go has them, and the one object of that kind.
import type { ControlPlane } from './control-plane.ts';

const group = 'machineconfiguration.openshift.io';
const bytes = { type: 'string', format: 'byte', nullable: true };
const bundles = {
  type: 'array',
  items: { type: 'object', required: ['file', 'data'], properties: { file: { type: 'string' }, data: bytes } },
};
const spec = {
  type: 'object',
  properties: {
    kubeAPIServerServingCAData: bytes,
    cloudProviderCAData: bytes,
    internalRegistryPullSecret: bytes,
    imageRegistryBundleData: bundles,
    imageRegistryBundleUserData: bundles,
  },
};

export interface Bundle {
  readonly file: string;
  /** PEM. */
  readonly data: string;
}

/** Fields in plain text. */
export interface ControllerConfigSpec {
  readonly kubeAPIServerServingCAData: string;
  readonly internalRegistryPullSecret?: string;
  readonly imageRegistryBundleData?: readonly Bundle[];
  readonly imageRegistryBundleUserData?: readonly Bundle[];
}

export async function defineControllerConfig(controlPlane: ControlPlane): Promise<void> {
  const names = { kind: 'ControllerConfig', plural: 'controllerconfigs', singular: 'controllerconfig' };
  const schema = { openAPIV3Schema: { type: 'object', properties: { spec } } };
  const crd = {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `controllerconfigs.${group}` },
    spec: { group, scope: 'Cluster', names, versions: [{ name: 'v1', served: true, storage: true, schema }] },
  };
  await controlPlane.apply(JSON.stringify(crd));
  await controlPlane.kubectl('wait', '--for=condition=Established', '--timeout=60s', `crd/controllerconfigs.${group}`);
}

/** Go encodes bytes in base64. */
const encoded = (value: unknown): unknown => {
  if (typeof value === 'string') return Buffer.from(value).toString('base64');
  return (value as readonly Bundle[]).map(({ file, data }) => ({ file, data: encoded(data) }));
};

/** Replaces the whole object, as the operator does. */
export async function putControllerConfig(controlPlane: ControlPlane, fields: ControllerConfigSpec): Promise<void> {
  const manifest = {
    apiVersion: `${group}/v1`,
    kind: 'ControllerConfig',
    metadata: { name: 'machine-config-controller' },
    spec: Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, encoded(value)])),
  };
  await controlPlane.apply(JSON.stringify(manifest));
}
