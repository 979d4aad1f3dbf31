// `init host` and `uninstall host`: systemd units by which this machine heals itself before each start of the kubelet,
// and while it runs.
import { resolve } from 'node:path';
import type { ToolConfig } from '../lib/config/load.ts';
import { parseToolConfig } from '../lib/config/load.ts';
import {
  applyHost,
  type Examined,
  examineProgram,
  type HostMachine,
  installedAdoption,
  installedCommand,
  removeHost,
  repairedServices,
  thisMachine,
  timeoutProblem,
} from '../lib/install/host-apply.ts';
import {
  type HostUnits,
  manifestsDirectories,
  plainCommand,
  renderHost,
  repairCommand,
  starterText,
  unitPaths,
  writableDirectories,
} from '../lib/install/host.ts';
import { changesOf, none } from '../lib/install/installed-flags.ts';
import { defaultDirectory } from '../lib/install/layout.ts';
import { isWorker, removeWorkerToken } from '../lib/install/worker-host.ts';
import { allDirectories } from '../lib/inventory/places.ts';
import { errorText, RecoveryError } from '../lib/errors.ts';
import { hostManifests } from '../lib/install/rbac.ts';
import { toYaml } from '../lib/yaml.ts';
import { type Problem, problemsError } from '../lib/problems.ts';
import { exitCodes } from './exit-codes.ts';
import { hostFlags, type HostLine, ownParents, realOf, unitFlags } from './host-flags.ts';
import { connectingOf, withConnection } from '../lib/run/connections.ts';
import { administratorOf, grantOf } from '../lib/run/host-rights.ts';
import { applyManifests } from '../lib/install/apply.ts';
import { clusterInfoText } from '../lib/kube/cluster-info.ts';
import { leaseText } from '../lib/kube/leases.ts';
import { renewalLease } from '../lib/restart/machine-lease.ts';
import type { Io } from './io.ts';
import { configInput, resolveHere } from './read-config.ts';
import { nextCommand, shellWord } from '../lib/next-command.ts';

async function unitsOf(config: ToolConfig, told: Omit<HostUnits, 'writable' | 'manifests'>): Promise<HostUnits> {
  const { inventory, environment } = config;
  const directories = allDirectories(inventory, environment.directories ?? {});
  const declared = Object.values(directories);
  const writable = writableDirectories(await resolveHere(config), [...declared, ...ownParents(config)], realOf);
  return { ...told, before: inventory.repairsBefore, writable, manifests: manifestsDirectories(directories, realOf) };
}

export async function initHostCommand({ out, ...line }: HostLine, io: Io, machine?: HostMachine): Promise<number> {
  const here = machine ?? thisMachine(io.signal);
  const before = installedCommand(here.unitDirectory);
  const { flags, executable, problems } = hostFlags(line, io, before);
  const config = parseToolConfig({ ...configInput(flags, io), problems });
  if (line.renewBefore === none && config.policy.ahead !== undefined) throw keptByFile(flags.config);
  refuseWorker(allDirectories(config.inventory, config.environment.directories ?? {}));
  const adoptionDirectory = out === undefined ? installedAdoption(here.unitDirectory) : resolve(io.cwd, out);
  const adoption = adoptionDirectory === undefined ? {} : { adoptionDirectory };
  const renewsAhead = config.policy.ahead !== undefined;
  const { unitDirectory } = here;
  const told = { executable, flags: unitFlags(flags, io.cwd), renewsAhead, unitDirectory, ...adoption };
  const units = await unitsOf(config, told);
  const files = renderHost(units);
  if (config.dryRun) {
    const rights = hostManifests(grantOf(config)).map((one) => `---\n${toYaml(one)}`);
    const granted = rights.length === 0 ? [] : [`# Rights of this host in the API\n${rights.join('\n')}`];
    io.stdout.write([...files.map(({ path, content }) => `# ${path}\n${content}`), ...granted].join('\n'));
    return exitCodes.done;
  }
  const examined = await examineProgram(executable, io.signal);
  if (here.systemctl !== undefined) requireProgram(examined);
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
  const lines = [
    ...outcome.written.map((path) => `Wrote ${path}`),
    ...outcome.unchanged.map((path) => `Unchanged: ${path}`),
    ...outcome.absent.map((unit) => `There is no ${unit} here: until there is, only the timer repairs.`),
    `Expired certificates are reissued before each start of ${starterText(units.before)}, and looked for once a minute.`,
    ...changesOf(before, [executable, ...units.flags]),
  ];
  io.stdout.write(`${lines.join('\n')}\n`);
  await grantRights(config, io);
  return exitCodes.done;
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
    const lease = grant.renewsAhead ? `take ${leaseText(renewalLease)}, ` : '';
    const without = grant.renewsAhead ? 'control-plane nodes wait until a tenth of --renew-before is left, ' : '';
    io.stderr.write(
      `The right of this host to ${lease}release its stale leader Leases, to read kubeadm's configuration and\n` +
        `to write ${clusterInfoText} is not granted:\n` +
        `${errorText(err)}.\nUntil it is, ${without}a control plane waits for stale Leases after a boot,\n` +
        'certificates live a year whatever kubeadm says, and workers and new nodes get no CA that was renewed here. A run of\n' +
        `the timer grants it by "${administratorOf(config)}" when the API server answers; "${nextCommand('status')}" says\n` +
        'whether that was so. By another administrator: set KUBECONFIG, and run this again.\n',
    );
  }
}

function keptByFile(file = ''): RecoveryError {
  const message = `cannot take away what "${file}" says (regen.renewBefore, lives); change that file`;
  const problem: Problem = { path: '--renew-before', kind: 'conflict', message };
  return problemsError('ConfigInvalid', 'Cannot use the configuration', [problem]);
}

/** Throws PreconditionFailed. */
function refuseWorker({ kubernetesDir = '', pkiDir = '' }: Readonly<Record<string, string>>): void {
  if (!isWorker({ kubernetesDir, pkiDir })) return;
  const message =
    `Cannot find a control plane of kubeadm on this machine, which is a worker: run "${nextCommand('init workers')}" on a ` +
    'control-plane node, and here the command that it prints';
  throw new RecoveryError('PreconditionFailed', message);
}

/** Throws ConfigInvalid: nothing is written then. */
export function requireProgram({ problems }: Examined): void {
  const timeout = timeoutProblem();
  const all = [
    ...problems.map((message): Problem => ({ path: '--executable', kind: 'invalid', message })),
    ...(timeout === undefined ? [] : [{ path: 'kubelet.service', kind: 'notFound', message: timeout } as const]),
  ];
  if (all.length > 0) throw problemsError('ConfigInvalid', 'Cannot install the units of this host', all);
}

export async function uninstallHostCommand(
  { out = defaultDirectory, ...line }: HostLine,
  io: Io,
  machine?: HostMachine,
): Promise<number> {
  const here = machine ?? thisMachine(io.signal);
  const { flags, problems } = hostFlags(
    { ...line, executable: '/proc/self/exe' },
    io,
    installedCommand(here.unitDirectory),
  );
  const { dryRun, backupDir, lockDir } = parseToolConfig({ ...configInput(flags, io), problems });
  const units = await removeHost(unitPaths(undefined, await repairedServices()), { ...here, dryRun });
  // After the units that authenticate with it.
  const removed = [...units, ...(await removeWorkerToken(resolve(io.cwd, out), dryRun))];
  if (removed.length === 0) {
    io.stdout.write('Nothing to remove.\n');
    return exitCodes.done;
  }
  const lines = removed.map((path) => `${dryRun ? 'Would remove' : 'Removed'} ${path}`);
  io.stdout.write(`${[...lines, ...leftLines({ backupDir, lockDir })].join('\n')}\n`);
  return exitCodes.done;
}

/** Leftovers that the administrator may also want to remove. */
const leftLines = ({ backupDir, lockDir }: Pick<ToolConfig, 'backupDir' | 'lockDir'>): readonly string[] => [
  `Copies of replaced files stay in ${backupDir}, and until the next boot notes of runs in ${lockDir}.`,
  'In the API stay the rights of the hosts and the token of the workers. Who may still use them, and how they are removed: ' +
    nextCommand('uninstall', { '--part': 'hosts,workers', '--dry-run': true }),
];
