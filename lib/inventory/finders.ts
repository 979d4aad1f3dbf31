// Finders of values that the configuration does not give (`discover` of an inventory). A finder on this machine has its
// code in discover/, and a row in `machineFinders` of discover/discover.ts.

interface Finder {
  /** Files of this machine, read once; or objects of the API, read in each pass. */
  readonly looksAt: 'machine' | 'api';
  /** Its place, for people. */
  readonly finds: string;
  /** It reads the flags of components, which name files. */
  readonly readsFlags?: true;
  /** Directories in which it reads files that are no entries. */
  readonly readsIn?: readonly string[];
  /** Parameters whose values it reads in the API. */
  readonly asks: readonly string[];
}

export const finders = {
  kubeadm: { looksAt: 'machine', finds: 'on this machine', readsFlags: true, asks: [] },
  etcd: { looksAt: 'machine', finds: 'on this machine, of its member', asks: [] },
  kubelet: {
    looksAt: 'machine',
    finds: 'on this machine, in kubelet.conf and the configuration of the kubelet',
    readsIn: ['kubernetesDir', 'kubeletDir'],
    asks: [],
  },
  openshift: {
    looksAt: 'api',
    finds: 'in the API, in Infrastructure and Network "cluster", at each look',
    asks: ['externalLoadBalancerHostnames', 'internalLoadBalancerHostnames', 'serviceNetworkIPs'],
  },
} as const satisfies Readonly<Record<string, Finder>>;

type FinderName = keyof typeof finders;
/** Finders that read files of this machine. */
export type MachineFinder = {
  [Name in FinderName]: (typeof finders)[Name]['looksAt'] extends 'machine' ? Name : never;
}[FinderName];
export const finderNames = Object.keys(finders) as FinderName[];

export const findersText = Object.entries(finders)
  .map(([name, { finds }]) => `${name}: ${finds}`)
  .join('. ');

/** Finders that read the flags of components. */
export const flagReaders = finderNames.filter((name) => 'readsFlags' in finders[name]);

export const finderOf = ({ discover }: { readonly discover?: FinderName }): Finder | undefined =>
  discover && finders[discover];
