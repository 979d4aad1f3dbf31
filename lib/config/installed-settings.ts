// Content that `init` writes into the configuration file of the modes: settings of the cluster in the file and the
// flags of this invocation. Settings of this one run are left out, and so are modes and credentials, which `init` sets
// itself.
import { apiVersion } from '../well-known.ts';
import type { Environment } from '../inventory/resolve.ts';
import { parseYaml, toYaml } from '../yaml.ts';
import { flagRows, typedValue } from './flags.ts';
import type { ConfigInput } from './sources.ts';

const notOfTheCluster = new Set(['apiVersion', 'kind', 'modes', 'kubeconfig', 'syncer', 'once', 'dryRun']);

/**
 * The flag --tls-server-name-override concerns only the connection of `init`: kept, it would replace the recovery name
 * in the kubeconfigs of the modes. In the file it is meant for the modes.
 */
export function installedSettings(
  { flags, file }: Pick<ConfigInput, 'flags' | 'file'>, // validated before
  environment: Environment,
): Readonly<Record<string, unknown>> {
  const settings = file === undefined ? {} : (parseYaml(file.text, 'ours') as Readonly<Record<string, unknown>>);
  const kept = Object.entries(settings).filter(([key]) => !notOfTheCluster.has(key));
  const { restart: _ofRunsOnHosts, ...regen } = { ...(settings['regen'] as { readonly restart?: unknown } | null) };
  const typed = flagRows
    .filter(({ isOfCluster = false }) => isOfCluster)
    .map((row) => [row.field ?? '', typedValue(flags, row)] as const);
  return {
    ...Object.fromEntries(kept),
    ...(settings['regen'] !== undefined && { regen }),
    ...Object.fromEntries(typed.filter(([, value]) => value !== undefined)),
    parameters: environment.parameters,
    directories: environment.directories,
  };
}

/** Fields that `init` sets itself in the configuration of a process of ours, and those below a mode. */
const ownFields = new Set(['modes', 'syncer', 'parameters', 'directories', 'healthProbeBindAddress']);
const ownOfMode = new Set(['kubeconfig', 'locations', 'bootstrapNamespace', 'nodeCertificate']);

/**
 * Configuration that `init` has written (YAML), for its next run without a file: `settings`, as the administrator gave
 * them, and the namespace of the accounts.
 */
export function keptIn(text: string) {
  const whole = parseYaml(text, 'ours') as Readonly<Record<string, unknown>>;
  const settings = Object.entries(whole).flatMap(([key, value]) => {
    if (ownFields.has(key)) return [];
    if (key !== 'regen' && key !== 'approver') return [[key, value] as const];
    const given = Object.entries(value as object).filter(([field]) => !ownOfMode.has(field));
    return given.length === 0 ? [] : [[key, Object.fromEntries(given)] as const];
  });
  const approver = whole['approver'] as { readonly bootstrapNamespace?: string } | undefined;
  return { settings: Object.fromEntries(settings), namespace: approver?.bootstrapNamespace };
}

/** Configuration file of these modes: `settings`, and for each mode the fields that `init` sets itself. */
export function installedConfig(
  settings: Readonly<Record<string, unknown>>,
  modes: Readonly<Record<string, object>>,
  more: object = {},
): string {
  const sections = Object.entries(modes).map(([mode, own]) => [mode, { ...(settings[mode] as object | null), ...own }]);
  return toYaml({
    apiVersion,
    kind: 'Configuration',
    modes: Object.keys(modes),
    ...settings,
    ...Object.fromEntries(sections),
    ...more,
  });
}
