// The inventory from the view of components: who reads what. Pure.
import type { Inventory, Resolved } from './model.ts';

/** Components that the inventory names as readers, in sorted order. */
export function componentsIn({ artefacts }: Pick<Inventory | Resolved, 'artefacts'>): readonly string[] {
  return [...new Set(artefacts.flatMap(({ readers }) => readers.map(({ component }) => component)))].toSorted();
}

/**
 * Returns the same artefacts from the view of these components: only artefacts that they read are published, and they
 * are the only readers. All other artefacts stay in the inventory, because artefacts refer to each other by name.
 */
export function readBy(resolved: Resolved, components: readonly string[]): Resolved {
  return {
    ...resolved,
    artefacts: resolved.artefacts.map((artefact) => {
      const readers = artefact.readers.filter(({ component }) => components.includes(component));
      if (readers.length > 0) return { ...artefact, readers };
      const { published: _published, ...unpublished } = artefact;
      return { ...unpublished, readers };
    }),
  };
}
