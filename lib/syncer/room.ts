// Bounds what passes over several objects hold in memory side by side.
export class Room {
  #left: number;
  readonly #all: number;
  readonly #waiting: { readonly bytes: number; readonly resolve: () => void }[] = [];

  constructor(bytes: number) {
    [this.#all, this.#left] = [bytes, bytes];
  }

  /** Resolves when there is room, in the order of the calls; call what it resolves with to leave. */
  async take(wanted: number): Promise<() => void> {
    if (wanted === 0) return () => undefined; // what needs none waits for nobody
    const bytes = Math.min(wanted, this.#all);
    if (this.#waiting.length > 0 || bytes > this.#left) {
      await new Promise<void>((resolve) => this.#waiting.push({ bytes, resolve }));
    } else this.#left -= bytes;
    return () => {
      this.#left += bytes;
      for (let [next] = this.#waiting; next !== undefined && next.bytes <= this.#left; [next] = this.#waiting) {
        this.#waiting.shift();
        this.#left -= next.bytes;
        next.resolve();
      }
    };
  }
}
