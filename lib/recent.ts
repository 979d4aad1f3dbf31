/** Cache by name of limited size: the entry set longest ago is dropped first. */
export class Recent<T> {
  readonly #kept = new Map<string, T>();
  readonly #most: number;

  constructor(most: number) {
    this.#most = most;
  }

  get(name: string): T | undefined {
    return this.#kept.get(name);
  }

  set(name: string, value: T): void {
    this.#kept.delete(name);
    this.#kept.set(name, value);
    const [oldest] = this.#kept.size > this.#most ? this.#kept.keys() : [];
    if (oldest !== undefined) this.#kept.delete(oldest);
  }
}
