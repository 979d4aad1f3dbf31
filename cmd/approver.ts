// `init approver` and `uninstall approver`: mode approver as a static pod of its own on this control-plane node of
// kubeadm.
import { join } from 'node:path';
import { systemClock } from '../lib/clock.ts';
import type { FlagsOf } from '../lib/config/flags.ts';
import { installedSettings } from '../lib/config/installed-settings.ts';
import { parseToolConfig } from '../lib/config/load.ts';
import { defaultNamespace } from '../lib/install/accounts.ts';
import { givenServer, installApprover, removeApprover } from '../lib/install/approver-apply.ts';
import { allDirectories } from '../lib/inventory/places.ts';
import { directoriesOfKubeadm, discoverKubeadm } from '../lib/inventory/discover/kubeadm-machine.ts';
import { problemsError } from '../lib/problems.ts';
import { nextCommand } from '../lib/next-command.ts';
import { version } from '../lib/program.ts';
import { connectingOf, withConnection } from '../lib/run/connections.ts';
import { exitCodes } from './exit-codes.ts';
import { configInput, installFlags, type InstallLine, keptSettings, orKubeadm } from './read-config.ts';
import type { Io } from './io.ts';

type ApproverLine = InstallLine & FlagsOf<'init approver'>;

export async function initApproverCommand({ image, ...line }: ApproverLine, io: Io): Promise<number> {
  const { flags, options, problems } = installFlags(line, io);
  const { namespace: typed, ...others } = flags;
  const { preset: _ofTheMachine, ...named } = others; // its settings name none
  const kept = keptSettings(configFile(options.directory), named, io);
  const input = {
    ...configInput(others, io),
    ...(kept && { file: kept.file }),
    problems,
    defaultPreset: 'kubeadm',
  };
  const namespace = typed ?? kept?.namespace ?? defaultNamespace;
  const {
    inventory,
    environment,
    kubeconfig,
    dryRun,
    recoveryServerName,
    approver: grant,
    ...config
  } = parseToolConfig(input);
  const directories = directoriesOfKubeadm(allDirectories(inventory, environment.directories ?? {}));
  const { kubernetesDir, kubeletDir } = directories;
  const keptServer = options.server === undefined ? await givenServer(options.directory) : undefined;
  const given = options.server ?? keptServer;
  const server = given ?? (await discoverKubeadm({ directories, given: environment })).endpoints.local;
  if (server === undefined) {
    const wanted = 'is required: the address of the API server on this machine was not found in its kubeconfigs';
    throw problemsError('ConfigInvalid', 'Cannot install the approver', [
      { path: '--server', kind: 'required', message: wanted },
    ]);
  }
  const connecting = connectingOf(config, io);
  return withConnection(kubeconfig ?? join(kubernetesDir, 'admin.conf'), connecting, async (connection) => {
    const { approver = {} } = installedSettings(input, environment);
    await installApprover({
      api: { connection, signal: io.signal },
      clock: systemClock,
      directory: options.directory,
      manifestsDir: join(kubernetesDir, 'manifests'),
      image,
      namespace,
      server,
      isServerGiven: given !== undefined,
      // kubeadm's certificates hold no loopback address: there the recovery name is requested and verified.
      tlsServerName: isLoopback(server) ? recoveryServerName : undefined,
      kubeletPki: join(kubeletDir, 'pki'),
      settings: approver as object,
      grant,
      userAgent: `kube-cert-recovery/${version}`,
      dryRun,
      print: (text) => void io.stdout.write(`${text}\n`),
    });
    if (kept !== undefined && !dryRun)
      io.stdout.write(`Settings: those of ${kept.file.path}; others are given with --config.\n`);
    if (keptServer !== undefined && !dryRun)
      io.stdout.write(`API server: ${keptServer}, as given before; another is given with --server.\n`);
    if (image === undefined && !dryRun) io.stdout.write(noPodText(options.directory));
    return exitCodes.done;
  });
}

const configFile = (directory: string): string => join(directory, 'approver/config.yaml');

/** Instructions for an approver without a static pod. */
function noPodText(directory: string): string {
  const pod = nextCommand('', { '--mode': 'approver', '--config': configFile(directory) });
  return (
    'No approver runs yet: requests of kubelets stay pending. Run this again with --image for a static pod of this node, ' +
    `or have a pod of your own run: ${pod}\n`
  );
}

const isLoopback = (server: string): boolean => /^https:\/\/(localhost|127\.0\.0\.1|\[::1\])(:|\/|$)/.test(server);

export async function uninstallApproverCommand(line: InstallLine, io: Io): Promise<number> {
  const { flags, options, problems } = installFlags(line, io);
  const { inventory, environment, dryRun } = parseToolConfig({ ...configInput(orKubeadm(flags), io), problems });
  const { kubernetesDir } = directoriesOfKubeadm(allDirectories(inventory, environment.directories ?? {}));
  const print = (text: string): void => void io.stdout.write(`${text}\n`);
  await removeApprover({ directory: options.directory, manifestsDir: join(kubernetesDir, 'manifests'), dryRun, print });
  const command = nextCommand('uninstall', {
    '--part': 'approver',
    '--out': line.out,
    '--kubeconfig': line.kubeconfig,
  });
  print(`Its identity stays in the API. When no node uses it any more, remove it: ${command}`);
  return exitCodes.done;
}
