// `init host` and `uninstall host`: systemd units by which this machine heals itself before each start of the kubelet,
// and while it runs.
import { existsSync, readlinkSync, realpathSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ToolConfig } from '../lib/config/load.ts';
import { flagRows, isRepeatable, typedValue, type FlagRow, type FlagsOf } from '../lib/config/flags.ts';
import { parseToolConfig } from '../lib/config/load.ts';
import {
  applyHost,
  type Examined,
  examineProgram,
  type HostMachine,
  isExecutable,
  removeHost,
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
import { defaultDirectory } from '../lib/install/layout.ts';
import { controlPlaneSign, removeWorkerToken } from '../lib/install/worker-host.ts';
import { allDirectories } from '../lib/inventory/located.ts';
import { errorText, RecoveryError } from '../lib/errors.ts';
import { applyManifests } from '../lib/install/apply.ts';
import { hostManifests } from '../lib/install/rbac.ts';
import type { HostGrant } from '../lib/install/rules.ts';
import { clusterInfoText } from '../lib/kube/cluster-info.ts';
import { leaseText } from '../lib/kube/leases.ts';
import { renewalLease } from '../lib/restart/machine-lease.ts';
import { toYaml } from '../lib/yaml.ts';
import { connectingOf, withConnection } from './connections.ts';
import { type Problem, problemsError } from '../lib/problems.ts';
import { exitCodes } from './exit-codes.ts';
import type { Io } from './runtime.ts';
import { defaultBackupDir, defaultLockDir, hostServices } from '../lib/well-known.ts';
import {
  administrator,
  type CommandLine,
  configInput,
  type InstallLine,
  orKubeadm,
  resolveHere,
} from './read-config.ts';

type HostPlace = Pick<Io, 'cwd' | 'env'>;

export type HostLine = InstallLine & FlagsOf<'init host'>;

export function hostFlags({ executable, workerTokenFile: _of, ...line }: HostLine, { cwd, env }: HostPlace) {
  const refused = flagRows.filter((row) => row.units === 'refused' && typedValue(line, row) !== undefined);
  const message = 'must be left out: the units of this host do not use it';
  const problems = refused.map(({ flag }): Problem => ({ path: flag, kind: 'conflict', message }));
  const calledAs = env['KUBE_CERT_RECOVERY_CALLED'];
  const program = executable === undefined ? ownLauncher(calledAs) : resolve(cwd, executable);
  if (!isExecutable(program)) {
    const wanted = `must name the program that the units start; "${program}" is no file that can be executed`;
    problems.push({ path: '--executable', kind: 'invalid', message: wanted });
  }
  return { flags: orKubeadm(line), executable: program, problems };
}

/**
 * dist/kube-cert-recovery starts what lies in dist/app. The path by which it was called (the launcher says it) is kept as
 * far as it leads through links to directories: they are flipped to another version, and units must start that one then.
 */
function ownLauncher(calledAs = ''): string {
  const own = fileURLToPath(new URL('../kube-cert-recovery', import.meta.url));
  const called = fileBehind(calledAs);
  return realOf(called) === own ? called : own;
}

/** The file that a link such as one in /usr/local/bin names; links to directories on its way stay. */
function fileBehind(path: string, depth = 0): string {
  try {
    return depth > 40 ? path : fileBehind(resolve(dirname(path), readlinkSync(path)), depth + 1);
  } catch {
    return path; // no link, or not there
  }
}

/** The same inventory for the units as for this command, whatever directory they start in. */
export function unitFlags(flags: CommandLine, cwd: string): readonly string[] {
  const absolute = ({ as }: FlagRow, text: string): string => {
    if (as === 'path') return resolve(cwd, text);
    if (as !== 'pathsByName') return text;
    const [name, path] = [text.slice(0, text.indexOf('=')), text.slice(text.indexOf('=') + 1)];
    return `${name}=${resolve(cwd, path)}`;
  };
  const kept = flagRows.filter(({ units }) => units === 'kept');
  return [...kept.filter((row) => !isRepeatable(row)), ...kept.filter(isRepeatable)].flatMap((row) =>
    [typedValue(flags, row) ?? []]
      .flat()
      .map((text) => (text === true ? row.flag : `${row.flag}=${absolute(row, String(text))}`)),
  );
}

async function unitsOf(config: ToolConfig, told: Omit<HostUnits, 'writable' | 'manifests'>): Promise<HostUnits> {
  const { inventory, environment } = config;
  const directories = allDirectories(inventory, environment.directories ?? {});
  const declared = Object.values(directories);
  const writable = writableDirectories(await resolveHere(config), [...declared, ...ownParents(config)], realOf);
  return { ...told, before: inventory.repairsBefore, writable, manifests: manifestsDirectories(directories, realOf) };
}

/**
 * The units make the usual directories of ours. Of others the parent must be writable, so that they can be made; of what
 * lies in /run not even that is there after a boot.
 */
export function ownParents({ backupDir, lockDir }: Pick<ToolConfig, 'backupDir' | 'lockDir'>): string[] {
  const unusual = [backupDir, lockDir].filter((path) => !usual.includes(path));
  return unusual.map((path) => (path.startsWith('/run/') ? '/run' : dirname(path)));
}

/** With its links followed as far as it exists: what is not there yet is made where its directory leads. */
export function realOf(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    const parent = dirname(path);
    return parent === path ? path : join(realOf(parent), basename(path));
  }
}

/** RuntimeDirectory and StateDirectory of the service. */
const usual: readonly string[] = [defaultBackupDir, defaultLockDir];

export async function initHostCommand({ out, ...line }: HostLine, io: Io, machine?: HostMachine): Promise<number> {
  const { flags, executable, problems } = hostFlags(line, io);
  const config = parseToolConfig({ ...configInput(flags, io), problems });
  refuseWorker(allDirectories(config.inventory, config.environment.directories ?? {}));
  const adoption = out === undefined ? {} : { adoptionDirectory: resolve(io.cwd, out) };
  const renewsAhead = config.policy.ahead !== undefined;
  const units = await unitsOf(config, { executable, flags: unitFlags(flags, io.cwd), renewsAhead, ...adoption });
  const files = renderHost(units);
  if (config.dryRun) {
    const rights = hostManifests(grantOf(config)).map((one) => `---\n${toYaml(one)}`);
    const granted = rights.length === 0 ? [] : [`# Rights of this host in the API\n${rights.join('\n')}`];
    io.stdout.write([...files.map(({ path, content }) => `# ${path}\n${content}`), ...granted].join('\n'));
    return exitCodes.done;
  }
  const here = machine ?? thisMachine(io.signal);
  const examined = await examineProgram(executable, io.signal);
  if (here.systemctl !== undefined) requireProgram(examined);
  const outcome = await applyHost(files, here, units.before);
  for (const warning of examined.warnings) io.stderr.write(`${warning}\n`);
  if (outcome === undefined) {
    for (const problem of examined.problems) io.stderr.write(`--executable: ${problem}\n`);
    io.stdout.write(
      `systemd does not run here: nothing was written. Run this as root before each start of ${starterText(units.before)}, whatever its\n` +
        `exit code, and once a minute with --restart besides:\n  ${plainCommand(units).join(' ')}\n` +
        `Where the machine is adopted ("init adopt"), this once a minute, too:\n  ${repairCommand(units).join(' ')}\n`,
    );
    await grantRights(config, io);
    return exitCodes.failed;
  }
  const lines = [
    ...outcome.written.map((path) => `Wrote ${path}`),
    ...outcome.unchanged.map((path) => `Unchanged: ${path}`),
    ...outcome.absent.map((unit) => `There is no ${unit} here: until there is, only the timer repairs.`),
    `Expired certificates are reissued before each start of ${starterText(units.before)}, and looked for once a minute.`,
  ];
  io.stdout.write(`${lines.join('\n')}\n`);
  await grantRights(config, io);
  return exitCodes.done;
}

const grantOf = ({ inventory, policy }: ToolConfig): HostGrant => ({
  inventory,
  renewsAhead: policy.ahead !== undefined,
});

/**
 * What a host asks of the API: none of it is needed for a repair, so a cluster that is away now does not keep the units from
 * being written.
 */
async function grantRights(config: ToolConfig, io: Io): Promise<void> {
  const grant = grantOf(config);
  const manifests = hostManifests(grant);
  if (manifests.length === 0) return;
  const kubeconfig = config.kubeconfig ?? administrator;
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
        'certificates live a year whatever kubeadm says, and workers and new nodes get no CA that was renewed here. Run this\n' +
        `command again on one of the nodes when the API server answers (KUBECONFIG names an administrator other than ${administrator}).\n`,
    );
  }
}

/** Throws ConfigInvalid. */
function refuseWorker({ kubernetesDir = '', pkiDir = '' }: Readonly<Record<string, string>>): void {
  const isNode = existsSync(join(kubernetesDir, 'kubelet.conf'));
  if (!isNode || controlPlaneSign({ kubernetesDir, pkiDir }) !== undefined) return;
  const message =
    'Cannot find a control plane of kubeadm on this machine, which is a worker: run "kube-cert-recovery init workers" on a ' +
    'control-plane node, and here the command that it prints';
  throw new RecoveryError('ConfigInvalid', message);
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
  const { flags, problems } = hostFlags({ ...line, executable: '/proc/self/exe' }, io);
  const { dryRun, backupDir } = parseToolConfig({ ...configInput(flags, io), problems });
  const units = await removeHost(unitPaths(undefined, hostServices), {
    ...(machine ?? thisMachine(io.signal)),
    dryRun,
  });
  // After what would ask with it.
  const removed = [...units, ...(await removeWorkerToken(resolve(io.cwd, out), dryRun))];
  if (removed.length === 0) {
    io.stdout.write('Nothing to remove.\n');
    return exitCodes.done;
  }
  const lines = removed.map((path) => `${dryRun ? 'Would remove' : 'Removed'} ${path}`);
  io.stdout.write(`${[...lines, `Copies of replaced files stay in ${backupDir}.`].join('\n')}\n`);
  return exitCodes.done;
}
