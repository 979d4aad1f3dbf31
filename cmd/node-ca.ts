// `init node-ca` and `uninstall node-ca`: CA bundles on every node of a cluster.
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import type { FlagsOf } from '../lib/config/flags.ts';
import { parseToolConfig } from '../lib/config/load.ts';
import { defaultNamespace } from '../lib/install/accounts.ts';
import { installNodeCa } from '../lib/install/node-ca-apply.ts';
import { nodeCaName } from '../lib/install/node-ca-pod.ts';
import { renderNewNode } from '../lib/install/node-ca-render.ts';
import { runUninstall } from '../lib/install/uninstall.ts';
import { problemsError } from '../lib/problems.ts';
import { connectingOf, withConnection } from '../lib/run/connections.ts';
import { exitCodes } from './exit-codes.ts';
import type { Io } from './io.ts';
import { administrator, configInput, installFlags, type InstallLine, orKubeadm } from './read-config.ts';

type NodeCaLine = InstallLine & FlagsOf<'init node-ca'>;

/** Flags, and the connection of an administrator. The nodes have the inventory: here it only has to be valid. */
function toolOf(line: InstallLine, io: Io) {
  const { flags, options, problems } = installFlags(line, io);
  const { namespace = defaultNamespace, ...others } = flags;
  const config = parseToolConfig({ ...configInput(orKubeadm(others), io), problems });
  const kubeconfig = config.kubeconfig ?? (existsSync(administrator) ? administrator : undefined);
  const print = (text: string): void => void io.stdout.write(`${text}\n`);
  return { ...options, namespace, kubeconfig, connecting: connectingOf(config, io), dryRun: config.dryRun, print };
}

export async function initNodeCaCommand({ image, staticPod = false, render, ...line }: NodeCaLine, io: Io) {
  const { kubeconfig, connecting, ...options } = toolOf(line, io);
  if (render !== undefined) {
    const directory = resolve(io.cwd, render);
    return withConnection(kubeconfig, connecting, async (connection) => {
      await renderNewNode({ ...options, api: { connection, signal: io.signal }, directory });
      return exitCodes.done;
    });
  }
  if (staticPod && image === undefined) {
    const message = 'is required with --static-pod: the image of this program, as every node can pull it';
    throw problemsError('ConfigInvalid', 'Cannot install node-ca', [{ path: '--image', kind: 'required', message }]);
  }
  return withConnection(kubeconfig, connecting, async (connection) => {
    await installNodeCa({ ...options, api: { connection, signal: io.signal }, image, staticPod });
    return exitCodes.done;
  });
}

export async function uninstallNodeCaCommand(line: InstallLine, io: Io): Promise<number> {
  const { kubeconfig, connecting, dryRun, namespace, directory, print } = toolOf(line, io);
  return withConnection(kubeconfig, connecting, async (connection) => {
    const asked = { connection, signal: io.signal, namespace, directory, dryRun, parts: ['node-ca'] } as const;
    const { removed } = await runUninstall(asked);
    for (const what of removed) print(`${dryRun ? 'Would remove' : 'Removed'} ${what}`);
    if (removed.length === 0) print(`Nothing to remove in namespace "${namespace}".`);
    print(`ConfigMap "${namespace}/${nodeCaName}" stays, and so do the files on the nodes, as they are.`);
    return exitCodes.done;
  });
}
