// Command line: the commands and their flags. Values are validated elsewhere, together with the configuration file, so
// that all problems are reported together. Commands are loaded when they run: --version and --help cost little.
import { Command, CommanderError, Option } from 'commander';
import { type FlagOwner, flagRows, type FlagsOf, isRepeatable } from '../lib/config/flags.ts';
import { modeNames } from '../lib/config/mode-names.ts';
import { errorText } from '../lib/errors.ts';
import { isWrongUsage } from '../lib/problems.ts';
import { programText } from '../lib/program.ts';
import { exitCodes, exitOfError } from './exit-codes.ts';
import type { Io } from './io.ts';

const name = 'kube-cert-recovery';
const usage = `Usage: ${name} --mode=${modeNames.join('|')}[,...] [--config FILE | --preset NAME] [--once] [--dry-run] [options]
       ${name} status|verify|init|uninstall|restore|worker|preset|schema [options]
Run "${name} --help" for all options.`;

/** A command with an action of its own takes an unknown command for an argument: `init rendr` would run `init`. */
function refuseUnknownCommand(self: Command): void {
  if (self.args.length > 0) (self as unknown as { unknownCommand(): never }).unknownCommand();
}

/** Collects the values of a repeatable flag. */
const each = (value: string, before: readonly string[] | undefined): readonly string[] => [...(before ?? []), value];

/** Adds the flags of these owners from the table. */
function addFlags(command: Command, ...owners: readonly string[]): Command {
  for (const row of flagRows.filter(({ owner }) => owners.includes(owner))) {
    const option = new Option(row.usage, row.help);
    command.addOption(isRepeatable(row) ? option.argParser(each) : option);
  }
  return command;
}

/** Flags of all commands; each command uses some of them. */
type Line = FlagsOf<FlagOwner>;

type Act = (line: Line, args: readonly string[]) => Promise<number>;

function program(io: Io) {
  /** Set by the command that ran. */
  const outcome: { exit: number } = { exit: exitCodes.done };
  const command = new Command(name)
    .description('Zero-touch certificate recovery for Kubernetes control planes')
    .version(programText, '-V, --version', 'print version, commit and date of the build')
    .helpOption('-h, --help', 'print this help')
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({ writeOut: (text) => void io.stdout.write(text), writeErr: (text) => void io.stderr.write(text) })
    .showSuggestionAfterError(true)
    .showHelpAfterError(usage)
    .exitOverride() // before .command(): subcommands inherit it
    .helpCommand(true)
    .allowExcessArguments();
  const does = (which: Command, act: Act): Command =>
    which.action(async () => {
      if (which.commands.length > 0) refuseUnknownCommand(which);
      outcome.exit = await act(which.optsWithGlobals<Line>(), which.args);
    });
  const add = (parent: Command, usageOf: string, help: string, act: Act): Command => {
    const added = parent.command(usageOf).description(help).allowExcessArguments(false);
    return does(addFlags(added, parent === command ? added.name() : `${parent.name()} ${added.name()}`), act);
  };

  does(addFlags(command, 'all', 'modes'), async (line) => (await import('./run.ts')).runCommand(line, io));

  add(command, 'status', 'show what is expired, what would break, what would be done', async (line) =>
    (await import('./status.ts')).statusCommand(line, io),
  );

  add(
    command,
    'verify',
    'check whether everybody who must trust somebody does so, from flags and files',
    async (line) => (await import('./verify-trust.ts')).verifyCommand(line, io),
  );

  const init = add(
    command,
    'init',
    'make what must exist before the first disaster, in the running API',
    async (line) => (await import('./init.ts')).initCommand(line, io),
  ).allowExcessArguments();
  add(init, 'render', 'write the whole first generation as files, before there is an API', async (line) =>
    (await import('./init.ts')).initRenderCommand(line, io),
  );
  add(
    init,
    'adopt',
    'have the static pods of this kubeadm control-plane node follow objects in the API',
    async ({ repair = false, ...line }) =>
      repair
        ? (await import('./adopt-repair.ts')).repairAdoptCommand(line, io)
        : (await import('./init-adopt.ts')).initAdoptCommand(line, io),
  );
  add(init, 'host', 'write systemd units that repair this node before each start of its kubelet', async (line) =>
    line.workerTokenFile === undefined
      ? (await import('./host.ts')).initHostCommand(line, io)
      : (await import('./init-worker.ts')).initWorkerCommand(line, io),
  );

  add(
    init,
    'approver',
    "approve kubelets' certificate requests from a static pod of this control-plane node",
    async (line) => (await import('./approver.ts')).initApproverCommand(line, io),
  );

  add(init, 'openshift', 'print the MachineConfig of a static pod beside the operators of OpenShift', async (line) =>
    (await import('./init.ts')).initOpenshiftCommand(line, io),
  );

  add(init, 'workers', 'make what workers ask with, and print what to run on each of them', async (line) =>
    (await import('./worker.ts')).initWorkersCommand(line, io),
  );

  add(
    command,
    'renew-worker',
    "on a worker: ask for a new client certificate of the kubelet when it has expired, as init host's units do",
    async (line) => (await import('./renew-worker.ts')).renewWorkerCommand(line, io),
  );
  add(
    command,
    'worker',
    "on a control-plane node: make a worker's client certificate by hand, to be carried over",
    async (line, [node]) => (await import('./worker.ts')).workerCommandByHand(node, line, io),
  ).argument('<node>', 'name of the Node');

  const uninstall = add(command, 'uninstall', 'remove what init made', async (line) =>
    (await import('./uninstall.ts')).uninstallCommand(line, io),
  ).allowExcessArguments();
  add(uninstall, 'host', 'remove the systemd units of this host', async (line) =>
    (await import('./host.ts')).uninstallHostCommand(line, io),
  );
  add(uninstall, 'approver', 'remove the static pod of init approver', async (line) =>
    (await import('./approver.ts')).uninstallApproverCommand(line, io),
  );
  add(uninstall, 'adopt', "have the static pods of this control-plane node read kubeadm's files again", async (line) =>
    (await import('./init-adopt.ts')).uninstallAdoptCommand(line, io),
  );

  add(command, 'restore', 'list the kept copies of replaced files, or put one back', async (line, [artefact]) =>
    (await import('./restore.ts')).restoreCommand(artefact, line, io),
  ).argument('[artefact]', 'what is put back');

  add(command, 'preset', 'list the inventories that come with the program, or print one', async (_, [preset]) =>
    (await import('./show-presets.ts')).presetCommand(preset, io),
  ).argument('[name]', 'which one is printed');

  const schema = command.command('schema').description('print the JSON Schema of a file');
  for (const which of ['config', 'inventory'] as const) {
    const file = which === 'config' ? 'the configuration file' : 'an inventory file';
    add(schema, which, `of ${file}`, async () => {
      io.stdout.write((await import('../lib/config/schema.ts')).jsonSchemas()[which]);
      return exitCodes.done;
    });
  }
  return { command, outcome };
}

/**
 * Go programs also take `-v=2` and `--v=2`, and static pods are full of them; commander would read the value "=2". An
 * unknown flag loses its value, so that only its name is compared with the known flags for a suggestion. Arguments
 * after `--` stay unchanged.
 */
function plainArguments(argv: readonly string[], root: Command): string[] {
  const known = new Set([...longFlags(root), '--help', '--version']);
  const end = argv.indexOf('--');
  return argv.map((argument, at) => {
    if (end !== -1 && at > end) return argument;
    const plain = argument
      .replace(/^-([nvo])=/, '-$1')
      .replace(/^--v(?==|$)/, '--log-level')
      .replace(/^--logging-format(?==|$)/, '--log-format');
    const flag = /^(--[^=]+)=/s.exec(plain)?.[1];
    return flag === undefined || known.has(flag) ? plain : flag;
  });
}

function longFlags(command: Command): string[] {
  return [...command.options.flatMap(({ long }) => long ?? []), ...command.commands.flatMap(longFlags)];
}

/** Runs one command line and returns the exit code. Never throws, never exits the process. */
export async function run(io: Io): Promise<number> {
  try {
    const { command, outcome } = program(io);
    await command.parseAsync(plainArguments(io.argv, command), { from: 'user' });
    return outcome.exit;
  } catch (err) {
    if (err instanceof CommanderError) return err.exitCode === 0 ? exitCodes.done : exitCodes.usage; // printed already
    io.stderr.write(`${errorText(err)}\n${isWrongUsage(err) ? `\n${usage}\n` : ''}`);
    return exitOfError(err);
  }
}
