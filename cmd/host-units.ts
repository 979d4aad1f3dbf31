// The units of this machine from flags and configuration, for `init host` and `uninstall host`; and for `status`, whether
// they would repair it.
import type { ToolConfig } from '../lib/config/load.ts';
import { parseToolConfig } from '../lib/config/load.ts';
import { systemdRuns } from '../lib/host/systemd.ts';
import { type ArmingFacts, armingOf } from '../lib/install/arming.ts';
import { installedAdoption } from '../lib/install/host-apply.ts';
import {
  type HostUnits,
  manifestsDirectories,
  renderHost,
  starterText,
  type UnitFile,
  writableDirectories,
} from '../lib/install/host.ts';
import { tokenFileIn, tokenFlags } from '../lib/install/installed-flags.ts';
import { lookAtUnits } from '../lib/install/unit-facts.ts';
import { renderWorker, type WorkerUnits } from '../lib/install/worker-units.ts';
import type { Resolved } from '../lib/inventory/model.ts';
import { allDirectories, hasKubelet } from '../lib/inventory/places.ts';
import { withPreset } from '../lib/inventory/preset.ts';
import { type Given, nextCommand } from '../lib/next-command.ts';
import { usualServices } from '../lib/well-known.ts';
import { hostFlags, ownParents, realOf, unitFlags } from './host-flags.ts';
import type { Io } from './io.ts';
import { asWorker, configInput, resolveHere } from './read-config.ts';

type Told = Omit<HostUnits, 'writable' | 'manifests' | 'before' | 'renewsAhead'>;

export async function hostUnitsOf(config: ToolConfig, told: Told): Promise<HostUnits> {
  const { inventory, environment } = config;
  const directories = allDirectories(inventory, environment.directories ?? {});
  const declared = Object.values(directories);
  const { artefacts } = await resolveHere(config);
  // The last step of a run (lib/run/follow-bundles.ts).
  const followed = hasKubelet(artefacts) ? (await resolveHere(withPreset(config, 'node-ca'))).artefacts : [];
  const writable = writableDirectories([...artefacts, ...followed], [...declared, ...ownParents(config)], realOf);
  const manifests = manifestsDirectories(directories, realOf);
  const renewsAhead = config.policy.ahead !== undefined;
  return { ...told, renewsAhead, before: inventory.repairsBefore, writable, manifests };
}

export function workerUnitsOf(
  config: ToolConfig,
  { artefacts }: Resolved,
  told: Omit<WorkerUnits, 'writable'>,
): WorkerUnits {
  return { ...told, writable: writableDirectories(artefacts, ownParents(config), realOf) };
}

interface ArmingQuestion extends Pick<ArmingFacts, 'hasRights' | 'hasClock'> {
  readonly isOfWorker: boolean;
  readonly given: Given;
  /** Default: the administrator's. */
  readonly unitDirectory?: string | undefined;
}

/** Whether the units of this machine would repair it, and the command that arms it. Never rejects. */
export async function armingHere(
  { inventory: { repairsBefore: before = usualServices } }: ToolConfig,
  { isOfWorker, given, unitDirectory, ...known }: ArmingQuestion,
  io: Io,
) {
  const rendered = async (words: readonly string[]): Promise<readonly UnitFile[]> => {
    const { flags } = hostFlags({}, io, words);
    const config = parseToolConfig(configInput(flags, io));
    const told = { executable: words[0] ?? '', flags: unitFlags(flags, io.cwd), unitDirectory };
    const adoptionDirectory = installedAdoption(unitDirectory);
    const adoption = adoptionDirectory === undefined ? {} : { adoptionDirectory };
    if (!isOfWorker) return renderHost(await hostUnitsOf(config, { ...told, ...adoption }));
    const units = workerUnitsOf(config, await resolveHere(asWorker(config)), told);
    return renderWorker({ ...units, flags: [...told.flags, ...tokenFlags(tokenFileIn(words))] });
  };
  const { '--preset': preset, ...others } = given;
  const plain = nextCommand('', { '--mode': 'regen', '--once': true, ...given });
  const byOthers = ` Another init system has to run "${plain}" before each start of ${starterText(before)}.`;
  const command = isOfWorker
    ? `Run here the command that "${nextCommand('init workers')}" prints on a control-plane node.`
    : `Run: ${nextCommand('init host', preset === 'kubeadm' ? others : given)}${systemdRuns() ? '' : `.${byOthers}`}`;
  const facts = await lookAtUnits({
    isWorker: isOfWorker,
    before,
    rendered,
    signal: io.signal,
    directory: unitDirectory,
  });
  return armingOf({ ...facts, ...known }, command);
}
