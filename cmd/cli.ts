// Command line: the commands and their flags. Values are validated elsewhere, together with the configuration file, so
// that all problems are reported together. Commands are loaded when they run: --version and --help cost little.
import { Command, CommanderError, Help, Option } from 'commander';
import { type FlagOwner, flagRows, type FlagsOf, isRepeatable, isUsedBelow } from '../lib/config/flags.ts';
import { modeNames } from '../lib/config/mode-names.ts';
import { errorText } from '../lib/errors.ts';
import { isWrongUsage } from '../lib/problems.ts';
import { programText } from '../lib/program.ts';
import { visibleLines } from '../lib/visible.ts';
import { exitCodes, exitOfError } from './exit-codes.ts';
import type { Io } from './io.ts';

const name = 'kube-cert-recovery';
const usage = `Usage: ${name} status|explain|verify|rehearse|exporter|init|uninstall|restore|worker|preset|schema [options]
       ${name} --mode=${modeNames.join('|')}[,...] [--config FILE | --preset NAME] [--once] [--dry-run] [options]
On a node of kubeadm run "${name} status", then "${name} init host". Run "${name} --help" for all options.`;

/** Usage for a mistake in a command. */
function usageOf(command: Command): string {
  if (command.parent === null) return usage;
  const words = `${name} ${pathOf(command)}`;
  const below = command.commands.map((one) => one.name()).join('|');
  const rest = below === '' ? command.usage() : `[${below}] [options]`;
  return `Usage: ${words} ${rest}\nRun "${words} --help" for its options.`;
}

/** Commands by words that people type for them, which no spelling leads to. */
const meantBy: ReadonlyMap<string, string> = new Map([
  ['install', 'init host'],
  ['setup', 'init host'],
  ['renew', 'init host'],
  ['repair', 'init host'],
  ['recover', 'init host'],
  ['check', 'status'],
  ['certs', 'status'],
  ['remove', 'uninstall'],
  ['undo', 'restore'],
  ['version', '--version'],
  ['-v', '--version'],
]);

/** A command with an action of its own takes an unknown command for an argument: `init rendr` would run `init`. */
function refuseUnknownCommand(self: Command): void {
  if (self.args.length > 0) (self as unknown as { unknownCommand(): never }).unknownCommand();
}

/** Collects the values of a repeatable flag. */
const each = (value: string, before: readonly string[] | undefined): readonly string[] => [...(before ?? []), value];

/** Adds the flags of these owners from the table. */
function addFlags(command: Command, ...owners: readonly string[]): Command {
  for (const row of flagRows.filter(({ owner }) => owners.includes(owner))) {
    const option = new Option(row.usage, row.help).preset(row.alone);
    command.addOption(isRepeatable(row) ? option.argParser(each) : option);
  }
  return command;
}

/** Options of the parents of a command that it uses, for its help. */
function usedOptions(command: Command): Option[] {
  const help = Object.assign(new Help(), { showGlobalOptions: true });
  const path = pathOf(command);
  return help.visibleGlobalOptions(command).filter(({ flags }) => {
    const isAbove = (owner: string): boolean => ['all', 'modes'].includes(owner) || path.startsWith(`${owner} `);
    const row = flagRows.find(({ usage: own, owner }) => own === flags && isAbove(owner));
    return row === undefined || isUsedBelow(row, path);
  });
}

/** `init host` */
const pathOf = (command: Command): string =>
  command.parent?.parent ? `${pathOf(command.parent)} ${command.name()}` : command.name();

/** Flags of all commands; each command uses some of them. */
type Line = FlagsOf<FlagOwner>;

type Act = (line: Line, args: readonly string[]) => Promise<number>;

function program(io: Io) {
  /** Set by the command that runs. */
  const outcome = { exit: exitCodes.done as number, usage };
  const command = new Command(name)
    .description('Zero-touch certificate recovery for Kubernetes control planes')
    .version(programText, '-V, --version', 'print version, commit and date of the build')
    .helpOption('-h, --help', 'print this help')
    .configureHelp({ showGlobalOptions: true, visibleGlobalOptions: usedOptions })
    .configureOutput({ writeOut: (text) => void io.stdout.write(text), writeErr: (text) => void io.stderr.write(text) })
    .showSuggestionAfterError(true)
    .exitOverride() // before .command(): subcommands inherit it
    .helpCommand(true)
    .allowExcessArguments();
  const does = (which: Command, act: Act): Command =>
    which.action(async () => {
      outcome.usage = usageOf(which);
      if (which.commands.length > 0) refuseUnknownCommand(which);
      outcome.exit = await act(which.optsWithGlobals<Line>(), which.args);
    });
  const add = (parent: Command, words: string, help: string, act: Act): Command => {
    const added = parent.command(words).description(help).allowExcessArguments(false);
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

  add(
    command,
    'explain',
    'tell of one entry: who signs it, who reads it, what breaks, what happens next',
    async (line, [entry]) => (await import('./explain-entry.ts')).explainCommand(entry, line, io),
  ).argument('<name>', 'entry of the inventory, as status names it');

  add(
    command,
    'rehearse',
    'expire copies of the files of this node in memory and repair those: would it come back?',
    async (line) => (await import('./rehearse.ts')).rehearseCommand(line, io),
  );

  add(command, 'exporter', 'serve the file of metrics that the runs on this node write', async (line) =>
    (await import('./exporter.ts')).exporterCommand(line, io),
  );

  const init = add(
    command,
    'init',
    'on a node of kubeadm: init host; for certificates in the API: make what must exist before the first disaster',
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
    line.fromPod === true
      ? (await import('./host-of-pod.ts')).hostOfPodCommand('init', line, io)
      : (await import('./host.ts')).initHostCommand(line, io),
  );

  add(
    init,
    'approver',
    "approve kubelets' certificate requests from a static pod of this control-plane node",
    async (line) => (await import('./approver.ts')).initApproverCommand(line, io),
  );

  add(init, 'node-ca', 'keep the CA bundles on every node by a ConfigMap: a DaemonSet, or a static pod', async (line) =>
    (await import('./node-ca.ts')).initNodeCaCommand(line, io),
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
    line.fromPod === true
      ? (await import('./host-of-pod.ts')).hostOfPodCommand('uninstall', line, io)
      : (await import('./uninstall-host.ts')).uninstallHostCommand(line, io),
  );
  add(uninstall, 'approver', 'remove the static pod of init approver', async (line) =>
    (await import('./approver.ts')).uninstallApproverCommand(line, io),
  );
  add(uninstall, 'node-ca', 'remove what init node-ca made; ConfigMap and files stay', async (line) =>
    (await import('./node-ca.ts')).uninstallNodeCaCommand(line, io),
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
  for (const one of withAllBelow(command)) one.showHelpAfterError(usageOf(one));
  return { command, outcome };
}

const withAllBelow = (command: Command): readonly Command[] => [command, ...command.commands.flatMap(withAllBelow)];

/**
 * Go programs also take `-v=2` and `--v=2`, and static pods are full of them; commander would read the value "=2". An
 * unknown flag loses its value, so that only its name is compared with the known flags for a suggestion. Arguments
 * after `--` stay unchanged.
 */
function plainArguments(argv: readonly string[], root: Command): string[] {
  const known = new Set([...longFlags(root), '--help', '--version']);
  const end = argv.indexOf('--');
  // commander's own "help" takes one word.
  if (argv[0] === 'help' && argv.length > 2) return [...argv.slice(1), '--help'];
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

/** Names from the API and from files reach a terminal through these. */
const harmless = (output: Io['stdout']): Io['stdout'] => ({
  isTTY: output.isTTY === true,
  write: (text) => output.write(visibleLines(text)),
});

/** Runs one command line and returns the exit code. Never throws, never exits the process. */
export async function run(given: Io): Promise<number> {
  const io = { ...given, stdout: harmless(given.stdout), stderr: harmless(given.stderr) };
  const [first = '', ...others] = io.argv;
  const meant = others.length > 0 && first.startsWith('-') ? undefined : meantBy.get(first);
  if (first === '' || meant !== undefined) {
    io.stderr.write(
      meant === undefined ? `${usage}\n` : `error: unknown command '${first}'\n(Did you mean ${meant}?)\n${usage}\n`,
    );
    return exitCodes.usage;
  }
  const { command, outcome } = program(io);
  try {
    await command.parseAsync(plainArguments(io.argv, command), { from: 'user' });
    return outcome.exit;
  } catch (err) {
    if (err instanceof CommanderError) return err.exitCode === 0 ? exitCodes.done : exitCodes.usage; // printed already
    io.stderr.write(`${errorText(err)}\n${isWrongUsage(err) ? `\n${outcome.usage}\n` : ''}`);
    return exitOfError(err);
  }
}
