// `init workers`: on a control-plane node, once; prints the command to run on each worker.
import { existsSync } from 'node:fs';
import { parseToolConfig } from '../lib/config/load.ts';
import { systemClock } from '../lib/clock.ts';
import { defaultNamespace } from '../lib/install/accounts.ts';
import { workerManifests } from '../lib/install/rbac.ts';
import { prepareWorkers } from '../lib/install/workers.ts';
import type { Problem } from '../lib/problems.ts';
import { toYaml } from '../lib/yaml.ts';
import { connectingOf, withConnection } from '../lib/run/connections.ts';
import { exitCodes } from './exit-codes.ts';
import { administrator, configInput, type InstallLine, orKubeadm } from './read-config.ts';
import type { Io } from './io.ts';
import { nextCommand } from '../lib/next-command.ts';

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
  const kubeconfig = config.kubeconfig ?? (existsSync(administrator) ? administrator : undefined);
  return withConnection(kubeconfig, connectingOf(config, io), async (connection) => {
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
