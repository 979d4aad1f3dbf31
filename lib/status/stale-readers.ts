// Processes of this machine that have read a CA at their start and run with a former one, where nothing here restarts them:
// etcd as a service of its own. They refuse everybody once that has ended, whatever lies on disk.
import { statSync } from 'node:fs';
import { type ComponentName, componentNames, controlPlane } from '../components.ts';
import { isSamePlace, placeOf } from '../host/mounts.ts';
import {
  kernelBootTimeMs,
  ourPlaces,
  type ProcessFacts,
  procText,
  readProcesses,
  ticksPerSecond,
} from '../host/proc.ts';
import type { Resolved } from '../inventory/model.ts';
import { componentsOf, flagOf } from '../restart/decide.ts';

/** A start in the same moment as the change has read what is there: /proc counts hundredths, the boot whole seconds. */
const roundedMs = 2000;

const isComponent = (name: string): name is ComponentName => (componentNames as readonly string[]).includes(name);

/** One sentence for each. What cannot be seen is not told. */
export function staleReaders(resolved: Resolved): readonly string[] {
  try {
    return toldOf(resolved);
  } catch {
    return [];
  }
}

function toldOf(resolved: Resolved): readonly string[] {
  const restarted: readonly string[] = componentsOf(resolved).map(({ name }) => name);
  const bootedAt = kernelBootTimeMs();
  if (bootedAt === undefined) return [];
  return resolved.artefacts.flatMap(({ kind, name, location, readers }) => {
    if (kind !== 'signer' || location.kind !== 'pemPair') return [];
    const changedAt = statSync(location.certFile, { throwIfNoEntry: false })?.mtimeMs;
    return readers.flatMap(({ component, needs }) => {
      if (needs !== 'restart' || restarted.includes(component) || !isComponent(component)) return [];
      return processesWith(component, location.certFile).flatMap(({ pid, started }) =>
        changedAt !== undefined && bootedAt + (started * 1000) / ticksPerSecond + roundedMs < changedAt
          ? [
              `${name}: ${component} (process ${pid}) runs since before it was renewed, and reads it at its start only: ` +
                'restart it, one machine after the other, each when the others are healthy',
            ]
          : [],
      );
    });
  });
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
