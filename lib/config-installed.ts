// What `init` writes into the configuration file of the modes: what the file and the flags of this invocation say of
// the cluster. What they say of this one run, and of modes and credentials, which `init` sets itself, stays out.
import type { Flags } from './config-types.ts';
import type { Environment } from './inventory/resolve.ts';
import { parseYaml } from './yaml.ts';

export interface InstalledInput {
  readonly flags: Flags;
  /** The file of --config, found sound before. */
  readonly file?: { readonly text: string };
  readonly environment: Environment;
}

/** What settings say of one mode; nothing where they do not. */
export function sectionOf(settings: Readonly<Record<string, unknown>>, mode: string): object {
  const section = settings[mode];
  return typeof section === 'object' && section !== null ? section : {};
}

const notOfTheCluster = new Set(['apiVersion', 'kind', 'modes', 'kubeconfig', 'syncer', 'once', 'dryRun']);

/**
 * The flag --tls-server-name-override is how `init` itself connects: kept, it would take the place of the recovery name
 * in the kubeconfigs of the modes. In the file it is meant for the modes.
 */
export function installedSettings({ flags, file, environment }: InstalledInput): Readonly<Record<string, unknown>> {
  const settings = file === undefined ? {} : (parseYaml(file.text) as Readonly<Record<string, unknown>>);
  const kept = Object.entries(settings).filter(([key]) => !notOfTheCluster.has(key));
  const { preset, namespace, recoveryServerName, apiServerAddress } = flags;
  const typed = Object.entries({ preset, namespace, recoveryServerName, apiServerAddress });
  return {
    ...Object.fromEntries(kept),
    ...Object.fromEntries(typed.filter(([, value]) => value !== undefined)),
    parameters: environment.parameters,
    directories: environment.directories,
  };
}
