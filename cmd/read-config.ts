// Configuration of this invocation: reads the file of --config and leaves its validation to lib/config/load.ts. Flags
// outside the file's schema are validated here. Also its meaning on this machine: names and clock.
import { existsSync, readFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { resolve } from 'node:path';
import type { CommonConfig, ToolConfig } from '../lib/config/load.ts';
import { keptIn } from '../lib/config/installed-settings.ts';
import type { ConfigInput } from '../lib/config/sources.ts';
import type { FlagsOf } from '../lib/config/flags.ts';
import { errorText, RecoveryError, systemCode } from '../lib/errors.ts';
import { requireClosed } from '../lib/host/closed-path.ts';
import { defaultDirectory } from '../lib/install/layout.ts';
import { discoverEnvironment } from '../lib/inventory/discover/discover.ts';
import type { Resolved } from '../lib/inventory/model.ts';
import { installedPresets, withPreset } from '../lib/inventory/preset.ts';
import { resolve as resolveInventory } from '../lib/inventory/resolve.ts';
import type { Log } from '../lib/log.ts';
import type { ClockFacts } from '../lib/plan/clock-rules.ts';
import { builtAt as thisBuild } from '../lib/program.ts';
import { nearest, valueText } from '../lib/problems.ts';
import type { Problem } from '../lib/problems.ts';
import { clockFactsFor } from '../lib/run/runtime.ts';
import { toYaml } from '../lib/yaml.ts';
import type { Io } from './io.ts';

export type CommandLine = FlagsOf<'all' | 'modes'>;
export type InstallLine = CommandLine & FlagsOf<'init' | 'uninstall'>;

/** Administrator's kubeconfig of a kubeadm machine: the default credential. */
export const administrator = '/etc/kubernetes/admin.conf';

/** Defaults to preset kubeadm, for commands on the files of a host. */
export function orKubeadm(flags: CommandLine): CommandLine {
  const isNamed = flags.preset !== undefined || flags.config !== undefined;
  return isNamed ? flags : { ...flags, preset: 'kubeadm' };
}

/** The configuration for a worker, whose units were installed with the preset of a control-plane node. */
export const asWorker = <C extends CommonConfig>(config: C): C => withPreset(config, 'kubeadm-worker');

/** Path of --config as the units name it, independent of their directory. */
export const absoluteConfig = <L extends CommandLine>(line: L, cwd: string): L =>
  line.config === undefined ? line : { ...line, config: resolve(cwd, line.config) };

export function configInput({ config, ...flags }: CommandLine, { env, cwd }: Pick<Io, 'env' | 'cwd'>): ConfigInput {
  const input = { flags, env, cwd, hostName: hostname(), presets: installedPresets };
  if (config === undefined) return input;
  const path = resolve(cwd, config);
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (cause) {
    const message = `Cannot read configuration "${path}": ${systemCode(cause) ?? errorText(cause)}`;
    throw new RecoveryError('ConfigInvalid', message, { cause });
  }
  // Afterwards: a file that another user has put there since would show.
  requireClosed(path, { code: 'ConfigInvalid', cannot: `Cannot take configuration "${path}"` });
  return { ...input, file: { path, text } };
}

/** Settings that an earlier `init` has left at `path`, for a run that names no others; undefined: there are none. */
export function keptSettings(path: string, { config, preset }: CommandLine, io: Pick<Io, 'env' | 'cwd'>) {
  if (config !== undefined || preset !== undefined || !existsSync(path)) return undefined;
  const { settings, namespace } = keptIn(configInput({ config: path }, io).file?.text ?? '');
  return { file: { path, text: toYaml(settings) }, namespace };
}

/**
 * Resolves an inventory on this machine: where it declares discovery, names, addresses and features are discovered
 * first. Configured values override discovered ones. `isNews`: whether to log undiscovered values now. Throws
 * ConfigInvalid, InventoryInvalid.
 */
export async function resolveHere(
  { inventory, environment }: Pick<CommonConfig, 'inventory' | 'environment'>,
  log?: Pick<Log, 'warn'>,
  isNews: (text: string) => Promise<boolean> = () => Promise.resolve(true),
): Promise<Resolved> {
  const found = await discoverEnvironment(inventory, environment);
  if (found.notes.length > 0 && (await isNews(found.notes.join('\n'))))
    for (const message of found.notes) log?.warn('discovery.partial', { message });
  return resolveInventory(inventory, found.environment);
}

/** Clock facts for `status`: of now, or of another time, whose clock is unknown and assumed right. */
export async function clockFactsAt(
  at: Date | undefined,
  config: Pick<ToolConfig, 'clockSynchronised'>,
): Promise<ClockFacts> {
  return at === undefined ? clockFactsFor(config, thisBuild)(true) : { builtAt: thisBuild, synchronised: true };
}

/** Format of --output; the first one when it is absent or unknown. */
export function outputFormat<T extends string>(
  formats: readonly [T, ...T[]],
  wanted: string | undefined,
  problems: Problem[],
): T {
  const [usual] = formats;
  const format = formats.find((one) => one === (wanted ?? usual));
  if (format !== undefined) return format;
  const near = nearest(wanted ?? '', formats);
  const hint = near === undefined ? '' : ` (did you mean "${near}"?)`;
  const message = `must be one of ${formats.join(', ')}, got ${valueText(wanted)}${hint}`;
  problems.push({ path: '--output', kind: 'invalid', message });
  return usual;
}

export const installFormats = ['text', 'json'] as const;

export type InstallOptions = ReturnType<typeof installFlags>['options'];

export function installFlags(line: InstallLine, { cwd }: Pick<Io, 'cwd'>) {
  const { out = defaultDirectory, server, output: wanted, purge = false, force = false, ...rest } = line;
  const { giveBack = false, ...flags } = rest;
  const problems: Problem[] = [];
  const output = outputFormat(installFormats, wanted, problems);
  if (server !== undefined && !isServer(server)) {
    const message = `must be an address such as https://localhost:6443, got ${valueText(server)}`;
    problems.push({ path: '--server', kind: 'invalid', message });
  }
  const options = { directory: resolve(cwd, out), server, output, purge, force, giveBack };
  return { flags, options, problems };
}

function isServer(text: string): boolean {
  const url = URL.parse(text);
  return (
    url?.protocol === 'https:' && url.hostname !== '' && url.search === '' && url.hash === '' && url.username === ''
  );
}
