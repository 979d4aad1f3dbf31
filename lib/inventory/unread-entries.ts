// Entries for settings of components that could not be followed to the files they name: each is for a person to act, until its
// settings can be read. Pure.
import type { ComponentName } from '../components.ts';
import type { Artefact } from './model.ts';

/** `file`: the manifest, the unit or the configuration that has them; `message`: all that is wrong in it, and what to do. */
export interface UnreadSettings {
  readonly component: ComponentName;
  readonly file: string;
  readonly message: string;
}

/** The entries, and one for each component whose settings could not be read. */
export function withUnreadEntries(
  artefacts: readonly Artefact[],
  unread: readonly UnreadSettings[],
): readonly Artefact[] {
  const names = new Set(artefacts.map(({ name }) => name));
  const added = unread.map(({ component, file, message }): Artefact => {
    const name = [`${component}-settings`, `${component}-unread-settings`].find((one) => !names.has(one));
    const entry = {
      kind: 'external',
      name: name ?? `${component}-settings`,
      location: { kind: 'pemFile', file },
      readers: [],
      unread: message,
    } as const;
    return entry;
  });
  return [...artefacts, ...added];
}
