// `--from-pod` of `init host` and `uninstall host`: the same command on the machine of this pod. Its flags are read there.
import { type CommandOnHost, runOnHostOfPod } from '../lib/install/command-of-pod.ts';
import { type Problem, problemsError } from '../lib/problems.ts';
import { exitCodes } from './exit-codes.ts';
import { ownLauncher } from './host-flags.ts';
import type { Io } from './io.ts';

interface Line {
  readonly dryRun?: boolean | undefined;
  readonly check?: boolean | undefined;
}

export async function hostOfPodCommand(
  does: CommandOnHost,
  { dryRun, check }: Line,
  { argv, signal, stdout }: Io,
): Promise<number> {
  const given = [...(dryRun === true ? ['--dry-run'] : []), ...(check === true ? ['--check'] : [])];
  const message = 'must be left out: with --from-pod the program is copied to the node first';
  const problems = given.map((path): Problem => ({ path, kind: 'conflict', message }));
  if (problems.length > 0) throw problemsError('ConfigInvalid', 'Cannot use the command line', problems);
  const { isDone, output } = await runOnHostOfPod({ does, launcher: ownLauncher, argv, signal });
  stdout.write(output);
  return isDone ? exitCodes.done : exitCodes.failed;
}
