// What one part of a control plane reads, as an inventory of its own. Pure.
import type { Inventory, Resolved } from './model.ts';

/** Components that the inventory names as readers, in sorted order. */
export function componentsIn({ artefacts }: Pick<Inventory | Resolved, 'artefacts'>): readonly string[] {
  return [...new Set(artefacts.flatMap(({ readers }) => readers.map(({ component }) => component)))].toSorted();
}

/**
 * The same artefacts as these components see them: published is only what one of them reads, and they are the only
 * readers. What others read stays in the inventory, because an artefact refers to others by name.
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
