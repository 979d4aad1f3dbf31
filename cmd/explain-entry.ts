// `explain NAME`: one entry of the inventory in words; of files on this machine with their state and plan.
import { sameMachine } from '../lib/config/given-flags.ts';
import { parseToolConfig } from '../lib/config/load.ts';
import { RecoveryError } from '../lib/errors.ts';
import { loadPreset, presetNames } from '../lib/inventory/preset.ts';
import { suggestion } from '../lib/problems.ts';
import { explain } from '../lib/status/explain.ts';
import { exitCodes } from './exit-codes.ts';
import type { Io } from './io.ts';
import { type CommandLine, configInput, orKubeadm } from './read-config.ts';
import { asUnitsDo, configHere, isOneMachine, lookAtNode } from './status.ts';

export async function explainCommand(name = '', line: CommandLine, io: Io): Promise<number> {
  const typed = orKubeadm(asUnitsDo(line, io.cwd));
  const { artefacts, ...known } = await entriesOf(typed, name, io);
  const artefact = artefacts.find((one) => one.name === name);
  if (artefact === undefined) {
    const near = suggestion(
      name,
      artefacts.map((one) => one.name),
    );
    throw new RecoveryError('ConfigInvalid', `Cannot explain "${name}": there is no such entry here${near}`);
  }
  io.stdout.write(explain(artefact, artefacts, known));
  return exitCodes.done;
}

async function entriesOf(typed: CommandLine, explained: string, io: Io) {
  const { preset = '' } = typed;
  // The parameters of a preset of objects matter to none of its entries here, and need not be given.
  const named = typed.config === undefined && presetNames().includes(preset) ? loadPreset(preset) : undefined;
  if (named !== undefined && !isOneMachine({ inventory: named }))
    return { artefacts: named.artefacts, isOwner: isOwner(named.policy) };
  const config = parseToolConfig(configInput(typed, io));
  if (!isOneMachine(config)) return { artefacts: config.inventory.artefacts, isOwner: isOwner(config.policy) };
  const given = sameMachine(typed, io.cwd);
  const sight = await lookAtNode(configHere(config), { given, explained }, io);
  return { artefacts: sight.resolved.artefacts, isOwner: isOwner(config.policy), sight };
}

const isOwner = (policy?: { readonly kind: string }): boolean => policy?.kind === 'BeforeExpiry';
