// Finders of values that the configuration does not give (`discover` of an inventory). Each has its files in discover/.

interface Finder {
  /** Files of this machine, read once; or objects of the API, read in each pass. */
  readonly looksAt: 'machine' | 'api';
  /** Parameters whose values it reads in the API. */
  readonly asks: readonly string[];
}

export const finders = {
  kubeadm: { looksAt: 'machine', asks: [] },
  etcd: { looksAt: 'machine', asks: [] },
  kubelet: { looksAt: 'machine', asks: [] },
  openshift: {
    looksAt: 'api',
    asks: ['externalLoadBalancerHostnames', 'internalLoadBalancerHostnames', 'serviceNetworkIPs'],
  },
} as const satisfies Readonly<Record<string, Finder>>;

type FinderName = keyof typeof finders;
export const finderNames = Object.keys(finders) as FinderName[];

export const finderOf = ({ discover }: { readonly discover?: FinderName }): Finder | undefined =>
  discover && finders[discover];
