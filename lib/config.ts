// Command line + configuration file + environment -> what the program is to do. Pure. Flags beat the file; all that is
// wrong in any of them, in the inventory and in its parameters is told at once.
import { approverOf, inventoryOfApprover } from './config-approver.ts';
import { missing, read } from './config-reading.ts';
import { restartOf } from './config-restart.ts';
import type { ConfigInput, Reading } from './config-reading.ts';
import { parseAddress } from './config-schema.ts';
import type { Settings } from './config-schema.ts';
import type {
  CommonConfig,
  Config,
  Identity,
  ModeConfig,
  HostConfig,
  RenewalConfig,
  ToolConfig,
} from './config-types.ts';
import { namespaceName } from './inventory/schema-values.ts';
import { checkShape } from './inventory/shape.ts';
import { componentsIn } from './inventory/components.ts';
import { checkInventory, checkInventoryText } from './inventory/load.ts';
import type { Inventory } from './inventory/model.ts';
import { checkEnvironment } from './inventory/resolve.ts';
import type { Environment } from './inventory/resolve.ts';
import type { KeyAlgorithm } from './pki/key.ts';
import { problemsError, suggestion } from './problems.ts';
import type { Problem } from './problems.ts';
import { isFile } from './inventory/places.ts';

const keyAlgorithms: Readonly<Record<NonNullable<Settings['keyAlgorithm']>, KeyAlgorithm>> = {
  rsa2048: { name: 'RSA', bits: 2048 },
  rsa4096: { name: 'RSA', bits: 4096 },
  ecdsaP256: { name: 'ECDSA', curve: 'P-256' },
  ecdsaP384: { name: 'ECDSA', curve: 'P-384' },
};

function inventoryOf(reading: Reading): Inventory | undefined {
  const { input, file, settings, problems } = reading;
  const { preset } = settings;
  const where = { namespace: settings.namespace, podNamespace: podNamespace(reading) };
  if (file.inline !== undefined) {
    if (preset !== undefined) {
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
  const checked = checkInventoryText(input.presets.text(preset), { ...where, source: `preset ${preset}` });
  problems.push(...checked.problems);
  return checked.inventory;
}

/** What OpenShift's cert-syncer takes where no --namespace is typed. */
function podNamespace({ input, problems }: Reading): string | undefined {
  const { POD_NAMESPACE: given = '' } = input.env;
  if (given === '') return undefined;
  const shape = checkShape(namespaceName, given);
  if ('value' in shape) return shape.value;
  problems.push(...shape.problems.map((problem) => ({ ...problem, path: 'env POD_NAMESPACE' })));
  return undefined;
}

function checkParameters(reading: Reading, inventory: Inventory, environment: Environment): void {
  const { file, problems } = reading;
  // What is missing may be found on the machine.
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

function identityOf({ POD_NAME: podName = '', NODE_NAME: nodeName = '' }: ConfigInput['env']): Identity {
  return { ...(podName !== '' && { podName }), ...(nodeName !== '' && { nodeName }) };
}

function environmentOf({ parameters = {}, directories = {} }: Settings, mayLack: boolean): Environment {
  return { parameters, directories, ...(mayLack ? { mayLack } : {}) };
}

interface Situation {
  readonly inventory: Inventory | undefined;
  readonly environment: Environment;
}

function commonOf({ input, settings }: Reading, { inventory, environment }: Situation): CommonConfig {
  const { tlsServerNameOverride, apiServerAddress, log } = settings;
  const address = apiServerAddress === undefined ? undefined : parseAddress(apiServerAddress);
  return {
    inventory: inventory as Inventory, // without an inventory there were problems
    environment,
    ...(tlsServerNameOverride === undefined ? {} : { tlsServerNameOverride }),
    recoveryServerName: settings.recoveryServerName ?? 'localhost-recovery',
    ...(address === undefined ? {} : { apiServerAddress: address }),
    log: { level: log?.level ?? 'info', format: log?.format ?? 'json' },
    dryRun: settings.dryRun ?? false,
    identity: identityOf(input.env),
  };
}

/** Who maintains these artefacts the inventory knows; an owner leaves nobody else a turn. */
function renewalOf({ policy, keyAlgorithm }: Settings, inventory: Inventory | undefined): RenewalConfig {
  const kind = policy?.kind ?? inventory?.policy?.kind ?? 'OnlyWhenExpired';
  return {
    policy: {
      kind,
      graceMs: policy?.grace ?? (kind === 'BeforeExpiry' ? 0 : 60_000),
      settleMs: policy?.settle ?? 1000,
    },
    ...(keyAlgorithm === undefined ? {} : { keyAlgorithm: keyAlgorithms[keyAlgorithm] }),
  };
}

function hostOf({ regen }: Settings): HostConfig {
  return {
    backupDir: regen?.backupDir ?? '/var/lib/kube-cert-recovery/backups',
    lockDir: regen?.lockDir ?? '/run/kube-cert-recovery',
    clockSynchronised: regen?.clockSynchronised ?? 'auto',
  };
}

/** The credential of everything that has none of its own: flag, file, KUBECONFIG. */
function sharedKubeconfig({ input, settings, problems }: Reading): string | undefined {
  if (settings.kubeconfig !== undefined) return settings.kubeconfig;
  const { KUBECONFIG: fromEnv } = input.env;
  if (fromEnv === undefined || fromEnv === '') return undefined;
  if (fromEnv.startsWith('/') && !fromEnv.includes(':')) return fromEnv;
  const message = `must be the absolute path of one file, got "${fromEnv}"`;
  problems.push({ path: 'env KUBECONFIG', kind: 'invalid', message });
  return undefined;
}

function usesApi({ artefacts }: Inventory): boolean {
  return artefacts.some(({ location }) => !isFile(location));
}

/** The most special credential holds: that of the mode, else the shared one. Flags beat the file within each. */
function modesOf(reading: Reading, inventory: Inventory | undefined): readonly ModeConfig[] {
  const { settings } = reading;
  const wanted = [...new Set(settings.modes)];
  const own = wanted.length > 0 && wanted.every((mode) => settings[mode]?.kubeconfig !== undefined);
  const shared = own ? undefined : sharedKubeconfig(reading);
  return wanted.flatMap((mode): readonly ModeConfig[] => {
    const kubeconfig = settings[mode]?.kubeconfig ?? shared;
    const rows = settings.regen?.rows ?? 'all';
    const needsApi = mode !== 'regen' || (rows !== 'disk' && inventory !== undefined && usesApi(inventory));
    if (kubeconfig === undefined && needsApi) {
      const given = ['kubeconfig', `${mode}.kubeconfig`, `--${mode}-kubeconfig`, 'env KUBECONFIG'];
      const message = `is required in mode ${mode} (or ${mode}.kubeconfig in the file, or env KUBECONFIG)`;
      missing(reading, ['--kubeconfig', ...given], message);
    }
    if (mode === 'regen') {
      return [
        {
          mode,
          rows,
          restart: settings.regen?.restart ?? false,
          ...(kubeconfig === undefined ? {} : { kubeconfig }),
          ...hostOf(settings),
          ...renewalOf(settings, inventory),
        },
      ];
    }
    if (mode === 'approver') return kubeconfig === undefined ? [] : [approverOf(settings, kubeconfig)];
    const destinationDir = settings.syncer?.destinationDir;
    if (destinationDir === undefined) {
      const message = 'is required in mode syncer (or syncer.destinationDir in the file)';
      missing(reading, ['--destination-dir', 'syncer.destinationDir'], message);
    }
    if (kubeconfig === undefined || destinationDir === undefined) return [];
    const { components, cachesSyncedFile } = settings.syncer ?? {};
    if (inventory !== undefined && components !== undefined) checkComponents(reading, inventory, components);
    const more = {
      ...(components !== undefined && { components }),
      ...(cachesSyncedFile !== undefined && { cachesSyncedFile }),
      ...restartOf(reading),
    };
    return [{ mode, kubeconfig, destinationDir, ...more }];
  });
}

function checkComponents(reading: Reading, inventory: Inventory, components: readonly string[]): void {
  const known = componentsIn(inventory);
  const path = reading.flags.syncer?.components === undefined ? 'syncer.components' : '--component';
  for (const name of components.filter((one) => !known.includes(one))) {
    const message =
      known.length === 0
        ? 'must be left out: the inventory does not say who reads what'
        : `must name components that read artefacts of the inventory (${known.join(', ')}), got "${name}"${suggestion(name, known)}`;
    reading.problems.push({ path, kind: 'notFound', message });
  }
}

/** Flags that were typed and would do nothing: said, not passed over. */
function idleFlags({ flags, file, settings, problems }: Reading): void {
  const { modes = [] } = settings;
  const idle = (path: string, message: string): void => void problems.push({ path, kind: 'conflict', message });
  if (!modes.includes('syncer')) {
    if (flags.syncer?.destinationDir !== undefined) idle('--destination-dir', 'must be left out without mode syncer');
    if (flags.syncer?.components !== undefined) idle('--component', 'must be left out without mode syncer');
    if (flags.syncer?.cachesSyncedFile !== undefined) {
      idle('--caches-synced-file', 'must be left out without mode syncer');
    }
    if (flags.syncer?.kubeconfig !== undefined) idle('--syncer-kubeconfig', 'must be left out without mode syncer');
  }
  if (!modes.includes('regen')) {
    if (flags.regen?.kubeconfig !== undefined) idle('--regen-kubeconfig', 'must be left out without mode regen');
    if (flags.regen?.rows !== undefined) idle('--rows', 'must be left out without mode regen');
    if (flags.regen?.restart !== undefined) idle('--restart', 'must be left out without mode regen');
  }
  if (!modes.includes('approver') && flags.approver?.kubeconfig !== undefined) {
    idle('--approver-kubeconfig', 'must be left out without mode approver');
  }
  if (flags.regen?.restart === true && settings.once !== true) idle('--restart', 'must be left out without --once');
  const named = modes.filter((mode) => settings[mode]?.kubeconfig !== undefined);
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

/** For a process that runs modes. Throws ConfigInvalid, which lists all problems. */
export function parseConfig(input: ConfigInput): Config {
  const reading = read(input);
  const { settings, problems } = reading;
  const { modes: wanted, healthProbeBindAddress } = settings;
  if (wanted === undefined) missing(reading, ['--mode', 'modes'], 'is required: regen, syncer, approver, or several');
  const inventory = inventoryOfApprover(reading) ?? inventoryOf(reading);
  // A syncer copies what is there: it needs no names.
  const environment = environmentOf(settings, wanted?.includes('regen') !== true);
  if (inventory !== undefined) checkParameters(reading, inventory, environment);
  const modes = modesOf(reading, inventory);
  if (!reading.file.unread && wanted !== undefined) idleFlags(reading);
  refuse(problems);
  const address = healthProbeBindAddress === undefined ? undefined : parseAddress(healthProbeBindAddress);
  return {
    ...commonOf(reading, { inventory, environment }),
    modes,
    once: settings.once ?? false,
    ...(address === undefined ? {} : { healthProbeBindAddress: address }),
  };
}

/** For a command that looks at or prepares a cluster. Throws ConfigInvalid, which lists all problems. */
export function parseToolConfig(input: ConfigInput): ToolConfig {
  const reading = read(input);
  const { settings, problems } = reading;
  const inventory = inventoryOf(reading);
  const environment = environmentOf(settings, false);
  if (inventory !== undefined) checkParameters(reading, inventory, environment);
  const kubeconfig = reading.flags.kubeconfig ?? settings.regen?.kubeconfig ?? sharedKubeconfig(reading);
  const { destinationDir, components } = settings.syncer ?? {};
  if (inventory !== undefined && components !== undefined) checkComponents(reading, inventory, components);
  refuse(problems);
  return {
    ...commonOf(reading, { inventory, environment }),
    ...hostOf(settings),
    ...renewalOf(settings, inventory),
    rows: settings.regen?.rows ?? 'all',
    ...(kubeconfig === undefined ? {} : { kubeconfig }),
    ...(destinationDir === undefined ? {} : { destinationDir }),
    ...(components === undefined ? {} : { components }),
  };
}
