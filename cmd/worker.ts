// `worker NODE`: on a control-plane node, makes the client certificate of a worker's kubelet by hand.
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { systemClock } from '../lib/clock.ts';
import type { FlagsOf } from '../lib/config/flags.ts';
import { parseToolConfig } from '../lib/config/load.ts';
import { replaceFile } from '../lib/disk/files.ts';
import { RecoveryError } from '../lib/errors.ts';
import { discoverEnvironment } from '../lib/inventory/discover/discover.ts';
import { allDirectories } from '../lib/inventory/places.ts';
import { makeNodeCertificate, readSigningAuthority, requireDeadNode } from '../lib/origin/by-hand.ts';
import { connectingOf, withConnection } from '../lib/run/connections.ts';
import { exitCodes } from './exit-codes.ts';
import { type CommandLine, configInput, orKubeadm } from './read-config.ts';
import type { Io } from './io.ts';
import { nextCommand } from '../lib/next-command.ts';

type WorkerLine = CommandLine & FlagsOf<'worker'>;

export async function workerCommandByHand(
  node: string | undefined,
  { out = '.', ...line }: WorkerLine,
  io: Io,
): Promise<number> {
  if (node === undefined) {
    const details = { usage: true };
    throw new RecoveryError('ConfigInvalid', 'Cannot make a certificate: name the Node', { details });
  }
  const config = parseToolConfig(configInput(orKubeadm(line), io));
  const { kubernetesDir = '', pkiDir = '' } = allDirectories(config.inventory, config.environment.directories ?? {});
  const [certFile, keyFile] = [join(pkiDir, 'ca.crt'), join(pkiDir, 'ca.key')];
  if (!existsSync(keyFile)) {
    const where = 'run this on a control-plane node that has it; with an external CA its owner has to sign';
    throw new RecoveryError(
      'PreconditionFailed',
      `Cannot make a certificate of node "${node}": there is no "${keyFile}"; ${where}`,
    );
  }
  const { environment } = await discoverEnvironment(config.inventory, config.environment);
  if (environment.lacks?.includes('trustedAuthority') === true) {
    const message = `Cannot make a certificate of node "${node}": the API server of this machine does not trust "${certFile}" any more; have its request approved instead: "${nextCommand('init workers')}"`;
    throw new RecoveryError('PreconditionFailed', message);
  }
  const administrator = join(kubernetesDir, 'admin.conf');
  const kubeconfig = config.kubeconfig ?? (existsSync(administrator) ? administrator : undefined);
  return withConnection(kubeconfig, connectingOf(config, io), async (connection) => {
    const now = systemClock.now();
    await requireDeadNode(node, { connection, signal: io.signal, now });
    const content = await makeNodeCertificate(node, await readSigningAuthority(certFile, keyFile), now);
    const path = resolve(io.cwd, out, `${node}-kubelet-client.pem`);
    if (!config.dryRun) await replaceFile({ path, content, mode: 0o600, what: 'certificate' });
    io.stdout.write(byHandText(node, path, now, config.dryRun));
    return exitCodes.done;
  });
}

const pki = '/var/lib/kubelet/pki';

function byHandText(node: string, path: string, now: Date, dryRun: boolean): string {
  const dated = `kubelet-client-${now.toISOString().slice(0, 19).replaceAll(/[T:]/g, '-')}.pem`;
  const name = `${node}-kubelet-client.pem`;
  return [
    `${dryRun ? 'Would write' : 'Wrote'} ${path}`,
    `Bring it to ${node} (scp), and run there, as root:`,
    '',
    `  install -m 0600 ${name} ${pki}/${dated}`,
    `  ln -sfn ${pki}/${dated} ${pki}/kubelet-client-current.pem`,
    '  systemctl restart kubelet',
    '',
    'Then delete the copies: the file holds the key of the node.',
    '',
  ].join('\n');
}
