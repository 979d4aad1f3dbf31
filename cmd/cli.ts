// The command line: which commands and flags there are. Values are judged elsewhere, together with the configuration
// file, so that all that is wrong is told at once. Commands are loaded when they run: --version and --help cost little.
import { Command, CommanderError } from 'commander';
import type { FlagsOf } from '../lib/config/flags.ts';
import { errorText } from '../lib/errors.ts';
import { exitCodes, exitOfError } from './exit-codes.ts';
import type { HostLine } from './host.ts';
import type { AdoptLine } from './init-adopt.ts';
import type { Io } from './io.ts';
import { addFlags, plainArguments } from './options.ts';
import type { CommandLine, InstallLine } from './read-config.ts';
import type { RestoreLine } from './restore.ts';
import type { StatusLine } from './status.ts';
import { version } from './version.ts';

const name = 'kube-cert-recovery';
const usage = `Usage: ${name} --mode=regen|syncer|approver[,...] [--config FILE | --preset NAME] [--once] [--dry-run] [options]
       ${name} status|init|uninstall|restore|schema [options]
Run "${name} --help" for all options.`;

/** A command with an action of its own takes an unknown command for an argument: `init rendr` would run `init`. */
function refuseUnknownCommand(self: Command): void {
  if (self.args.length > 0) (self as unknown as { unknownCommand(): never }).unknownCommand();
}

interface Program {
  readonly command: Command;
  /** Set by the command that ran. */
  readonly outcome: { exit: number };
}

function program(io: Io): Program {
  const outcome: Program['outcome'] = { exit: exitCodes.done };
  const done = (exit: number): void => void (outcome.exit = exit);
  const command = new Command(name)
    .description('Zero-touch certificate recovery for Kubernetes control planes')
    .version(version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'print this help')
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({ writeOut: (text) => void io.stdout.write(text), writeErr: (text) => void io.stderr.write(text) })
    .showSuggestionAfterError(true)
    .showHelpAfterError(usage)
    .exitOverride() // before .command(): subcommands inherit it
    .helpCommand(true)
    .allowExcessArguments()
    .action(async (line: CommandLine, self: Command) => {
      refuseUnknownCommand(self);
      const { runCommand } = await import('./run.ts');
      done(await runCommand(line, io));
    });
  addFlags(command, 'all', 'modes');

  addFlags(command.command('status'), 'status')
    .allowExcessArguments(false)
    .description('show what is expired, what would break, what would be done')
    .action(async (_own, self: Command) => {
      const { statusCommand } = await import('./status.ts');
      done(await statusCommand(self.optsWithGlobals<StatusLine>(), io));
    });

  const init = addFlags(command.command('init'), 'init')
    .description('make what must exist before the first disaster, in the running API')
    .action(async (_own, self: Command) => {
      refuseUnknownCommand(self);
      const { initCommand } = await import('./init.ts');
      done(await initCommand(self.optsWithGlobals<InstallLine>(), io));
    });
  init
    .command('render')
    .allowExcessArguments(false)
    .description('write the whole first generation as files, before there is an API')
    .action(async (_own, self: Command) => {
      const { initRenderCommand } = await import('./init.ts');
      done(await initRenderCommand(self.optsWithGlobals<InstallLine>(), io));
    });

  addFlags(init.command('adopt'), 'init adopt')
    .allowExcessArguments(false)
    .description('have the static pods of this kubeadm control-plane node follow objects in the API')
    .action(async (_own, self: Command) => {
      const { repair = false, ...line } = self.optsWithGlobals<AdoptLine & FlagsOf<'init adopt'>>();
      if (repair) {
        const { repairAdoptCommand } = await import('./adopt-repair.ts');
        return done(await repairAdoptCommand(line, io));
      }
      const { initAdoptCommand } = await import('./init-adopt.ts');
      done(await initAdoptCommand(line, io));
    });

  addFlags(init.command('host'), 'init host')
    .allowExcessArguments(false)
    .description('write systemd units that repair this control-plane node before each start of its kubelet')
    .action(async (_own, self: Command) => {
      const { initHostCommand } = await import('./host.ts');
      done(await initHostCommand(self.optsWithGlobals<HostLine>(), io));
    });

  const uninstall = addFlags(command.command('uninstall'), 'uninstall')
    .description('take away what init made')
    .action(async (_own, self: Command) => {
      refuseUnknownCommand(self);
      const { uninstallCommand } = await import('./uninstall.ts');
      done(await uninstallCommand(self.optsWithGlobals<InstallLine>(), io));
    });
  uninstall
    .command('host')
    .allowExcessArguments(false)
    .description('take away the systemd units of this host')
    .action(async (_own, self: Command) => {
      const { uninstallHostCommand } = await import('./host.ts');
      done(await uninstallHostCommand(self.optsWithGlobals<HostLine>(), io));
    });
  uninstall
    .command('adopt')
    .allowExcessArguments(false)
    .description("have the static pods of this control-plane node read kubeadm's files again")
    .action(async (_own, self: Command) => {
      const { uninstallAdoptCommand } = await import('./init-adopt.ts');
      done(await uninstallAdoptCommand(self.optsWithGlobals<AdoptLine>(), io));
    });

  addFlags(command.command('restore'), 'restore')
    .argument('[artefact]', 'what is put back')
    .allowExcessArguments(false)
    .description('list the kept copies of replaced files, or put one back')
    .action(async (artefact: string | undefined, _own, self: Command) => {
      const { restoreCommand } = await import('./restore.ts');
      done(await restoreCommand(artefact, self.optsWithGlobals<RestoreLine>(), io));
    });

  const schema = command.command('schema').description('print the JSON Schema of a file');
  for (const which of ['config', 'inventory'] as const) {
    schema
      .command(which)
      .description(which === 'config' ? 'of the configuration file' : 'of an inventory file')
      .action(async () => {
        const { jsonSchemas } = await import('../lib/config/schema.ts');
        io.stdout.write(jsonSchemas()[which]);
      });
  }
  return { command, outcome };
}

/** Runs one command line and returns the exit code. Never throws, never ends the process. */
export async function run(io: Io): Promise<number> {
  try {
    const { command, outcome } = program(io);
    await command.parseAsync(plainArguments(io.argv, command), { from: 'user' });
    return outcome.exit;
  } catch (err) {
    if (err instanceof CommanderError) return err.exitCode === 0 ? exitCodes.done : exitCodes.usage; // told already
    const exit = exitOfError(err);
    io.stderr.write(`${errorText(err)}\n${exit === exitCodes.usage ? `\n${usage}\n` : ''}`);
    return exit;
  }
}
