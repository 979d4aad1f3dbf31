// Process entry: version of Node, arguments, environment, signals, exit code. No other file of this program reads its
// arguments, exits the process or handles its signals. No import precedes the version check: an old Node would fail
// inside a package, with a misleading error.
const oldestNode = 24;
const lastResortMs = 30_000;

/** Exits a process that is kept alive after its work, or that does not stop on a signal. */
function endInAnyCase(): void {
  setTimeout(() => {
    // process.exit waits for the threads, and a call that hangs in the file system never releases its thread.
    if (process.getActiveResourcesInfo().some((name) => name.startsWith('FSReq'))) process.kill(process.pid, 'SIGKILL');
    process.exit(process.exitCode ?? 1);
  }, lastResortMs).unref();
}

/** Names an absent file of the program, without Node's stack: the folder was copied in part, or is just being replaced. */
function refuseIncomplete(err: unknown): never {
  const { code, path = '' } = err as NodeJS.ErrnoException;
  if (code !== 'ENOENT') throw err;
  process.stderr.write(
    `Cannot run kube-cert-recovery: "${path}" is absent; its folder must be complete. ` +
      'Copy it whole (README, "Get it onto a node").\n',
  );
  process.exit(1);
}

async function main(): Promise<void> {
  const { run } = await import('./cli.ts').catch(refuseIncomplete);
  const stop = new AbortController();
  const asked = (name: NodeJS.Signals): void => {
    stop.abort(name);
    endInAnyCase();
  };
  process.on('SIGTERM', asked).on('SIGINT', asked).on('SIGHUP', asked);
  let isCut = false;
  process.stdout.on('error', ({ code }: NodeJS.ErrnoException) => {
    stop.abort('stdout closed');
    if (code === 'EPIPE') return; // a closed pipe (`status | head`) is no failure of ours
    isCut = true;
    process.exitCode = 1;
    process.stderr.write(`Cannot write to standard output: ${code ?? 'unknown'}; what is there is not complete\n`);
  });
  // Recovery continues when its log has no reader any more.
  process.stderr.on('error', () => undefined);
  const { argv, env, stdout, stderr } = process;
  const code = await run({ argv: argv.slice(2), env, cwd: process.cwd(), stdout, stderr, signal: stop.signal });
  process.exitCode = isCut ? 1 : code;
  endInAnyCase();
}

if (Number.parseInt(process.versions.node, 10) < oldestNode) {
  process.stderr.write(
    `Cannot run with Node ${process.versions.node}: at least ${oldestNode} is needed. ` +
      'Start dist/kube-cert-recovery, which uses the Node that the project brings.\n',
  );
  process.exitCode = 1;
} else {
  void main();
}
