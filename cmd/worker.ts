// On a control-plane node, for its workers. `worker NODE`: makes the client certificate of a worker's kubelet by hand.
// `init workers`: once; prints the command to run on each worker.
import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { systemClock } from '../lib/clock.ts';
import type { FlagsOf } from '../lib/config/flags.ts';
import { parseToolConfig, type ToolConfig } from '../lib/config/load.ts';
import { replaceFile } from '../lib/disk/files.ts';
import { RecoveryError } from '../lib/errors.ts';
import { discoverEnvironment } from '../lib/inventory/discover/discover.ts';
import { allDirectories } from '../lib/inventory/places.ts';
import { makeNodeCertificate, readSigningAuthority, requireDeadNode } from '../lib/origin/by-hand.ts';
import { connectingOf, withConnection } from '../lib/run/connections.ts';
import { administratorOf } from '../lib/run/host-rights.ts';
import { exitCodes } from './exit-codes.ts';
import { type CommandLine, configInput, type InstallLine, orKubeadm } from './read-config.ts';
import type { Io } from './io.ts';
import { nextCommand } from '../lib/next-command.ts';
import { defaultNamespace } from '../lib/install/accounts.ts';
import { workerManifests } from '../lib/install/rbac.ts';
import { prepareWorkers } from '../lib/install/workers.ts';
import type { Problem } from '../lib/problems.ts';
import { toYaml } from '../lib/yaml.ts';

function kubeconfigOf(config: ToolConfig): string | undefined {
  const administrator = administratorOf(config);
  return config.kubeconfig ?? (existsSync(administrator) ? administrator : undefined);
}

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
  const { pkiDir = '' } = allDirectories(config.inventory, config.environment.directories ?? {});
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
  return withConnection(kubeconfigOf(config), connectingOf(config, io), async (connection) => {
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

export async function initWorkersCommand({ out, server, output, ...line }: InstallLine, io: Io): Promise<number> {
  const message = 'must be left out: nothing is written on this machine';
  const problems = Object.entries({ '--out': out, '--server': server, '--output': output }).flatMap(
    ([path, value]): Problem[] => (value === undefined ? [] : [{ path, kind: 'conflict', message }]),
  );
  const config = parseToolConfig({ ...configInput(orKubeadm(line), io), problems });
  const { namespace = defaultNamespace } = line;
  if (config.dryRun) {
    io.stdout.write(
      workerManifests(namespace)
        .map((manifest) => toYaml(manifest))
        .join('---\n'),
    );
    return exitCodes.done;
  }
  return withConnection(kubeconfigOf(config), connectingOf(config, io), async (connection) => {
    const outcome = await prepareWorkers({ connection, signal: io.signal }, namespace, systemClock);
    io.stdout.write(workersText(outcome));
    if (outcome.approvers.length === 0) io.stderr.write(noApprover(namespace));
    return exitCodes.done;
  });
}

/** `<<<` is handled by the shell itself: the token appears in no list of processes. */
function workersText({ created, updated, token }: Awaited<ReturnType<typeof prepareWorkers>>): string {
  return [
    ...created.map((what) => `Created ${what}`),
    ...updated.map((what) => `Updated ${what}`),
    'Run this on each worker, as root:',
    '',
    `  ${nextCommand('init host', { '--worker-token-file': '/dev/stdin' })} <<< '${token}'`,
    '',
    'With the token a worker asks for a new certificate when that of its kubelet has expired. It gives nobody the name of a',
    "node: a request is approved only when it is signed with the key of that node's expired certificate and shows it.",
    '',
  ].join('\n');
}

const noApprover = (namespace: string): string =>
  `No pod in kube-system or ${namespace} is seen to run mode approver: unless one runs elsewhere, what workers ask for stays\n` +
  `pending. An adopted control plane has one; on another, run "${nextCommand('init approver')}" with its --image\n` +
  `(docs/approver.md). By hand: kubectl certificate approve NAME, or "${nextCommand('worker NODE')}".\n`;
