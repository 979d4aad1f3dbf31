// `init host` on a worker: its token, which a later run keeps, and systemd units that request its kubelet's next client
// certificate when the present one has expired.
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseToolConfig } from '../lib/config/load.ts';
import { errorText, RecoveryError, systemCode } from '../lib/errors.ts';
import { formerMetrics } from '../lib/install/former-metrics.ts';
import { applyHost, type HostMachine, installedCommand, thisMachine } from '../lib/install/host-apply.ts';
import { tokenFlags, workerDirectory } from '../lib/install/installed-flags.ts';
import { defaultDirectory, hostLayout, workerTokenFile } from '../lib/install/layout.ts';
import { installProgram } from '../lib/install/program-install.ts';
import { controlPlaneSign, workerToken, writeWorkerToken } from '../lib/install/worker-host.ts';
import { renderWorker, workerCommand } from '../lib/install/worker-units.ts';
import { allDirectories } from '../lib/inventory/places.ts';
import { exitCodes } from './exit-codes.ts';
import { hostFlags, type HostLine, metricsFileOf, unitFlags } from './host-flags.ts';
import { workerUnitsOf } from './host-units.ts';
import { asWorker, configInput, installFormats, outputFormat, resolveHere } from './read-config.ts';
import type { Io } from './io.ts';
import { unitLines } from '../lib/status/installed-text.ts';
import { checkInstallation, printEnd, printLines, withoutFormerMetrics } from './host-report.ts';
import { lookAtNode } from './status.ts';
import { nextCommand, shellWord } from '../lib/next-command.ts';
import { sameMachine } from '../lib/config/given-flags.ts';

export async function initWorkerCommand(
  { out, output, workerTokenFile: given, check = false, wait, ...line }: HostLine,
  io: Io,
  machine?: HostMachine,
): Promise<number> {
  const here = machine ?? thisMachine(io.signal);
  const { unitDirectory } = here;
  const before = installedCommand(unitDirectory);
  const { flags, program, problems } = hostFlags(line, io, before, here.places);
  const format = outputFormat(installFormats, output, problems);
  if (wait !== undefined) problems.push({ path: '--wait', kind: 'conflict', message: 'must be left out on a worker' });
  const config = parseToolConfig({ ...configInput(flags, io), problems });
  const { kubernetesDir = '', pkiDir = '' } = allDirectories(config.inventory, config.environment.directories ?? {});
  const sign = controlPlaneSign({ kubernetesDir, pkiDir });
  if (sign !== undefined) {
    const message = `Cannot install this machine as a worker: "${sign}" is here, so it is a control-plane node, which needs no token; run "${nextCommand('init host', sameMachine(line, io.cwd))}"`;
    throw new RecoveryError('PreconditionFailed', message);
  }
  const resolved = await resolveHere(asWorker(config));
  const unread = resolved.artefacts.flatMap((one) => (one.kind === 'external' ? (one.unread ?? []) : []))[0];
  if (unread !== undefined) throw new RecoveryError('ConfigInvalid', unread);
  const directory = out === undefined ? workerDirectory(before) : resolve(io.cwd, out);
  const path = workerTokenFile(hostLayout(directory));
  const elsewhere = tokenFlags(directory === defaultDirectory ? undefined : path);
  const told = { executable: program.executable, flags: [...unitFlags(flags, io.cwd), ...elsewhere], unitDirectory };
  const units = workerUnitsOf(config, resolved, told);
  const files = renderWorker(units);
  if (config.dryRun) {
    io.stdout.write(files.map(({ path: unit, content }) => `# ${unit}\n${content}`).join('\n'));
    return exitCodes.done;
  }
  const source = given ?? path;
  const token = workerToken(tokenText(source, io.cwd), source);
  const look = { given: sameMachine(flags, io.cwd), unitDirectory };
  const lookHere = async () => lookAtNode(asWorker(config), look, io);
  const former = await formerMetrics(metricsFileOf(before, io), config.metricsFile);
  const installation = { here, program, files, format, settings: [], changes: [], formerMetrics: former, lookHere };
  if (check) return checkInstallation({ ...installation, files: [{ path, content: token }, ...files] }, io);
  const examined = await installProgram(program, files, here, io.signal);
  // The token first: the units need it when they start.
  const tokenState = await writeWorkerToken(token, directory);
  const outcome = await applyHost(files, here);
  for (const warning of examined.warnings) io.stderr.write(`${warning}\n`);
  const installed = outcome === undefined ? [] : files.map((one) => one.path);
  const changes = installed.map((one) => ({ path: one, isChanged: outcome?.written.includes(one) === true }));
  const outcomes = [{ path, isChanged: tokenState === 'written' }, ...changes];
  printLines(installation, [...examined.lines, ...unitLines(outcomes, false)], io);
  if (outcome === undefined) {
    for (const problem of examined.problems) io.stderr.write(`--executable: ${problem}\n`);
    io.stdout.write(
      'systemd does not run here: no unit was written. Run this as root before each start of the kubelet, whatever its\n' +
        `exit code, and once a minute besides:\n  ${workerCommand(units).map(shellWord).join(' ')}\n`,
    );
    return exitCodes.failed;
  }
  const absent = outcome.absent.map((unit) => `There is no ${unit} here: until there is, only the timer renews.`);
  const lines = [
    ...absent,
    "When the kubelet's client certificate has expired, a new one is asked for before each start of the kubelet, and",
    'once a minute. An approver in the cluster has to approve it. A CA that the cluster has renewed is taken over.',
  ];
  const gone = (await withoutFormerMetrics(installation, io)).map((one) => `Removed ${one}`);
  printLines(installation, [...lines, ...gone], io);
  printEnd(installation, { examined, outcomes, status: (await lookHere()).status }, io);
  return exitCodes.done;
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
