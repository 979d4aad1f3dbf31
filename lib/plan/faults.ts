// The limit of damage: an error thrown while one entry is read or judged belongs to that entry and never stops the pass
// over the rest. Unusable material is a fact, not an exception; an error that arrives here is a fault of this program,
// kept so that a log line can name its place in the code.
import { errorText } from '../errors.ts';

/** Errors by artefact. */
export type Faults = ReadonlyMap<string, unknown>;

export class FaultKeeper {
  readonly #faults = new Map<string, unknown>();

  get faults(): Faults {
    return this.#faults;
  }

  readonly keep = (artefact: string, err: unknown): void => void this.#faults.set(artefact, err);

  /** Returns the result of `work`, or of `instead` where it throws. */
  contain<T>(artefact: string, work: () => T, instead: (message: string) => T): T {
    try {
      return work();
    } catch (err) {
      this.keep(artefact, err);
      return instead(`"${artefact}" met a fault of this program (${errorText(err)}); please report it`);
    }
  }
}
