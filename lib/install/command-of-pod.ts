// A command of the program on the machine of a pod, which has three directories of the machine and no other right: the
// program of the image is copied to where units start it, and systemd of the machine runs the command there, as an
// administrator would. So it needs no shell, no capability and no namespace of the machine; but who may have systemd run
// a unit is root.
import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { systemClock as clock } from '../clock.ts';
import { replaceFile } from '../disk/files.ts';
import { runUnit, stopUnit, type UnitEnd } from '../host/systemd-bus.ts';
import { defaultLockDir, exitByHand } from '../well-known.ts';
import { namesIn, removeFile } from './existing-files.ts';
import { commandLine, serviceName } from './host.ts';
import { copyProgram, dropCopy, programInUse, type ProgramPlaces, programPlaces } from './program-copy.ts';
import { withCopies } from './program-install.ts';

export type CommandOnHost = 'init' | 'uninstall';

/**
 * Words of the command on the machine. `uninstall` leaves the file of metrics: the exporter of the pod serves it until
 * the pod goes, says how old it is, and without it would never be ready. Pure.
 */
export const wordsOnHost = (does: CommandOnHost, argv: readonly string[]): readonly string[] => [
  ...argv.filter((word) => word !== '--from-pod'),
  ...(does === 'uninstall' ? ['--metrics-file=none'] : []),
];

/** Units that are gone after a boot, each of one pod. */
const units = '/run/systemd/system';
const prefix = 'kube-cert-recovery-from-pod-';
const stopMs = 25_000; // of the 30 seconds that a pod has for its end

/** The machine's directories that the pod must have, at the same paths. /opt, because the lock of copies lies there. */
export const pathsOfPod: readonly string[] = [dirname(programPlaces.home), '/run/systemd', defaultLockDir];

interface HostCommand {
  /** Flags may stand before its name. */
  readonly does: CommandOnHost;
  /** Launcher of the image. */
  readonly launcher: string;
  /** Words after the program's name in the pod. */
  readonly argv: readonly string[];
  readonly signal: AbortSignal;
  /** Of a test. */
  readonly machine?: PodMachine;
}

interface PodMachine {
  readonly units: string;
  readonly outputs: string;
  readonly places: ProgramPlaces;
  readonly socketPath?: string;
}

const here: PodMachine = { units, outputs: defaultLockDir, places: programPlaces };

/** `output`: of the command, and why it is not done. Throws PreconditionFailed, WriteFailed, ReadFailed. */
export async function runOnHostOfPod({ does, launcher, argv, signal, machine = here }: HostCommand) {
  const { units: directory, outputs, places, ...systemd } = machine;
  await stopFormer(machine, signal);
  const name = `${prefix}${randomBytes(4).toString('hex')}`;
  const [unit, unitFile, outputFile] = [
    `${name}.service`,
    join(directory, `${name}.service`),
    join(outputs, `${name}.log`),
  ];
  const copy = await withCopies(places, async () => copyProgram(launcher, places));
  let isDone = false;
  try {
    const content = commandUnit([copy.launcher, ...wordsOnHost(does, argv)], outputFile, places);
    await replaceFile({ path: unitFile, content, mode: 0o644, what: 'unit' });
    const end = await runUnit(unit, { clock, signal, ...systemd });
    const isStopped = end.result === 'success' && !end.hasExited;
    const failures = [failureOf(unit, isStopped ? { ...end, result: 'stopped' } : end)];
    // The timer starts it soon; but only what it does here keeps a version that fails from the next node.
    if (failures[0] === '' && does === 'init')
      failures.push(failureOf(serviceName, await runUnit(serviceName, { clock, signal, ...systemd }), [exitByHand]));
    isDone = failures.every((failure) => failure === '');
    return { isDone, output: [await readFile(outputFile, 'utf8').catch(() => ''), ...failures].join('') };
  } finally {
    // A signal ends this process, and not the unit.
    await stopUnit(unit, { clock, signal: AbortSignal.timeout(stopMs), ...systemd }).catch(() => undefined);
    await removeFile(unitFile, 'unit'); // systemd keeps no unit that has run
    await removeFile(outputFile, 'output');
    // 112 MB for each version that does not run. The command may have put it to use, and failed later.
    const drop = async (): Promise<void> => dropCopy({ ...copy, inUse: await programInUse(places) });
    if (!isDone) await withCopies(places, drop).catch(() => undefined);
  }
}

/** Ends the commands of pods that were killed: of two at once, one would undo the other. */
async function stopFormer({ units: directory, socketPath, outputs }: PodMachine, signal: AbortSignal): Promise<void> {
  for (const unit of (await namesIn(directory)).filter((one) => one.startsWith(prefix))) {
    await stopUnit(unit, { clock, signal, ...(socketPath === undefined ? {} : { socketPath }) });
    await removeFile(join(directory, unit), 'unit');
    await removeFile(join(outputs, unit.replace(/service$/, 'log')), 'output');
  }
}

/** Empty after a success. Pure. */
const failureOf = (unit: string, { result, exitCode }: UnitEnd, accepted: readonly number[] = []): string =>
  result === 'success' || (result === 'exit-code' && accepted.includes(exitCode))
    ? ''
    : `systemd: ${unit} ended with ${result} (${exitCode}); journalctl --unit ${unit} on this node says more\n`;

/** Text of the unit. Pure. */
const commandUnit = (command: readonly string[], outputFile: string, { home }: ProgramPlaces): string => `\
# Written by a pod ("kube-cert-recovery init host --from-pod"), and removed when it has run.
[Unit]
Description=Command of a pod for the units of this host

[Service]
Type=oneshot
# SELinux: a copy that a container has made has no label of a program. Without it restorecon is not there.
ExecStartPre=-/usr/sbin/restorecon -R ${home}
ExecStart=${commandLine(command)}
StandardOutput=file:${outputFile}
# Until the pod knows how it has ended: another pod, or an administrator, may stop it.
RemainAfterExit=yes
TimeoutStartSec=10min
`;
