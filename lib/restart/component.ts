// Which components of this machine must be restarted after a renewal, and by which file their processes are known.
// Only these three read credentials once, at their start; all others notice a new file by themselves.
import type { Location, Resolved } from '../inventory/model.ts';
import { isFile } from '../inventory/places.ts';

export const componentNames = ['kubelet', 'kube-controller-manager', 'kube-scheduler'] as const;
export type ComponentName = (typeof componentNames)[number];

export interface Component {
  readonly name: ComponentName;
  /** Its flag --kubeconfig names this file: so its processes are told from those of other control planes. */
  readonly kubeconfig: string;
  /** Names of the artefacts that it reads at its start. */
  readonly artefacts: readonly string[];
  readonly locations: readonly Location[];
}

/** Components that read files of the inventory at their start only; none where no kubeconfig of theirs is on disk. */
export function componentsOf({ artefacts }: Resolved): readonly Component[] {
  return componentNames.flatMap((name): Component[] => {
    const read = artefacts.filter(
      ({ location, readers }) =>
        isFile(location) && readers.some(({ component, needs }) => component === name && needs === 'restart'),
    );
    const kubeconfig = read.flatMap(({ location }) => (location.kind === 'kubeconfig' ? [location.file] : []))[0];
    if (kubeconfig === undefined) return [];
    return [
      { name, kubeconfig, artefacts: read.map((one) => one.name), locations: read.map(({ location }) => location) },
    ];
  });
}
