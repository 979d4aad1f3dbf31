// `init host --worker-token-file`: the token of a worker, and systemd units that request its kubelet's next client
// certificate when the present one has expired.
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseToolConfig } from '../lib/config/load.ts';
import { errorText, RecoveryError, systemCode } from '../lib/errors.ts';
import { directoriesOf } from '../lib/install/host.ts';
import {
  applyHost,
  examineProgram,
  type HostMachine,
  installedCommand,
  thisMachine,
} from '../lib/install/host-apply.ts';
import { defaultDirectory, hostLayout, workerTokenFile } from '../lib/install/layout.ts';
import { controlPlaneSign, workerToken, writeWorkerToken } from '../lib/install/worker-host.ts';
import { renderWorker, workerCommand } from '../lib/install/worker-units.ts';
import { allDirectories, filesOf, isFile } from '../lib/inventory/places.ts';
import { exitCodes } from './exit-codes.ts';
import { hostFlags, type HostLine, ownParents, realOf, unitFlags } from './host-flags.ts';
import { requireProgram } from './host.ts';
import { asWorker, configInput, resolveHere } from './read-config.ts';
import type { Io } from './io.ts';
import { nextCommand, shellWord } from '../lib/next-command.ts';
import { sameMachine } from '../lib/config/given-flags.ts';

export async function initWorkerCommand(
  { out = defaultDirectory, workerTokenFile: source = '', ...line }: HostLine,
  io: Io,
  machine?: HostMachine,
): Promise<number> {
  const here = machine ?? thisMachine(io.signal);
  const { unitDirectory } = here;
  const { flags, executable, problems } = hostFlags(line, io, installedCommand(unitDirectory));
  const config = parseToolConfig({ ...configInput(flags, io), problems });
  const { kubernetesDir = '', pkiDir = '' } = allDirectories(config.inventory, config.environment.directories ?? {});
  const sign = controlPlaneSign({ kubernetesDir, pkiDir });
  if (sign !== undefined) {
    const message = `Cannot install this machine as a worker: "${sign}" is here, so it is a control-plane node, which needs no token; run "${nextCommand('init host', sameMachine(line, io.cwd))}"`;
    throw new RecoveryError('PreconditionFailed', message);
  }
  const { artefacts } = await resolveHere(asWorker(config));
  const unread = artefacts.flatMap((one) => (one.kind === 'external' ? (one.unread ?? []) : []))[0];
  if (unread !== undefined) throw new RecoveryError('ConfigInvalid', unread);
  const replaced = artefacts.flatMap(({ location }) => (isFile(location) ? filesOf(location) : []));
  const writable = directoriesOf(
    replaced.map(({ file }) => file),
    ownParents(config),
    realOf,
  );
  const directory = resolve(io.cwd, out);
  const path = workerTokenFile(hostLayout(directory));
  const elsewhere = directory === defaultDirectory ? [] : [`--worker-token-file=${path}`];
  const units = { executable, flags: [...unitFlags(flags, io.cwd), ...elsewhere], writable, unitDirectory };
  const files = renderWorker(units);
  if (config.dryRun) {
    io.stdout.write(files.map(({ path: unit, content }) => `# ${unit}\n${content}`).join('\n'));
    return exitCodes.done;
  }
  const token = workerToken(tokenText(source, io.cwd), source);
  const examined = await examineProgram(executable, io.signal);
  if (here.systemctl !== undefined) requireProgram(examined);
  // The token first: the units need it when they start.
  const tokenState = await writeWorkerToken(token, directory);
  const outcome = await applyHost(files, here);
  for (const warning of examined.warnings) io.stderr.write(`${warning}\n`);
  const written = [...(tokenState === 'written' ? [path] : []), ...(outcome?.written ?? [])];
  const unchanged = [...(tokenState === 'unchanged' ? [path] : []), ...(outcome?.unchanged ?? [])];
  const lines = [...written.map((one) => `Wrote ${one}`), ...unchanged.map((one) => `Unchanged: ${one}`)];
  if (outcome === undefined) {
    for (const problem of examined.problems) io.stderr.write(`--executable: ${problem}\n`);
    lines.push(
      'systemd does not run here: no unit was written. Run this as root before each start of the kubelet, whatever its',
      `exit code, and once a minute besides:\n  ${workerCommand(units).map(shellWord).join(' ')}`,
    );
  } else {
    if (outcome.absent.length > 0)
      lines.push('There is no kubelet.service here: until there is, only the timer renews.');
    lines.push(
      "When the kubelet's client certificate has expired, a new one is asked for before each start of the kubelet, and",
      'once a minute. An approver in the cluster has to approve it. A CA that the cluster has renewed is taken over.',
    );
  }
  io.stdout.write(`${lines.join('\n')}\n`);
  return outcome === undefined ? exitCodes.failed : exitCodes.done;
}

const standardInput: ReadonlySet<string> = new Set(['-', '/dev/stdin', '/proc/self/fd/0']);

/** Reads standard input by its descriptor: a socket, as ssh may use, cannot be opened by name. */
function tokenText(source: string, cwd: string): string {
  try {
    return readFileSync(standardInput.has(source) ? 0 : resolve(cwd, source), 'utf8');
  } catch (err) {
    const message = `Cannot read the token in ${source}: ${systemCode(err) ?? errorText(err)}`;
    throw new RecoveryError('ConfigInvalid', message, { cause: err });
  }
}
