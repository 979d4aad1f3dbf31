// Bounds the memory of passes over several objects that run in parallel.
export class Room {
  #left: number;
  readonly #all: number;
  readonly #waiting: { readonly bytes: number; readonly resolve: () => void }[] = [];

  constructor(bytes: number) {
    [this.#all, this.#left] = [bytes, bytes];
  }

  /** Resolves when there is room, in the order of the calls; call the result to leave. */
  async take(wanted: number): Promise<() => void> {
    if (wanted === 0) return () => undefined; // a pass without need does not wait
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
