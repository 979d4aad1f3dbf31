// A place for one value, the newest: whoever puts never waits, whoever takes gets the latest and misses those between.
export class Mailbox<T> {
  #value: T | undefined;
  #isNew = false;
  #wake: () => void = () => undefined;

  /** The newest value ever put, also after it was seen. */
  get newest(): T | undefined {
    return this.#value;
  }

  put(value: T): void {
    this.#value = value;
    this.#isNew = true;
    this.#wake();
  }

  /** Replaces the newest value without being news; what nobody has taken yet is newer still. */
  correct(value: T): void {
    if (!this.#isNew) this.#value = value;
  }

  /** Whether there is news. Resolves when there is a value that no earlier `changed` told of, or when `elapsed` does. */
  async changed(elapsed: Promise<void>): Promise<boolean> {
    if (!this.#isNew) await Promise.race([new Promise<void>((resolve) => (this.#wake = resolve)), elapsed]);
    const isNews = this.#isNew;
    this.#isNew = false;
    return isNews;
  }
}
