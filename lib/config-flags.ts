// The command line in the form of the configuration file, so that both are checked by one schema; problems name the
// flag that was typed. Pure: relative paths are seen from `cwd`, which is an argument.
import { resolve } from 'node:path';
import { settingsSchema, soundSettings } from './config-schema.ts';
import type { Settings } from './config-schema.ts';
import type { Flags } from './config-types.ts';
import { checkShape } from './inventory/shape.ts';
import type { Problem } from './problems.ts';
import { valueText } from './problems.ts';

const flagOfPath: readonly (readonly [prefix: string, flag: string])[] = [
  ['modes', '--mode'],
  ['preset', '--preset'],
  ['namespace', '--namespace'],
  ['parameters', '--parameter'],
  ['directories', '--directory'],
  ['kubeconfig', '--kubeconfig'],
  ['regen.kubeconfig', '--regen-kubeconfig'],
  ['regen.rows', '--rows'],
  ['regen.restart', '--restart'],
  ['syncer.kubeconfig', '--syncer-kubeconfig'],
  ['syncer.destinationDir', '--destination-dir'],
  ['syncer.components', '--component'],
  ['syncer.cachesSyncedFile', '--caches-synced-file'],
  ['approver.kubeconfig', '--approver-kubeconfig'],
  ['tlsServerNameOverride', '--tls-server-name-override'],
  ['recoveryServerName', '--recovery-server-name'],
  ['apiServerAddress', '--api-server-address'],
  ['healthProbeBindAddress', '--health-probe-bind-address'],
  ['log.level', '--log-level'],
  ['log.format', '--log-format'],
];

function asFlag(problem: Problem): Problem {
  const found = flagOfPath.find(
    ([prefix]) =>
      problem.path === prefix || (/^[.[]/.test(problem.path.slice(prefix.length)) && problem.path.startsWith(prefix)),
  );
  return found === undefined ? problem : { ...problem, path: found[1] };
}

/** klog's numbers, which components of Kubernetes take as `-v`: from 4 on they are for debugging. */
function levelOf(text: string): string {
  if (!/^(?:\d|10)$/.test(text)) return text;
  return Number(text) >= 4 ? 'debug' : 'info';
}

type Assignments = Readonly<Record<string, string>>;

function assignments(
  flag: string,
  wanted: string,
  given: readonly string[],
): { values: Assignments; problems: Problem[] } {
  const values: Record<string, string> = Object.create(null) as Record<string, string>;
  const problems = given.flatMap((text): Problem[] => {
    const [, name, value] = /^([A-Za-z][A-Za-z0-9]*)=(.*)$/s.exec(text) ?? [];
    if (name === undefined || value === undefined) {
      return [{ path: flag, kind: 'invalid', message: `must be ${wanted}, got ${valueText(text)}` }];
    }
    if (name in values) return [{ path: flag, kind: 'duplicate', message: `must give "${name}" once, got it again` }];
    values[name] = value;
    return [];
  });
  return { values: { ...values }, problems };
}

const listOf = (text: string): string[] => text.split(',').flatMap((part) => (part.trim() === '' ? [] : [part.trim()]));

/** Without the keys whose value is undefined, and without objects that are empty then. */
function present(object: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));
}
function group(object: Readonly<Record<string, unknown>>): Record<string, unknown> | undefined {
  const all = present(object);
  return Object.keys(all).length === 0 ? undefined : all;
}

export function settingsOfFlags(flags: Flags, cwd: string): { settings: Settings; problems: readonly Problem[] } {
  const path = (text: string | undefined): string | undefined =>
    text === undefined || text === '' ? text : resolve(cwd, text);
  const parameters = assignments('--parameter', 'name=value[,value...]', flags.parameter ?? []);
  const directories = assignments('--directory', 'name=path', flags.directory ?? []);
  const parameterLists = Object.entries(parameters.values).map(([name, text]) => [name, listOf(text)]);
  const directoryPaths = Object.entries(directories.values).map(([name, text]) => [name, path(text)]);
  const raw = present({
    modes: flags.mode === undefined ? undefined : listOf(flags.mode),
    preset: flags.preset,
    namespace: flags.namespace,
    parameters: group(Object.fromEntries(parameterLists) as Record<string, unknown>),
    directories: group(Object.fromEntries(directoryPaths) as Record<string, unknown>),
    kubeconfig: path(flags.kubeconfig),
    regen: group({ kubeconfig: path(flags.regenKubeconfig), rows: flags.rows, restart: flags.restart }),
    syncer: group({
      kubeconfig: path(flags.syncerKubeconfig),
      destinationDir: path(flags.destinationDir),
      components: flags.component?.flatMap(listOf),
      cachesSyncedFile: path(flags.cachesSyncedFile),
    }),
    approver: group({ kubeconfig: path(flags.approverKubeconfig) }),
    tlsServerNameOverride: flags.tlsServerNameOverride,
    recoveryServerName: flags.recoveryServerName,
    apiServerAddress: flags.apiServerAddress,
    healthProbeBindAddress: flags.healthProbeBindAddress,
    log: group({ level: flags.logLevel === undefined ? undefined : levelOf(flags.logLevel), format: flags.logFormat }),
    once: flags.once,
    dryRun: flags.dryRun,
  });
  const shape = checkShape(settingsSchema, raw);
  const found = [...parameters.problems, ...directories.problems];
  if ('value' in shape) return { settings: shape.value, problems: found };
  return { settings: soundSettings(raw), problems: [...found, ...shape.problems.map(asFlag)] };
}
