// Registers sample-apiserver as the aggregated API wardle.example.com/v1alpha1: kube-apiserver then reaches it as a
// proxy that shows its own client certificate. An ExternalName Service needs neither cluster network nor endpoints.
import { readFile } from 'node:fs/promises';
import type { ControlPlane } from './control-plane.ts';

export const sampleApiPath = '/apis/wardle.example.com/v1alpha1/flunders';

/** `caFile` verifies the sample's serving certificate for sample-apiserver.default.svc. */
export async function registerSampleApi(controlPlane: ControlPlane, caFile = controlPlane.servingCa): Promise<void> {
  const service = { name: 'sample-apiserver', namespace: 'default' };
  const items = [
    { apiVersion: 'v1', kind: 'Service', metadata: service, spec: { type: 'ExternalName', externalName: 'localhost' } },
    {
      apiVersion: 'apiregistration.k8s.io/v1',
      kind: 'APIService',
      metadata: { name: 'v1alpha1.wardle.example.com' },
      spec: {
        group: 'wardle.example.com',
        version: 'v1alpha1',
        groupPriorityMinimum: 1000,
        versionPriority: 15,
        caBundle: (await readFile(caFile)).toString('base64'),
        service: { ...service, port: controlPlane.ports.sampleApiserver },
      },
    },
  ];
  await controlPlane.apply(JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
}
