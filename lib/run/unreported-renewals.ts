// Renewals that were not reported to a receiver yet: those of this run, and those that earlier runs have noted because
// the receiver could not be reached.
import type { RunState } from '../host/state.ts';
import type { RegenReport } from '../regen/journal.ts';

const asNames = (value: unknown): readonly string[] | undefined =>
  Array.isArray(value) && value.every((one) => typeof one === 'string') ? value : undefined;

/** `send`: returns whether the receiver has them; absent: a later run reports them. */
export async function reportRenewals(
  { artefacts }: RegenReport,
  note: { readonly state: RunState; readonly name: string },
  send?: (names: readonly string[]) => Promise<boolean>,
): Promise<void> {
  const { state, name } = note;
  const before = (await state.get(name, asNames))?.value ?? [];
  const written = artefacts.flatMap(({ artefact, writes }) => (writes > 0 ? [artefact] : []));
  const names = [...new Set([...before, ...written])];
  if (names.length === 0) return;
  // First: a run that is killed meanwhile reports them twice rather than never.
  if (names.length > before.length) await state.keep(name, names);
  if (await send?.(names)) await state.forget(name);
}
