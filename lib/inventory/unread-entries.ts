// Entries for settings of components that could not be followed to the files they name: each needs a person to act,
// until its settings can be read. Pure.
import type { ComponentName } from '../components.ts';
import type { Artefact } from './model.ts';

/** `file`: the manifest, the unit or the configuration that has them; `message`: all its problems, and the remedy. */
export interface UnreadSettings {
  readonly component: ComponentName;
  /** Whether the whole manifest is broken, or only its setting of a file. */
  readonly scope: 'manifest' | 'settings';
  readonly file: string;
  readonly message: string;
}

/** Returns the entries, and one for each component whose settings could not be read. */
export function withUnreadEntries(
  artefacts: readonly Artefact[],
  unread: readonly UnreadSettings[],
): readonly Artefact[] {
  const names = new Set(artefacts.map(({ name }) => name));
  const added = unread.map(({ component, scope, file, message }): Artefact => {
    const base = `${component}-${scope}`;
    const entry = {
      kind: 'external',
      name: names.has(base) ? `unread-${base}` : base,
      location: { kind: 'pemFile', file },
      readers: [],
      unread: message,
    } as const;
    return entry;
  });
  return [...artefacts, ...added];
}
