// `init adopt` and `uninstall adopt`: a control-plane machine of kubeadm comes to read its certificates from files that
// follow objects in the API, and goes back to those of kubeadm.
import { join } from 'node:path';
import { systemClock } from '../lib/clock.ts';
import { installedSettings } from '../lib/config-installed.ts';
import { parseToolConfig } from '../lib/config.ts';
import { runAdopt } from '../lib/install/adopt.ts';
import { controlPlaneNames, joinNames, servedNames } from '../lib/install/adopt-discovery.ts';
import { runUnadopt } from '../lib/install/unadopt.ts';
import { type Discovery, discoverKubeadm } from '../lib/inventory/discover/discover.ts';
import { resolve } from '../lib/inventory/resolve.ts';
import type { KubeConnection } from '../lib/kube/kube.ts';
import { createLog } from '../lib/log.ts';
import type { Problem } from '../lib/problems.ts';
import { webhookText } from '../lib/webhooks/intercepting.ts';
import { connect } from './connections.ts';
import { exitCodes } from './exit-codes.ts';
import { installFlags, type InstallLine } from './install-flags.ts';
import type { Io } from './io.ts';
import { type CommandLine, configInput } from './read-config.ts';

export interface AdoptLine extends InstallLine {
  readonly image?: string;
}

/** Where kubeadm has its files; --directory names others. */
const usual = { kubernetesDir: '/etc/kubernetes', kubeletDir: '/var/lib/kubelet' } as const;

export async function initAdoptCommand({ image, ...line }: AdoptLine, io: Io): Promise<number> {
  const { flags, options, problems } = installFlags(line, io);
  const all: Problem[] = [...problems];
  if (image === undefined) {
    const message = 'is required: the image of this program, as the container runtime of this machine knows it';
    all.push({ path: '--image', kind: 'required', message });
  }
  const directories = directoriesOf(flags);
  const admin = { kubeconfig: join(directories.kubernetesDir, 'admin.conf'), ...given(flags) };
  // What must be right before the cluster is asked anything; names are found below.
  const early = parseToolConfig({ ...configInput(withNames(admin, ['localhost'], []), io), problems: all });
  const discovery = await discoverKubeadm({ directories, given: {} });
  const log = createLog({ ...early.log, write: (entry) => void io.stderr.write(entry) });
  const connecting = { config: early, clock: systemClock, log, signal: io.signal };
  const connection = await connect(early.kubeconfig, connecting);
  try {
    const names = await hostnamesOf(discovery, { connection, pkiDir: directories.pkiDir, signal: io.signal });
    const input = configInput(withNames(admin, names, discovery.parameters['serviceIP'] ?? []), io);
    const config = parseToolConfig(input);
    const { recoveryServerName, environment } = config;
    const { server = localServer(discovery), directory } = options;
    const told = (text: string): void => void io.stdout.write(`${text}\n`);
    const { webhooks } = await runAdopt({
      ...connecting,
      ...directories,
      connection,
      resolved: resolve(config.inventory, environment),
      directory,
      nodeName: discovery.parameters['nodeName']?.[0] ?? '',
      image: image ?? '',
      ...(flags.namespace !== undefined && { namespace: flags.namespace }),
      server,
      kubeletServer: discovery.endpoints.local ?? server,
      recoveryServerName,
      settings: installedSettings({ ...input, environment }),
      dryRun: config.dryRun,
      told,
    });
    for (const webhook of webhooks) told(webhookText(webhook));
    if (!config.dryRun) told(`For kubeadm upgrade: --patches=${join(directory, 'patches')}`);
    return exitCodes.done;
  } finally {
    await connection.close();
  }
}

export async function uninstallAdoptCommand(line: AdoptLine, io: Io): Promise<number> {
  const { flags, options, problems } = installFlags(line, io);
  const directories = directoriesOf(flags);
  const admin = { kubeconfig: join(directories.kubernetesDir, 'admin.conf'), ...given(flags) };
  const config = parseToolConfig({ ...configInput(withNames(admin, ['localhost'], []), io), problems });
  const { parameters } = await discoverKubeadm({ directories, given: {} });
  const log = createLog({ ...config.log, write: (entry) => void io.stderr.write(entry) });
  const connecting = { config, clock: systemClock, log, signal: io.signal };
  const connection = await connect(config.kubeconfig, connecting);
  try {
    await runUnadopt({
      ...connecting,
      ...directories,
      connection,
      resolved: resolve(config.inventory, config.environment),
      directory: options.directory,
      nodeName: parameters['nodeName']?.[0] ?? '',
      dryRun: config.dryRun,
      told: (text) => void io.stdout.write(`${text}\n`),
    });
    return exitCodes.done;
  } finally {
    await connection.close();
  }
}

interface Directories {
  readonly kubernetesDir: string;
  readonly pkiDir: string;
  readonly kubeletDir: string;
}

function directoriesOf({ directory = [] }: CommandLine): Directories {
  const typed = Object.fromEntries(directory.map((text) => text.split(/=(.*)/s, 2) as [string, string]));
  const { kubernetesDir = usual.kubernetesDir, kubeletDir = usual.kubeletDir } = typed;
  return { kubernetesDir, kubeletDir, pkiDir: typed['pkiDir'] ?? join(kubernetesDir, 'pki') };
}

/** The flags of the inventory's own; where kubeadm's files are it does not know. */
function given({ directory = [], ...flags }: CommandLine): CommandLine {
  const own = directory.filter((text) => !/^(kubernetesDir|kubeletDir)=/.test(text));
  return { ...flags, ...(own.length > 0 && { directory: own }) };
}

/** What the administrator gives beats what is found. */
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

/** Names that the inventory declares by itself. */
const declared = ['kubernetes', 'kubernetes.default', 'kubernetes.default.svc', 'kubernetes.default.svc.cluster.local'];

async function hostnamesOf(
  { parameters }: Discovery,
  {
    connection,
    pkiDir,
    signal,
  }: { readonly connection: KubeConnection; readonly pkiDir: string; readonly signal: AbortSignal },
): Promise<readonly string[]> {
  const own = ['nodeName', 'advertiseAddress', 'apiServerHostnames', 'clusterServiceNames'].flatMap(
    (name) => parameters[name] ?? [],
  );
  const others = await controlPlaneNames({ connection, signal });
  const serviceIP = parameters['serviceIP'] ?? [];
  return joinNames([...declared, ...serviceIP], own, await servedNames(pkiDir), others);
}

/** By address: no resolver is needed then. */
function localServer({ endpoints }: Discovery): string {
  const url = URL.parse(endpoints.local ?? '');
  const host = url?.hostname.startsWith('[') === true ? '[::1]' : '127.0.0.1';
  return `https://${host}:${url?.port || '6443'}`;
}
