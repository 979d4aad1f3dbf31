// Processes of this machine that have read a CA at their start and run with a former one, where no kubelet starts them again:
// etcd as a service of its own. Once the former CA has ended they refuse every new connection, whatever lies on disk.
//
// Before that nothing here restarts them: whether the other members can do without this one is not known on this machine, so
// `status` asks for it. After that nobody can connect to them anyway, so their unit is restarted at once.
import { statSync } from 'node:fs';
import type { Clock } from '../clock.ts';
import { type ComponentName, componentNames, controlPlane } from '../components.ts';
import { errorText } from '../errors.ts';
import { isSamePlace, placeOf } from '../host/mounts.ts';
import { ourPlaces, type ProcessFacts, procText, readProcesses, ticksPerSecond } from '../host/proc.ts';
import { mainPidOf, runSystemctl, systemdRuns, unitOf } from '../host/systemd.ts';
import { certificateKey } from '../inventory/content.ts';
import type { Location, Resolved } from '../inventory/model.ts';
import type { Log } from '../log.ts';
import { wholeCertificates } from '../pki/certificate.ts';
import type { Store } from '../store/store.ts';
import { componentsOf, flagOf } from './decide.ts';

interface StaleReader {
  readonly artefact: string;
  readonly location: Location;
  readonly component: ComponentName;
  readonly process: ProcessFacts;
}

/** A start in the same moment as the change may have read either: /proc counts hundredths of a second. */
const roundedMs = 50;

const isComponent = (name: string): name is ComponentName => (componentNames as readonly string[]).includes(name);

/** What cannot be seen is not told. */
function staleReaders(resolved: Resolved, clock: Clock): readonly StaleReader[] {
  const restarted: readonly string[] = componentsOf(resolved).map(({ name }) => name);
  const uptime = clock.uptimeSeconds();
  if (uptime === undefined) return [];
  const bootedAt = clock.now().getTime() - uptime * 1000;
  return resolved.artefacts.flatMap(({ kind, name, location, readers }) => {
    if (kind !== 'signer' || location.kind !== 'pemPair') return [];
    const changedAt = changeOf(location.certFile);
    return readers.flatMap(({ component, needs }) => {
      if (needs !== 'restart' || restarted.includes(component) || !isComponent(component)) return [];
      return processesWith(component, location.certFile).flatMap((process) =>
        bootedAt + (process.started * 1000) / ticksPerSecond + roundedMs < changedAt
          ? [{ artefact: name, location, component, process }]
          : [],
      );
    });
  });
}

function changeOf(path: string): number {
  try {
    return statSync(path).mtimeMs;
  } catch {
    return 0;
  }
}

/** Those that name this file, by a flag or, as etcd takes it, by an environment variable. */
function processesWith(component: ComponentName, file: string): readonly ProcessFacts[] {
  const { toldBy } = controlPlane[component];
  const places = ourPlaces(file);
  const variable = `${component}_${toldBy}`.replaceAll('-', '_').toUpperCase();
  return readProcesses([component]).filter(({ pid, argv, mountinfo }) => {
    const set = (procText(`/proc/${pid}/environ`) ?? '').split('\0').find((one) => one.startsWith(`${variable}=`));
    const named = flagOf(argv, toldBy) ?? set?.slice(variable.length + 1);
    const place = named === undefined ? undefined : placeOf(mountinfo, named);
    return places.some((one) => isSamePlace(place, one));
  });
}

/** For `status`, one sentence for each. */
export const staleReaderTexts = (resolved: Resolved, clock: Clock): readonly string[] =>
  staleReaders(resolved, clock).map(
    ({ artefact, component, process: { pid } }) =>
      `${artefact}: ${component} (process ${pid}) runs since before it was renewed, and reads it at its start only: ` +
      'restart it, one machine after the other, each when the others are healthy',
  );

interface Ending {
  readonly resolved: Resolved;
  /** Of the files of this host, with their backups. */
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

const systemctlMs = 10_000;

/** Of services whose former CA has ended. Answers what has to be restarted by somebody else. */
export async function restartEnded({ resolved, store, clock, log, signal }: Ending): Promise<readonly string[]> {
  const failures: string[] = [];
  for (const { artefact, location, component, process: reader } of staleReaders(resolved, clock)) {
    const former = await store.backup?.(location).catch(() => undefined);
    const [read] = wholeCertificates(former?.entries[certificateKey] ?? new Uint8Array());
    if (read === undefined || clock.now() < read.facts.notAfter) continue;
    const unit = unitOf(reader.cgroup);
    const isMain = unit !== undefined && systemdRuns() && (await mainPidOf(unit, signal)) === reader.pid;
    try {
      if (!isMain) throw new Error('no unit of systemd starts it again; restart it');
      // A member that waits for the others is not ready, and they may be waiting for it.
      await runSystemctl(['--no-block', 'restart', unit], { timeoutMs: systemctlMs, signal });
      log.info('restart.done', { component, message: `systemctl restart ${unit}: its former CA has ended` });
    } catch (err) {
      const failure = `${component} runs with a former ${artefact}, which has ended: ${errorText(err)}`;
      log.warn('restart.failed', { component, err: failure });
      failures.push(failure);
    }
  }
  return failures;
}
