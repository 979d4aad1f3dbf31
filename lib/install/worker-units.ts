// Units of a worker, as text: as on a control-plane node (host.ts), a drop-in that runs before each start of the
// kubelet, and a service with a timer for certificates that expire while the machine runs or sleeps. A worker has no CA
// key: its runs request certificates from the API, so they may have to wait for it. Pure.
import {
  commandLine,
  defaultUnitDirectory,
  dropInOf,
  killSeconds,
  longestSeconds,
  sandbox,
  serviceName,
  timerName,
  timerOf,
  type UnitFile,
  written,
} from './host.ts';

export interface WorkerUnits {
  /** Absolute path of this program. */
  readonly executable: string;
  /** Further flags that locate files. */
  readonly flags: readonly string[];
  /** Directories of the kubelet's client certificate, of kubelet.conf and of the CA of its clients. */
  readonly writable: readonly string[];
  /** Default: directory of the administrator's units. */
  readonly unitDirectory?: string | undefined;
}

/** Mode of the units of a worker. */
export const workerMode = 'renew-worker';

/** Longest wait of a kubelet start for the API; systemd's `timeout` sets a later limit. */
const startWaitSeconds = longestSeconds - 5;
/** Longest wait of the timer's run; the next minute starts another run. */
export const timerWaitMinutes = 5;
/** After this time systemd ends it: longer than that wait and the limits of the steps after it. */
export const workerRunMinutes = timerWaitMinutes + 2;

/** Command that other init systems run before each start of the kubelet. */
export function workerCommand({ executable, flags }: Pick<WorkerUnits, 'executable' | 'flags'>): readonly string[] {
  return [executable, workerMode, ...flags];
}

export const workerUnitPaths = (directory: string): readonly string[] =>
  [serviceName, dropInOf('kubelet.service'), timerName].map((name) => `${directory}/${name}`);

/** Unit files in the order in which they are written: units that start other units come last. */
export function renderWorker(units: WorkerUnits): readonly UnitFile[] {
  const { unitDirectory = defaultUnitDirectory } = units;
  const files = [
    [serviceName, service(units)],
    [dropInOf('kubelet.service'), dropIn(units)],
    [timerName, timerOf('client certificate of the kubelet')],
  ] as const;
  return files.map(([name, content]) => ({ path: `${unitDirectory}/${name}`, content }));
}

function dropIn(units: WorkerUnits): string {
  const command = commandLine([...workerCommand(units), `--wait=${startWaitSeconds}s`]);
  return `${written}
# Before each start of the kubelet: a CA that was renewed is followed, and an expired client certificate replaced.
[Service]
# Whether this fails ("-") or hangs (timeout), the kubelet starts: its TimeoutStartSec never runs out here.
ExecStartPre=-/usr/bin/timeout --kill-after=${killSeconds}s ${longestSeconds}s ${command}
`;
}

function service(units: WorkerUnits): string {
  const command = commandLine([...workerCommand(units), `--wait=${timerWaitMinutes}m`, '--restart-kubelet']);
  return `${written}
[Unit]
Description=Recovery of the expired client certificate of the kubelet, and of the CA
# Not after kubelet.service: a kubelet that cannot start is starting all the time, and this waits beside it for the API.
After=time-sync.target

[Service]
Type=oneshot
ExecStart=${command}
TimeoutStartSec=${workerRunMinutes}min
# Copies of what is replaced.
StateDirectory=kube-cert-recovery
StateDirectoryMode=0700
# Writes the kubelet's client certificate and the CA that it trusts, and nothing else.
${sandbox(units.writable)}
# The certificate keeps its owner.
CapabilityBoundingSet=CAP_CHOWN CAP_DAC_OVERRIDE CAP_FOWNER
`;
}
