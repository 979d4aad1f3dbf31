// The limit of damage: whatever is thrown while one entry is read or judged is that entry's, and never ends the look at the
// others. Material that cannot be used is no exception but a fact; what comes here is a fault of this program, and kept so
// that a log line can name its place in the code.
import { errorText } from '../errors.ts';

/** What was thrown, by artefact. */
export type Faults = ReadonlyMap<string, unknown>;

export class FaultKeeper {
  readonly #faults = new Map<string, unknown>();

  get faults(): Faults {
    return this.#faults;
  }

  readonly keep = (artefact: string, err: unknown): void => void this.#faults.set(artefact, err);

  /** What `work` returns, or `instead` of it where it throws. */
  contain<T>(artefact: string, work: () => T, instead: (message: string) => T): T {
    try {
      return work();
    } catch (err) {
      this.keep(artefact, err);
      return instead(`"${artefact}" met a fault of this program (${errorText(err)}); please report it`);
    }
  }
}
