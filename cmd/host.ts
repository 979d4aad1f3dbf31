// `init host` and `uninstall host`: systemd units by which this machine heals itself before each start of the kubelet,
// and while it runs.
import { realpathSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ToolConfig } from '../lib/config-types.ts';
import { parseToolConfig } from '../lib/config.ts';
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
  unitPaths,
  writableDirectories,
} from '../lib/install/host.ts';
import { allDirectories } from '../lib/inventory/resolve.ts';
import { type Problem, problemsError } from '../lib/problems.ts';
import { exitCodes } from './exit-codes.ts';
import type { InstallLine } from './install-flags.ts';
import type { Io } from './io.ts';
import { type CommandLine, configInput, orKubeadm } from './read-config.ts';
import { resolveHere } from './resolve-here.ts';

export interface HostLine extends InstallLine {
  readonly executable?: string;
}

/** Flags that the units would not use. */
const idle = [
  ['kubeconfig', '--kubeconfig'],
  ['namespace', '--namespace'],
  ['destinationDir', '--destination-dir'],
  ['tlsServerNameOverride', '--tls-server-name-override'],
  ['recoveryServerName', '--recovery-server-name'],
  ['server', '--server'],
  ['output', '--output'],
  ['purge', '--purge'],
  ['force', '--force'],
  ['giveBack', '--give-back'],
] as const satisfies readonly (readonly [keyof Omit<HostLine, 'out'>, string])[];

interface HostFlags {
  readonly flags: CommandLine;
  readonly executable: string;
  readonly problems: readonly Problem[];
}

function hostFlags({ executable, ...line }: Omit<HostLine, 'out'>, cwd: string): HostFlags {
  const problems = idle.flatMap(([name, path]): Problem[] =>
    line[name] === undefined
      ? []
      : [{ path, kind: 'conflict', message: 'must be left out: the units of this host do not use it' }],
  );
  const program = executable === undefined ? ownLauncher() : resolve(cwd, executable);
  if (!isExecutable(program)) {
    const message = `must name the program that the units start; "${program}" is no file that can be executed`;
    problems.push({ path: '--executable', kind: 'invalid', message });
  }
  const { server: _server, output: _output, purge: _purge, force: _force, giveBack: _giveBack, ...flags } = line;
  return { flags: orKubeadm(flags), executable: program, problems };
}

/** dist/kube-cert-recovery starts what lies in dist/app. */
function ownLauncher(): string {
  return fileURLToPath(new URL('../kube-cert-recovery', import.meta.url));
}

/** The same inventory for the units as for this command, whatever directory they start in. */
export function unitFlags(flags: CommandLine, cwd: string): readonly string[] {
  const { config, preset, parameter = [], directory = [], apiServerAddress, logLevel, logFormat } = flags;
  const absolute = (text: string): string => {
    const [name, path] = [text.slice(0, text.indexOf('=')), text.slice(text.indexOf('=') + 1)];
    return `${name}=${resolve(cwd, path)}`;
  };
  const single = Object.entries({
    preset,
    'api-server-address': apiServerAddress,
    'log-level': logLevel,
    'log-format': logFormat,
  });
  return [
    ...(config === undefined ? [] : [`--config=${resolve(cwd, config)}`]),
    ...single.flatMap(([name, value]) => (value === undefined ? [] : [`--${name}=${value}`])),
    ...parameter.map((text) => `--parameter=${text}`),
    ...directory.map((text) => `--directory=${absolute(text)}`),
  ];
}

async function unitsOf(config: ToolConfig, told: Omit<HostUnits, 'writable' | 'manifests'>): Promise<HostUnits> {
  const { inventory, environment, backupDir, lockDir } = config;
  const directories = allDirectories(inventory, environment.directories ?? {});
  const declared = Object.values(directories);
  // The units make the usual ones. Of others the parent must be writable, so that they can be made; of what lies in /run
  // not even that is there after a boot.
  const parents = [backupDir, lockDir].map((path) => (path.startsWith('/run/') ? '/run' : dirname(path)));
  const more = [backupDir, lockDir].flatMap((path, at) => (usual.includes(path) ? [] : (parents[at] ?? [])));
  const writable = writableDirectories(await resolveHere(config), [...declared, ...more], realOf);
  return { ...told, writable, manifests: manifestsDirectories(directories, realOf) };
}

/** With its links followed as far as it exists: what is not there yet is made where its directory leads. */
function realOf(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    const parent = dirname(path);
    return parent === path ? path : join(realOf(parent), basename(path));
  }
}

/** RuntimeDirectory and StateDirectory of the service. */
const usual: readonly string[] = ['/var/lib/kube-cert-recovery/backups', '/run/kube-cert-recovery'];

export async function initHostCommand({ out, ...line }: HostLine, io: Io, machine?: HostMachine): Promise<number> {
  const { flags, executable, problems } = hostFlags(line, io.cwd);
  const config = parseToolConfig({ ...configInput(flags, io), problems });
  const adoption = out === undefined ? {} : { adoptionDirectory: resolve(io.cwd, out) };
  const units = await unitsOf(config, { executable, flags: unitFlags(flags, io.cwd), ...adoption });
  const files = renderHost(units);
  if (config.dryRun) {
    io.stdout.write(files.map(({ path, content }) => `# ${path}\n${content}`).join('\n'));
    return exitCodes.done;
  }
  const here = machine ?? thisMachine(io.signal);
  const examined = await examineProgram(executable, io.signal);
  if (here.systemctl !== undefined) requireProgram(examined);
  const outcome = await applyHost(files, here);
  for (const warning of examined.warnings) io.stderr.write(`${warning}\n`);
  if (outcome === undefined) {
    for (const problem of examined.problems) io.stderr.write(`--executable: ${problem}\n`);
    io.stdout.write(
      'systemd does not run here: nothing was written. Run this as root before each start of the kubelet, whatever its\n' +
        `exit code, and once a minute with --restart besides:\n  ${plainCommand(units).join(' ')}\n` +
        `Where the machine is adopted ("init adopt"), this once a minute, too:\n  ${repairCommand(units).join(' ')}\n`,
    );
    return exitCodes.failed;
  }
  const lines = [
    ...outcome.written.map((path) => `Wrote ${path}`),
    ...outcome.unchanged.map((path) => `Unchanged: ${path}`),
    ...(outcome.hasKubelet ? [] : ['There is no kubelet.service here: until there is, only the timer repairs.']),
    'Expired certificates are made anew before each start of the kubelet, and looked for once a minute.',
  ];
  io.stdout.write(`${lines.join('\n')}\n`);
  return exitCodes.done;
}

/** Throws ConfigInvalid: nothing is written then. */
function requireProgram({ problems }: Examined): void {
  const timeout = timeoutProblem();
  const all = [
    ...problems.map((message): Problem => ({ path: '--executable', kind: 'invalid', message })),
    ...(timeout === undefined ? [] : [{ path: 'kubelet.service', kind: 'notFound', message: timeout } as const]),
  ];
  if (all.length > 0) throw problemsError('ConfigInvalid', 'Cannot install the units of this host', all);
}

export async function uninstallHostCommand(
  { out: _out, ...line }: HostLine,
  io: Io,
  machine?: HostMachine,
): Promise<number> {
  const { flags, problems } = hostFlags({ ...line, executable: '/proc/self/exe' }, io.cwd);
  const { dryRun, backupDir } = parseToolConfig({ ...configInput(flags, io), problems });
  const removed = await removeHost(unitPaths(), { ...(machine ?? thisMachine(io.signal)), dryRun });
  if (removed.length === 0) {
    io.stdout.write('Nothing to remove.\n');
    return exitCodes.done;
  }
  const lines = removed.map((path) => `${dryRun ? 'Would remove' : 'Removed'} ${path}`);
  io.stdout.write(`${[...lines, `Copies of replaced files stay in ${backupDir}.`].join('\n')}\n`);
  return exitCodes.done;
}
