// Which CA a connection trusts for its server, while the file with the CA changes. The file may be published by this
// process: a wrong CA in the published bundle would shut out the very process that corrects it. So the CA with which
// the server has answered is kept until it has answered with the new CA, too. Pure.
export class Trust {
  #ca: Buffer | undefined;
  #hasWorked = false;
  /** The CA before the present one, with which the server has answered. */
  #former: Buffer | undefined;
  /** CA in the file, which does not verify the server. */
  #refused: Buffer | undefined;

  /** Returns the CA to use when the file holds `inFile`. */
  use(inFile: Buffer): Buffer {
    if (this.#ca !== undefined && [this.#ca, this.#refused].some((ca) => ca?.equals(inFile))) return this.#ca;
    if (this.#hasWorked) this.#former = this.#ca;
    this.#ca = inFile;
    this.#hasWorked = false;
    this.#refused = undefined;
    return inFile;
  }

  /** Records an answer of the server. */
  worked(): void {
    this.#hasWorked = true;
    this.#former = undefined;
  }

  /**
   * Records that the CA does not verify the server. Returns the former CA where there is one, which is in use from now
   * on. Where that fails as well, the file is followed again, and stays followed: no flapping.
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
