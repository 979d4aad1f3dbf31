// `rehearse`: whether this machine would come back by itself, by a repair of copies of its files in memory.
import type { FlagsOf } from '../lib/config/flags.ts';
import { parseToolConfig } from '../lib/config/load.ts';
import { RecoveryError } from '../lib/errors.ts';
import { sameMachine } from '../lib/config/given-flags.ts';
import { starterText } from '../lib/install/host.ts';
import { isObtained } from '../lib/inventory/places.ts';
import type { Problem } from '../lib/problems.ts';
import { rehearse } from '../lib/run/rehearse-repair.ts';
import { renderRehearsal, verdictOfRehearsal } from '../lib/status/rehearsal.ts';
import { exitOfRehearsal } from './exit-codes.ts';
import { armingHere } from './host-units.ts';
import type { Io } from './io.ts';
import { type CommandLine, configInput, orKubeadm } from './read-config.ts';
import { asUnitsDo, configHere, isOneMachine } from './status.ts';
import { dateOfFlag } from './status-flags.ts';

export async function rehearseCommand(line: CommandLine & FlagsOf<'rehearse'>, io: Io): Promise<number> {
  const { at: asked, ...flags } = line;
  const problems: Problem[] = [];
  const at = dateOfFlag(asked, problems);
  const typed = orKubeadm(asUnitsDo(flags, io.cwd));
  const named = parseToolConfig({ ...configInput(typed, io), problems });
  refuseOthers(isOneMachine(named));
  const config = configHere(named);
  const { artefacts, repairsBefore } = config.inventory;
  // Neither the API nor the clock of today is part of a rehearsal.
  const known = { isOfWorker: artefacts.some(isObtained), hasRights: true, hasClock: true };
  const arming = await armingHere(config, { ...known, given: sameMachine(typed, io.cwd) }, io);
  const starter = starterText(repairsBefore);
  const report = await rehearse(config, { at, ...arming, starter, signal: io.signal });
  io.stdout.write(renderRehearsal(report));
  return exitOfRehearsal(verdictOfRehearsal(report), report.before);
}

/** Throws PreconditionFailed. */
function refuseOthers(isMachine: boolean): void {
  const cannot = (why: string) => new RecoveryError('PreconditionFailed', `Cannot rehearse: ${why}`);
  if (!isMachine) throw cannot('this inventory has objects of the API; only files of one machine are copied');
  if (process.getuid?.() !== 0) throw cannot('keys are readable by root only; run it as root');
}
