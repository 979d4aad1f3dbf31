// `init host`: systemd units by which this machine heals itself before each start of the kubelet, and while it runs.
import { resolve } from 'node:path';
import type { ToolConfig } from '../lib/config/load.ts';
import { parseToolConfig } from '../lib/config/load.ts';
import {
  applyHost,
  type HostMachine,
  installedAdoption,
  installedCommand,
  thisMachine,
} from '../lib/install/host-apply.ts';
import { formerMetrics } from '../lib/install/former-metrics.ts';
import { type HostUnits, plainCommand, renderHost, repairCommand, starterText } from '../lib/install/host.ts';
import { sameMachine } from '../lib/config/given-flags.ts';
import { systemClock } from '../lib/clock.ts';
import { unitLines } from '../lib/status/installed-text.ts';
import { changesOf, none, settingLines } from '../lib/install/installed-flags.ts';
import { absenceWarnings } from '../lib/install/program-check.ts';
import { installProgram } from '../lib/install/program-install.ts';
import { isWorker } from '../lib/install/worker-host.ts';
import { workerMode } from '../lib/install/worker-units.ts';
import { allDirectories } from '../lib/inventory/places.ts';
import { errorText, isCode, RecoveryError } from '../lib/errors.ts';
import { hostManifests } from '../lib/install/rbac.ts';
import { toYaml } from '../lib/yaml.ts';
import { type Problem, problemsError } from '../lib/problems.ts';
import { exitCodes } from './exit-codes.ts';
import { hostFlags, type HostLine, metricsFileOf, unitFlags } from './host-flags.ts';
import { checkInstallation, type Installation, printEnd, printLines, withoutFormerMetrics } from './host-report.ts';
import { hostUnitsOf } from './host-units.ts';
import { initWorkerCommand } from './init-worker.ts';
import { connectingOf, withConnection } from '../lib/run/connections.ts';
import { administratorOf, grantOf } from '../lib/run/host-rights.ts';
import { applyManifests } from '../lib/install/apply.ts';
import type { Io } from './io.ts';
import { configInput, installFormats, outputFormat } from './read-config.ts';
import { durationOfFlag } from './status-flags.ts';
import { lookAtNode } from './status.ts';
import { waitForNode } from './wait-for-node.ts';
import { nextCommand, shellWord } from '../lib/next-command.ts';

export async function initHostCommand(typed: HostLine, io: Io, machine?: HostMachine): Promise<number> {
  if (typed.workerTokenFile !== undefined) return initWorkerCommand(typed, io, machine);
  const { out, output, check = false, wait, ...line } = typed;
  const here = machine ?? thisMachine(io.signal);
  const { unitDirectory } = here;
  const before = installedCommand(unitDirectory);
  const { flags, program, problems } = hostFlags(line, io, before, here.places);
  const { executable } = program;
  const format = outputFormat(installFormats, output, problems);
  const waitMs = durationOfFlag('--wait', wait, problems);
  const config = parseToolConfig({ ...configInput(flags, io), problems });
  if (line.renewBefore === none && config.policy.ahead !== undefined) throw keptByFile(flags.config);
  const { kubernetesDir = '', pkiDir = '' } = allDirectories(config.inventory, config.environment.directories ?? {});
  if (isWorker({ kubernetesDir, pkiDir })) {
    if (before.includes(workerMode)) return initWorkerCommand(typed, io, machine);
    const message =
      `Cannot find a control plane of kubeadm on this machine, which is a worker: run "${nextCommand('init workers')}" on a ` +
      'control-plane node, and here the command that it prints';
    throw new RecoveryError('PreconditionFailed', message);
  }
  const adoptionDirectory = out === undefined ? installedAdoption(unitDirectory) : resolve(io.cwd, out);
  const adoption = adoptionDirectory === undefined ? {} : { adoptionDirectory };
  const units = await hostUnitsOf(config, { executable, flags: unitFlags(flags, io.cwd), unitDirectory, ...adoption });
  const look = { given: sameMachine(flags, io.cwd), unitDirectory };
  const now = [executable, ...units.flags];
  const installation: Installation = {
    here,
    program,
    files: renderHost(units),
    format,
    settings: settingLines(before, now),
    changes: changesOf(before, now),
    formerMetrics: await formerMetrics(metricsFileOf(before, io), config.metricsFile),
    lookHere: async () => lookAtNode(config, look, io),
  };
  if (config.dryRun) return printUnits(config, installation, io);
  for (const warning of absenceWarnings(config)) io.stderr.write(`${warning}\n`);
  return check ? checkInstallation(installation, io) : install(installation, { config, units, waitMs }, io);
}

function printUnits(config: ToolConfig, { files, program: { executable, copied } }: Installation, io: Io): number {
  const rights = hostManifests(grantOf(config)).map((one) => `---\n${toYaml(one)}`);
  const granted = rights.length === 0 ? [] : [`# Rights of this host in the API\n${rights.join('\n')}`];
  const copy = copied === undefined ? [] : [`# ${executable}\n# is a copy of ${copied.source}\n`];
  io.stdout.write([...copy, ...files.map(({ path, content }) => `# ${path}\n${content}`), ...granted].join('\n'));
  return exitCodes.done;
}

interface Installing {
  readonly config: ToolConfig;
  readonly units: HostUnits;
  /** Undefined: does not wait until the node is back. */
  readonly waitMs: number | undefined;
}

async function install(installation: Installation, { config, units, waitMs }: Installing, io: Io): Promise<number> {
  const { here, program, files, format, settings, lookHere } = installation;
  const examined = await installProgram(program, files, here, io.signal);
  const sight = waitMs === undefined ? undefined : await lookHere();
  const began = systemClock.now();
  const outcome = await applyHost(files, here, units.before);
  for (const warning of examined.warnings) io.stderr.write(`${warning}\n`);
  if (outcome === undefined) {
    for (const problem of examined.problems) io.stderr.write(`--executable: ${problem}\n`);
    io.stdout.write(
      `systemd does not run here: nothing was written. Run this as root before each start of ${starterText(units.before)}, whatever its\n` +
        `exit code, and once a minute with --restart besides:\n  ${plainCommand(units).map(shellWord).join(' ')}\n` +
        `Where the machine is adopted ("init adopt"), this once a minute, too:\n  ${repairCommand(units).map(shellWord).join(' ')}\n`,
    );
    await grantRights(config, io);
    return exitCodes.failed;
  }
  const outcomes = files.map(({ path, does }) => ({ path, does, isChanged: outcome.written.includes(path) }));
  const absent = outcome.absent.map((unit) => `There is no ${unit} here: until there is, only the timer repairs.`);
  const gone = (await withoutFormerMetrics(installation, io)).map((path) => `Removed ${path}`);
  printLines(installation, [...examined.lines, ...unitLines(outcomes, false), ...absent, ...settings, ...gone], io);
  const end = sight && (await waitForNode(lookHere, { began, waitMs, before: sight.status }, io));
  await grantRights(config, format === 'json' ? { ...io, stdout: io.stderr } : io);
  const { status } = await lookHere(); // with the rights that were granted now
  printEnd(installation, { examined, outcomes, status }, io);
  if (end !== undefined) printLines(installation, end.lines, io);
  return end?.isWell === false ? exitCodes.failed : exitCodes.done;
}

/** Applies the rights for a host's API requests: no repair needs them, so the units are written even without an API. */
async function grantRights(config: ToolConfig, io: Io): Promise<void> {
  const grant = grantOf(config);
  const manifests = hostManifests(grant);
  if (manifests.length === 0) return;
  const kubeconfig = config.kubeconfig ?? administratorOf(config);
  const print = (line: string): void => void io.stdout.write(`${line}\n`);
  try {
    await withConnection(kubeconfig, connectingOf(config, io), (connection) =>
      applyManifests({ connection, signal: io.signal }, manifests, print),
    );
  } catch (err) {
    const file = administratorOf(config);
    io.stderr.write(
      isCode(err, 'KubeUnavailable')
        ? `The API server does not answer yet. Once it does, a run of the timer grants this host its rights there, by "${file}".\n`
        : `The rights of this host in the API are not granted: ${errorText(err)}.\nA run of the timer tries it by "${file}"; ` +
            `"${nextCommand('status')}" says whether they are there. By another administrator: set KUBECONFIG, and run this again.\n`,
    );
  }
}

function keptByFile(file = ''): RecoveryError {
  const message = `cannot take away what "${file}" says (regen.renewBefore, lives); change that file`;
  const problem: Problem = { path: '--renew-before', kind: 'conflict', message };
  return problemsError('ConfigInvalid', 'Cannot use the configuration', [problem]);
}
