// Unit files by which a machine heals itself, as text: a drop-in that repairs certificates before each start of the
// kubelet, or of etcd where that is a service, and services with a timer for certificates that expire while the machine
// runs or sleeps, and for additions that an upgrade of kubeadm removes from the manifests of an adopted machine. Pure.
// All files are our own, so an upgrade of kubeadm or of the kubelet's package (which owns 10-kubeadm.conf) leaves them
// alone.
import { dirname, join } from 'node:path';
import type { Resolved } from '../inventory/model.ts';
import { filesOf, isFile } from '../inventory/places.ts';
import { usualServices } from '../well-known.ts';
import { adoptionFile, defaultDirectory } from './layout.ts';

export interface HostUnits {
  /** Absolute path of this program. */
  readonly executable: string;
  /** `--config=...` or `--preset=...` and other flags that select the inventory; the mode is added here. */
  readonly flags: readonly string[];
  /** Whether the flags, or the file that they name, enable renewal before expiry. */
  readonly renewsAhead?: boolean;
  /** Directories that a repair of certificates writes to. */
  readonly writable: readonly string[];
  /** Directories of static pods, which a repair of an adopted machine writes to. */
  readonly manifests: readonly string[];
  /** Services whose start waits for a repair. Default: the kubelet. */
  readonly before?: readonly string[] | undefined;
  /** Directory of the files of `init adopt`. Default: `defaultDirectory`. */
  readonly adoptionDirectory?: string;
  /** Directory of the administrator's units. Default: /etc/systemd/system. */
  readonly unitDirectory?: string | undefined;
}

export interface UnitFile {
  readonly path: string;
  readonly content: string;
  /** When it runs, and what it does then, for the administrator. */
  readonly does?: string | undefined;
}

export const defaultUnitDirectory = '/etc/systemd/system';
export const serviceName = 'kube-cert-recovery.service';
export const adoptedName = 'kube-cert-recovery-adopted.service';
export const timerName = 'kube-cert-recovery.timer';
export const dropInOf = (unit: string): string => `${unit}.d/20-kube-cert-recovery.conf`;

export const written = '# Written by "kube-cert-recovery init host", removed by "kube-cert-recovery uninstall host".';

/** After this time systemd ends a run of the timer: longer than the limits of its steps together. */
export const timerRunMinutes = 5;

/** Well below systemd's DefaultTimeoutStartSec (90 s), after which the kubelet's start itself would have failed. */
export const longestSeconds = 45;
export const killSeconds = 5;

type Rendered = readonly [name: string, content: (units: HostUnits) => string, does: string];

/** Unit files in the order in which they are written: units that start other units come last. */
const unitFiles = (before: readonly string[]): readonly Rendered[] => [
  [
    serviceName,
    service,
    'by the timer: reissues what has expired or is due, restarts what must read it, proves its use',
  ],
  [adoptedName, adopted, 'by the timer, on an adopted machine: puts our containers back into its static pods'],
  ...before.map((unit): Rendered => {
    const does = `before each start of ${starterText([unit])}: reissues what has expired`;
    return [dropInOf(unit), (units) => dropIn(unit, units), does];
  }),
  [timerName, timer, 'once a minute, and at the boot: starts these services'],
];

export function unitPaths(
  directory: string = defaultUnitDirectory,
  before: readonly string[] = usualServices,
): readonly string[] {
  return unitFiles(before).map(([name]) => `${directory}/${name}`);
}

export function renderHost(units: HostUnits): readonly UnitFile[] {
  const { unitDirectory = defaultUnitDirectory, before = usualServices } = units;
  const rendered = unitFiles(before);
  return rendered.map(([name, content, does]) => ({ path: `${unitDirectory}/${name}`, content: content(units), does }));
}

/** Command that other init systems run before each start of the kubelet. */
export function plainCommand({ executable, flags }: HostUnits): readonly string[] {
  return [executable, '--mode=regen', '--once', ...flags];
}

/** Command that other init systems run once a minute on an adopted machine. */
export function repairCommand({ executable, flags, adoptionDirectory }: HostUnits): readonly string[] {
  const out = adoptionDirectory === undefined ? [] : [`--out=${adoptionDirectory}`];
  return [executable, 'init', 'adopt', '--repair', ...flags, ...out];
}

/** Display name: `the kubelet`. */
export const starterText = (before: readonly string[] = usualServices): string =>
  before.map((unit) => (unit === 'kubelet.service' ? 'the kubelet' : unit.replace('.service', ''))).join(' and ');

const whyBefore = (unit: string): string =>
  unit === 'kubelet.service'
    ? `# Before each start of the kubelet: whatever has expired is reissued, so that the kubelet finds valid credentials and
# starts etcd and the API server with valid certificates.`
    : `# Before each start of ${starterText([unit])}: whatever has expired is reissued, so that it is trusted by its peers.`;

/** A start does not renew valid certificates: the timer does that, and restarts their readers. */
const beforeStart = (units: HostUnits): readonly string[] => [
  ...plainCommand(units),
  ...(units.renewsAhead === true && !units.flags.includes('--warn-only') ? ['--warn-only'] : []),
];

/** The timer may fire half a minute after a boot, and a leader waits for stale Leases for fifteen seconds. */
const afterStart = `
[Unit]
# Once it has started, the run of the timer follows: what the API server tells and takes is asked at its first answer.
Wants=${serviceName}
`;

function dropIn(unit: string, units: HostUnits): string {
  // The kubelet runs as root. The user of another service may not write its certificates: "+" runs this as root.
  const prefix = unit === 'kubelet.service' ? '-' : '-+';
  return `${written}
${whyBefore(unit)}${unit === 'kubelet.service' ? afterStart : ''}
[Service]
# Whether this fails ("-") or hangs (timeout), ${starterText([unit])} starts: its TimeoutStartSec never runs out here.
ExecStartPre=${prefix}/usr/bin/timeout --kill-after=${killSeconds}s ${longestSeconds}s ${commandLine(beforeStart(units))}
`;
}

function service(units: HostUnits): string {
  const command = commandLine([...plainCommand(units), '--restart']);
  return `${written}
[Unit]
Description=Recovery of expired control-plane certificates
# While a start of the kubelet is under way its drop-in repairs; this run then restarts what must read the files again.
# Two runs at once never write: a lock in /run keeps the second waiting.
After=kubelet.service time-sync.target
# The timer starts both. Each fails by itself.
Wants=${adoptedName}

[Service]
Type=oneshot
ExecStart=${command}
TimeoutStartSec=${timerRunMinutes}min
# Copies of what is replaced.
StateDirectory=kube-cert-recovery
StateDirectoryMode=0700
# Writes certificates and kubeconfigs, and nothing else.
${sandbox(units.writable)}
# Files keep their owners (CHOWN, FOWNER, DAC_OVERRIDE); kube-controller-manager and kube-scheduler, in containers of
# their own, are found (SYS_PTRACE) and asked to end (KILL).
CapabilityBoundingSet=CAP_CHOWN CAP_DAC_OVERRIDE CAP_FOWNER CAP_KILL CAP_SYS_PTRACE
`;
}

function adopted(units: HostUnits): string {
  return `${written}
[Unit]
Description=Repair of the static pods of an adopted control plane
# Certificates first: a repair asks the API server.
After=${serviceName}
ConditionPathExists=${adoptionFile(units.adoptionDirectory ?? defaultDirectory).replaceAll('%', '%%')}

[Service]
Type=oneshot
ExecStart=${commandLine(repairCommand(units))}
# Three pods, one after the other, three minutes each.
TimeoutStartSec=10min
# Writes manifests, and nothing else.
${sandbox(units.manifests)}
# Manifests keep their owners (CHOWN, FOWNER, DAC_OVERRIDE); a kubeadm that runs here is told from one in a container
# (SYS_PTRACE).
CapabilityBoundingSet=CAP_CHOWN CAP_DAC_OVERRIDE CAP_FOWNER CAP_SYS_PTRACE
`;
}

/** Text of a service that starts a program once, under the conditions of another service. */
export function trialOf(conditions: string, program: string): string {
  const command = `ExecStart=${commandLine([program, '--version'])}\nStandardOutput=null`;
  return conditions
    .replace(/^\[Unit\]$[^]*(?=^\[Service\]$)/m, '')
    .replace(/^ExecStart=.*$/m, () => command)
    .replace(/^TimeoutStartSec=.*$/m, 'TimeoutStartSec=30s');
}

/** Sandbox of all services. */
export function sandbox(writable: readonly string[]): string {
  return `# A timer starts this each minute: systemd's own lines (Starting, Finished, Deactivated, "was skipped because of an
# unmet condition": info) are left out. Those of the program are of the level below, and its failure is a warning.
LogLevelMax=notice
SyslogLevel=notice
ProtectSystem=strict
ReadWritePaths=${writable.map((path) => quoted(`-${path}`)).join(' ')}
# Locks and notes; they outlive the run.
RuntimeDirectory=kube-cert-recovery
RuntimeDirectoryMode=0700
RuntimeDirectoryPreserve=yes
UMask=0077
Nice=5
ProtectHome=read-only
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictNamespaces=yes
# systemctl (AF_UNIX), the API server, and the addresses of this machine (AF_NETLINK).
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM`;
}

function timer(): string {
  return timerOf('control-plane certificates');
}

/** `what`: artefacts whose expiry it checks. */
export function timerOf(what: string): string {
  return `${written}
[Unit]
Description=Looks for expired ${what}

[Timer]
# By the calendar, because such a timer also fires right after the machine was suspended or its clock was set. The
# monotonic ones (OnUnitActiveSec and its like) do not count the time for which a machine sleeps.
OnCalendar=minutely
AccuracySec=1s
# Not all machines in one second: certificates of one minute would restart all leaders at once. Each keeps its delay.
RandomizedDelaySec=30s
FixedRandomDelay=true
Persistent=yes
Unit=${serviceName}

[Install]
WantedBy=timers.target
`;
}

/** Syntax of systemd.service(5): words in quotes, with "%" and "$" doubled. */
export function commandLine(words: readonly string[]): string {
  return words.map((word) => quoted(word.replaceAll('$', '$$$$'))).join(' ');
}

function quoted(word: string): string {
  const plain = word.replaceAll('%', '%%');
  return /^[\w@%+=:,./$-]+$/.test(plain) ? plain : `"${plain.replaceAll(/["\\]/g, String.raw`\$&`)}"`;
}

/**
 * Directories in which a repair makes and replaces files, and `more`; none contains another. `real`: resolves symbolic
 * links, because systemd makes the named path writable and a repair writes to the link's target.
 */
export function writableDirectories(
  artefacts: Resolved['artefacts'],
  more: readonly string[],
  real: (path: string) => string = (path) => path,
): readonly string[] {
  const files = artefacts.flatMap(({ location }) =>
    isFile(location) ? filesOf(location).map(({ file }) => file) : [],
  );
  const named = [...files.map((file) => dirname(file)), ...more];
  const led = [...files.map((file) => dirname(real(file))), ...named.map(real)];
  const all = [...new Set([...named, ...led])].toSorted();
  return all.filter((path) => !all.some((other) => other !== path && path.startsWith(`${other}/`)));
}

/** Directories of the static pods, from the directories of an inventory; empty without kubernetesDir. */
export function manifestsDirectories(
  { kubernetesDir }: Readonly<Record<string, string>>,
  real: (path: string) => string = (path) => path,
): readonly string[] {
  if (kubernetesDir === undefined) return [];
  const named = join(kubernetesDir, 'manifests');
  return [...new Set([named, real(named)])];
}
