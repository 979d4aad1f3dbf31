// Which CA a connection knows its server by, while the file that says so changes. The file may be ours: a wrong CA that
// is written into the published bundle would shut out the very process that puts it right. So the CA by which the
// server has answered stays at hand until it has answered by the new one, too. Pure.
export class Trust {
  #ca: Buffer | undefined;
  #hasWorked = false;
  /** By which the server has answered, before the present one. */
  #former: Buffer | undefined;
  /** What the file says, and the server is not known by. */
  #refused: Buffer | undefined;

  /** What to use when the file says `inFile`. */
  use(inFile: Buffer): Buffer {
    if (this.#ca !== undefined && [this.#ca, this.#refused].some((ca) => ca?.equals(inFile))) return this.#ca;
    if (this.#hasWorked) this.#former = this.#ca;
    this.#ca = inFile;
    this.#hasWorked = false;
    this.#refused = undefined;
    return inFile;
  }

  /** The server has answered. */
  worked(): void {
    this.#hasWorked = true;
    this.#former = undefined;
  }

  /**
   * The server is not known by it. Returns the former CA where there is one, which is in use from now on. Where that fails
   * as well, the file is followed again, and stays to be followed: nothing goes back and forth.
   */
  failed(): Buffer | undefined {
    const former = this.#former;
    this.#former = undefined;
    this.#refused = former === undefined ? undefined : this.#ca;
    if (former === undefined) return undefined;
    this.#ca = former;
    this.#hasWorked = false;
    return former;
  }
}
