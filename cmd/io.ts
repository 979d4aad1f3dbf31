// Inputs and outputs of a command.

interface Output {
  write(text: string): unknown;
  /** Whether it is a terminal. */
  readonly isTTY?: boolean;
}

/** Tests pass their own. */
export interface Io {
  /** Arguments without the executable and the script. */
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly stdout: Output;
  readonly stderr: Output;
  /** Aborts when the process receives a signal to stop. */
  readonly signal: AbortSignal;
}
