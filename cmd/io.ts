// What a command gets from its process.

interface Output {
  write(text: string): unknown;
}

/** Tests give their own. */
export interface Io {
  /** Without the executable and the script. */
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  readonly stdout: Output;
  readonly stderr: Output;
  /** Aborts when the process is asked to stop. */
  readonly signal: AbortSignal;
}
