// Checks regen's own directories against those of other programs on the machine. Pure.
import { posix } from 'node:path';
import { allDirectories } from '../inventory/places.ts';
import type { Inventory } from '../inventory/model.ts';
import { problemAt } from '../inventory/shape.ts';
import { valueText } from '../problems.ts';
import type { ConfigReading } from './sources.ts';

/** A kubelet starts every file among its manifests, copies of former manifests, too. */
export function checkOwnDirectories(
  { settings, file, problems }: ConfigReading,
  inventory: Pick<Inventory, 'directories'> | undefined,
): void {
  const { kubernetesDir } = allDirectories(inventory ?? {}, settings.directories);
  const manifests = [
    ...(kubernetesDir === undefined ? [] : [posix.join(kubernetesDir, 'manifests')]),
    ...(settings.syncer.manifestsDir === undefined ? [] : [settings.syncer.manifestsDir]),
  ];
  for (const field of ['backupDir', 'lockDir', 'metricsFile'] as const) {
    const path = settings.regen[field];
    const around = manifests.find((one) => path === one || path?.startsWith(`${one}/`));
    if (around === undefined) continue;
    const message = `must lie outside "${around}", where the kubelet starts whatever it finds as a static pod, got ${valueText(path)}`;
    problems.push(problemAt(file.place, ['regen', field], { kind: 'conflict', message }));
  }
}
