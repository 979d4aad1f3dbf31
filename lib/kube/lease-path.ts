// Where the API has a Lease: for those who read, release and take one.

export interface LeaseName {
  readonly namespace: string;
  readonly name: string;
}

export function leasePath({ namespace, name }: LeaseName): string {
  return `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/${name}`;
}
