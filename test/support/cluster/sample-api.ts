// Registers sample-apiserver as the aggregated API wardle.example.com/v1alpha1: kube-apiserver then reaches it as a
// proxy that shows its own client certificate. An ExternalName Service needs neither cluster network nor endpoints.
import { readFile } from 'node:fs/promises';
import type { ControlPlane } from './control-plane.ts';

export const sampleApiPath = '/apis/wardle.example.com/v1alpha1/flunders';

export interface SampleApi {
  /** PEM in base64: verifies the sample's serving certificate for sample-apiserver.default.svc. */
  readonly caBundle: string;
  /** On the machine of kube-apiserver. */
  readonly port: number;
}

/** Service and APIService. */
export function sampleApiObjects({ caBundle, port }: SampleApi): readonly [service: object, apiService: object] {
  const service = { name: 'sample-apiserver', namespace: 'default' };
  return [
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
        caBundle,
        service: { ...service, port },
      },
    },
  ];
}

export async function registerSampleApi(controlPlane: ControlPlane, caFile = controlPlane.servingCa): Promise<void> {
  const caBundle = (await readFile(caFile)).toString('base64');
  const items = sampleApiObjects({ caBundle, port: controlPlane.ports.sampleApiserver });
  await controlPlane.apply(JSON.stringify({ apiVersion: 'v1', kind: 'List', items }));
}
