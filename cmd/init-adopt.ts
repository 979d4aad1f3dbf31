// `init adopt` and `uninstall adopt`: moves a control-plane machine of kubeadm to certificate files that follow objects
// in the API, and back to kubeadm's files.
import { join } from 'node:path';
import { runAdopt } from '../lib/adopt/adopt.ts';
import { controlPlaneNames, joinNames, localServer, servedNames } from '../lib/adopt/kubeadm-files.ts';
import { machineLockDir, requireManifestsFree } from '../lib/adopt/manifests-lock.ts';
import { podLayout } from '../lib/adopt/pod-files.ts';
import { runUnadopt } from '../lib/adopt/unadopt.ts';
import { systemClock } from '../lib/clock.ts';
import type { FlagsOf } from '../lib/config/flags.ts';
import { installedSettings } from '../lib/config/installed-settings.ts';
import { parseToolConfig } from '../lib/config/load.ts';
import type { Api } from '../lib/install/apply.ts';
import { adoptedNodes } from '../lib/install/install-record.ts';
import { directoriesOfKubeadm, discoverKubeadm, type Discovery } from '../lib/inventory/discover/kubeadm-machine.ts';
import { resolve } from '../lib/inventory/resolve.ts';
import type { Problem } from '../lib/problems.ts';
import { webhookText } from '../lib/webhooks/intercepting.ts';
import { connect, connectingOf } from '../lib/run/connections.ts';
import { exitCodes } from './exit-codes.ts';
import type { Io } from './io.ts';
import { type CommandLine, configInput, installFlags, type InstallLine, keptSettings } from './read-config.ts';
import { purgeCommand } from './uninstall.ts';

export type AdoptLine = InstallLine & Omit<FlagsOf<'init adopt'>, 'repair'>;

export function initAdoptCommand({ image, ...line }: AdoptLine, io: Io): Promise<number> {
  const message = 'is required: the image of this program, as the container runtime of this machine knows it';
  const missing: readonly Problem[] = image === undefined ? [{ path: '--image', kind: 'required', message }] : [];
  return onMachine(line, io, missing, async (machine) => {
    const { flags, options, directories, admin, discovery, connecting } = machine;
    const names = await hostnamesOf(discovery, { ...connecting, pkiDir: directories.pkiDir });
    const { preset, ...named } = withNames(admin, names, discovery.parameters['serviceIP'] ?? []);
    const kept = keptSettings(podLayout(options.directory, 'kube-apiserver').configFile, flags, io);
    const input = {
      ...configInput({ ...named, ...(kept === undefined && { preset }) }, io),
      ...(kept && { file: kept.file }),
    };
    const config = parseToolConfig(input);
    const { recoveryServerName, environment, approver, policy } = config;
    const { server = localServer(discovery.endpoints), directory } = options;
    const { print } = connecting;
    const webhooks = await runAdopt({
      ...connecting,
      ...directories,
      resolved: resolve(config.inventory, environment),
      directory,
      image: image ?? '',
      namespace: flags.namespace ?? kept?.namespace,
      server,
      kubeletServer: discovery.endpoints.local ?? server,
      recoveryServerName,
      settings: installedSettings(input, environment),
      approver,
      policy,
    });
    for (const webhook of webhooks) print(webhookText(webhook));
    if (!config.dryRun) print(`For kubeadm upgrade: --patches=${join(directory, 'patches')}`);
  });
}

export function uninstallAdoptCommand(line: AdoptLine, io: Io): Promise<number> {
  return onMachine(line, io, [], async ({ config, options, directories, connecting }) => {
    const resolved = resolve(config.inventory, config.environment);
    const { directory } = options;
    await runUnadopt({ ...connecting, ...directories, resolved, directory });
    const kubeconfig = config.kubeconfig ?? join(directories.kubernetesDir, 'admin.conf');
    for (const text of await leftInApi({ ...connecting, directory, kubeconfig })) connecting.print(text);
  });
}

/** Lists what stays in the API: unused signers' keys must not go unnoticed. */
export async function leftInApi({
  connection,
  signal,
  nodeName,
  directory,
  kubeconfig,
}: Api & {
  readonly nodeName: string;
  readonly directory: string;
  readonly kubeconfig: string;
}): Promise<readonly string[]> {
  const others = (await adoptedNodes({ connection, signal })).filter((name) => name !== nodeName);
  const what = "Secrets and ConfigMaps with the CAs' keys, ServiceAccounts with tokens, and their rights";
  if (others.length > 0) return [`In the API stay ${what}: static pods of ${others.join(', ')} live on them.`];
  const command = purgeCommand({ directory, kubeconfig });
  return [`In the API stay ${what}. No machine lives on them any more; to remove them: ${command}`];
}

type Machine = Awaited<ReturnType<typeof machineOf>>;

async function onMachine(
  line: AdoptLine,
  io: Io,
  found: readonly Problem[],
  run: (machine: Machine) => Promise<void>,
): Promise<number> {
  const machine = await machineOf(line, io, found);
  try {
    await run(machine);
    return exitCodes.done;
  } finally {
    await machine.connecting.connection.close();
  }
}

/** This machine, and an administrator's connection. A wrong command line is refused before the first request. */
async function machineOf(line: AdoptLine, io: Io, found: readonly Problem[]) {
  const { flags, options, problems } = installFlags(line, io);
  const typed = (flags.directory ?? []).map((text) => text.split(/=(.*)/s, 2) as [string, string]);
  const directories = directoriesOfKubeadm(Object.fromEntries(typed));
  const admin = { kubeconfig: join(directories.kubernetesDir, 'admin.conf'), ...given(flags) };
  // Names are discovered later, in the cluster.
  const input = configInput(withNames(admin, ['localhost'], []), io);
  const config = parseToolConfig({ ...input, problems: [...problems, ...found] });
  if (!config.dryRun) await requireManifestsFree({ lockDir: machineLockDir, clock: systemClock });
  const discovery = await discoverKubeadm({ directories, given: {} });
  const common = connectingOf(config, io);
  const connecting = {
    ...common,
    connection: await connect(config.kubeconfig, common),
    nodeName: discovery.parameters['nodeName']?.[0] ?? '',
    lockDir: machineLockDir,
    dryRun: config.dryRun,
    print: (text: string): void => void io.stdout.write(`${text}\n`),
  };
  return { flags, options, directories, admin, config, discovery, connecting };
}

/** Flags for the inventory, which does not know the directories of kubeadm's files. */
function given({ directory = [], ...flags }: CommandLine): CommandLine {
  const own = directory.filter((text) => !/^(kubernetesDir|kubeletDir)=/.test(text));
  return { ...flags, ...(own.length > 0 && { directory: own }) };
}

/** The administrator's flags override discovered names. */
function withNames(flags: CommandLine, hostnames: readonly string[], serviceIP: readonly string[]): CommandLine {
  const isNamed = flags.preset !== undefined || flags.config !== undefined;
  const typed = flags.parameter ?? [];
  const found = [
    ['apiServerHostnames', hostnames],
    ['serviceIP', serviceIP],
  ] as const;
  const missing = found.filter(
    ([name, values]) => values.length > 0 && !typed.some((text) => text.startsWith(`${name}=`)),
  );
  return {
    ...flags,
    ...(!isNamed && { preset: 'kubernetes' }),
    parameter: [...typed, ...missing.map(([name, values]) => `${name}=${values.join(',')}`)],
  };
}

/** Names that the inventory declares itself. */
const declared = ['kubernetes', 'kubernetes.default', 'kubernetes.default.svc', 'kubernetes.default.svc.cluster.local'];

async function hostnamesOf(
  { parameters }: Discovery,
  { connection, pkiDir, signal }: Api & { readonly pkiDir: string },
): Promise<readonly string[]> {
  const own = ['nodeName', 'advertiseAddress', 'apiServerHostnames', 'clusterServiceNames'].flatMap(
    (name) => parameters[name] ?? [],
  );
  const others = await controlPlaneNames({ connection, signal });
  const serviceIP = parameters['serviceIP'] ?? [];
  return joinNames([...declared, ...serviceIP], own, await servedNames(pkiDir), others);
}
