// Command line + configuration file + environment -> configuration of the program. Pure. Flags override the file; all
// problems of the sources, of the inventory and of its parameters are reported together. The result is checked and
// complete.
import { checkInventory } from '../inventory/load.ts';
import type { Inventory } from '../inventory/model.ts';
import { checkEnvironment, type Environment } from '../inventory/resolve.ts';
import { checkShape } from '../inventory/shape.ts';
import { namespaceName } from '../inventory/values.ts';
import { problemsError, suggestion, type Problem } from '../problems.ts';
import { checkAhead, withLives } from './ahead-settings.ts';
import { checkOwnDirectories } from './directory-settings.ts';
import { flagRows } from './flags.ts';
import { checkAddresses, checkComponents, checkPairs, modesOf, policyOf, sharedKubeconfig } from './mode-settings.ts';
import { isMode, modeNames } from './mode-names.ts';
import { settingsOfEntries } from './entry-settings.ts';
import { missing, readSources, type ConfigInput, type ConfigReading } from './sources.ts';
import type { Settings } from './schema.ts';

/** Empty inventory for a process that only approves requests of kubelets and names no inventory. */
function inventoryOfApprover({ settings, file }: ConfigReading): Inventory | undefined {
  const { modes = [], preset } = settings;
  const isAlone = modes.length > 0 && modes.every((mode) => mode === 'approver');
  const isNamed = preset !== undefined || file.inline !== undefined || file.unread;
  return isAlone && !isNamed ? { name: 'none', parameters: {}, artefacts: [] } : undefined;
}

function inventoryOf(reading: ConfigReading): Inventory | undefined {
  checkAhead(reading);
  const inventory = plainInventory(reading);
  return inventory && withLives(inventory, reading);
}

/** The inventory before lives are applied. */
function plainInventory(reading: ConfigReading): Inventory | undefined {
  const { input, file, settings, problems } = reading;
  const { preset = file.unread ? undefined : input.defaultPreset } = settings;
  const where = { namespace: settings.namespace, podNamespace: podNamespace(reading) };
  if (file.inline !== undefined) {
    if (settings.preset !== undefined) {
      const [path, other] =
        input.flags.preset === undefined ? ['preset', 'it'] : ['--preset', input.file?.path ?? 'the file'];
      problems.push({ path, kind: 'conflict', message: `must be left out: ${other} has an inventory of its own` });
    }
    const place = { ...file.place, path: ['inventory'] };
    const checked = checkInventory(file.inline, place, { ...where, form: 'inline' });
    problems.push(...checked.problems);
    return checked.inventory;
  }
  const names = input.presets.names();
  if (preset === undefined) {
    const message = `is required: one of ${names.join(', ')}, or an inventory in the configuration file`;
    missing(reading, ['--preset', 'preset'], message);
    return undefined;
  }
  if (!names.includes(preset)) {
    const path = input.flags.preset === undefined ? 'preset' : '--preset';
    problems.push({
      path,
      kind: 'notFound',
      message: `must be a known preset, got "${preset}"${suggestion(preset, names)}`,
    });
    return undefined;
  }
  return input.presets.load(preset, where);
}

/** Namespace of the pod: OpenShift's cert-syncer uses it without --namespace. */
function podNamespace({ input, problems }: ConfigReading): string | undefined {
  const { POD_NAMESPACE: given = '' } = input.env;
  if (given === '') return undefined;
  const shape = checkShape(namespaceName, given);
  if ('value' in shape) return shape.value;
  problems.push(...shape.problems.map((problem) => ({ ...problem, path: 'env POD_NAMESPACE' })));
  return undefined;
}

function checkParameters(reading: ConfigReading, inventory: Inventory, environment: Environment): void {
  const { file, problems } = reading;
  // Discovery on the machine may find missing parameters.
  const mayLack = environment.mayLack === true || inventory.discover !== undefined;
  for (const problem of checkEnvironment(inventory, { ...environment, mayLack })) {
    if (problem.kind === 'required') {
      missing(reading, [problem.path], problem.message);
    } else {
      const line = file.place.lineOf(problem.path.split(/[.[]/).slice(0, 2));
      problems.push(line === undefined ? problem : { ...problem, line });
    }
  }
}

function environmentOf({ parameters, directories }: Settings, mayLack: boolean): Environment {
  return { parameters, directories, ...(mayLack && { mayLack }) };
}

export type CommonConfig = ReturnType<typeof commonOf>;

function commonOf({ input, settings }: ConfigReading, inventory: Inventory | undefined, environment: Environment) {
  const { namespace, tlsServerNameOverride, recoveryServerName, apiServerAddress, lives, log, dryRun } = settings;
  const { POD_NAME: podName = '', NODE_NAME: nodeName = '' } = input.env;
  return {
    inventory: inventory as Inventory, // without an inventory there were problems
    /** Environment for resolve(). Names may be missing where only the syncer runs: it makes no certificate. */
    environment,
    /** Namespace of the objects, in place of that of an inventory. */
    namespace,
    tlsServerNameOverride,
    recoveryServerName,
    apiServerAddress,
    /** Applied to the inventory already; entries without one may live as long as the cluster configures. */
    lives,
    log,
    dryRun,
    /** Pod and node of this process, from the downward API. */
    identity: { podName: podName || undefined, nodeName: nodeName || undefined },
  };
}

/** Reports given flags without effect. */
function idleFlags({ flags, file, settings, problems }: ConfigReading): void {
  const { modes = [] } = settings;
  const idle = (path: string, message: string): void => void problems.push({ path, kind: 'conflict', message });
  for (const { flag, field = '' } of flagRows) {
    const [mode = '', setting = ''] = field.split('.');
    if (!isMode(mode)) continue;
    const isTyped = Object.hasOwn(flags[mode] ?? {}, setting);
    if (isTyped && !modes.includes(mode)) idle(flag, `must be left out without mode ${mode}`);
  }
  const named = modes.filter((mode) => settings[mode].kubeconfig !== undefined);
  if (flags.kubeconfig !== undefined && modes.length > 0 && named.length === modes.length) {
    const inFile = named.filter((mode) => file.settings[mode]?.kubeconfig !== undefined);
    const which = inFile
      .map((mode) => `${mode}.kubeconfig of the file, which --${mode}-kubeconfig replaces`)
      .join('; ');
    idle(
      '--kubeconfig',
      `must be left out: every mode has a credential of its own${which === '' ? '' : ` (${which})`}`,
    );
  }
}

function refuse(problems: readonly Problem[]): void {
  if (problems.length > 0) throw problemsError('ConfigInvalid', 'Cannot use the configuration', problems);
}

/** Result of reading all sources. `config` may be called only without problems. */
interface Read<C> {
  readonly problems: readonly Problem[];
  /** Whether wrong settings of single entries may be left out. */
  readonly mayLeaveOut: boolean;
  readonly config: () => C;
}

function sound<C>({ problems, config }: Read<C>): C {
  refuse(problems);
  return config();
}

/** Leaves out wrong settings of single entries; throws ConfigInvalid, which lists all problems, for others. */
function tolerant<C>(read: (input: ConfigInput) => Read<C>, input: ConfigInput) {
  const { problems, mayLeaveOut, config } = read(input);
  if (problems.length === 0) return { config: config(), leftOut: problems };
  const leaving = mayLeaveOut ? settingsOfEntries(problems) : undefined;
  if (leaving === undefined) refuse(problems);
  return { config: sound(read({ ...input, ...(leaving && { leaving }) })), leftOut: problems };
}

export type Config = ReturnType<typeof parseConfig>;

/** Configuration of a process that runs modes. Throws ConfigInvalid, which lists all problems. */
export const parseConfig = (input: ConfigInput) => sound(readConfig(input));

/**
 * Configuration of a repairing process: a wrong setting of one entry is left out, and stops nothing else. A dry run
 * changes nothing, so it refuses every wrong setting.
 */
export const parseRunConfig = (input: ConfigInput) => tolerant(readConfig, input);

function readConfig(input: ConfigInput) {
  const reading = readSources(input);
  const { settings, problems } = reading;
  const { modes: wanted, once, healthProbeBindAddress, metrics } = settings;
  if (wanted === undefined) missing(reading, ['--mode', 'modes'], `is required: ${modeNames.join(', ')}, or several`);
  const inventory = inventoryOfApprover(reading) ?? inventoryOf(reading);
  // A syncer copies existing objects: it needs no names.
  const environment = environmentOf(settings, wanted?.includes('regen') !== true);
  checkOwnDirectories(reading, inventory);
  if (inventory !== undefined) checkParameters(reading, inventory, environment);
  const modes = modesOf(reading, inventory);
  if (!reading.file.unread && wanted !== undefined) idleFlags(reading);
  const own = { modes, once, healthProbeBindAddress, metrics };
  const config = () => ({ ...commonOf(reading, inventory, environment), ...own });
  return { problems, mayLeaveOut: !settings.dryRun, config };
}

export type ToolConfig = ReturnType<typeof parseToolConfig>;

/** Configuration of a command that inspects or prepares a cluster. Throws ConfigInvalid, which lists all problems. */
export const parseToolConfig = (input: ConfigInput) => sound(readToolConfig(input));

/** Configuration of a command that a timer runs: the repairing run itself reports wrong settings of entries. */
export const parseRepairConfig = (input: ConfigInput): ToolConfig => tolerant(readToolConfig, input).config;

function readToolConfig(input: ConfigInput) {
  const reading = readSources(input);
  const { settings, problems } = reading;
  const inventory = inventoryOf(reading);
  const environment = environmentOf(settings, false);
  checkOwnDirectories(reading, inventory);
  if (inventory !== undefined) checkParameters(reading, inventory, environment);
  const kubeconfig = reading.flags.kubeconfig ?? settings.regen.kubeconfig ?? sharedKubeconfig(reading);
  const { destinationDir, components } = settings.syncer;
  checkComponents(reading, inventory);
  checkAddresses(reading);
  checkPairs(reading, inventory);
  const common = { ...commonOf(reading, inventory, environment), ...settings.regen };
  const { keyAlgorithm, approver } = settings;
  const policy = policyOf(reading, inventory);
  const config = () => ({ ...common, policy, keyAlgorithm, kubeconfig, destinationDir, components, approver });
  return { problems, mayLeaveOut: true, config };
}
