// The manifest of a static pod as it lies on disk: where, whether it is that of the component, and whether our container
// is in it. Pure.
import { join } from 'node:path';
import { RecoveryError } from '../errors.ts';
import type { HealthAddress } from './readyz.ts';
import { type Container, containerName, type PodManifest, type StaticPod } from './static-pods.ts';

export function manifestPath(manifestsDir: string, pod: StaticPod): string {
  return join(manifestsDir, `${pod}.yaml`);
}

/** The value of a manifest's text as the pod that it must be. Throws MaterialInvalid. */
export function podManifest(value: unknown, pod: StaticPod, path: string): PodManifest {
  const manifest = value as Partial<PodManifest> | null | undefined;
  const containers: unknown = manifest?.spec?.containers;
  const isPod = manifest?.kind === 'Pod' && typeof manifest.metadata === 'object' && Array.isArray(containers);
  if (isPod && (containers as readonly Partial<Container>[]).some(({ name }) => name === pod)) {
    return manifest as PodManifest;
  }
  const message = `Cannot use manifest "${path}": it is no Pod with a container "${pod}"; bring the one that kubeadm wrote`;
  throw new RecoveryError('MaterialInvalid', message, { details: { path } });
}

interface Probe {
  readonly httpGet?: { readonly host?: string; readonly port?: number };
}

/** Where our container in this manifest answers for its health; undefined where the manifest has none of ours. */
export function healthAddress({ spec }: PodManifest): HealthAddress | undefined {
  const own = spec.containers.find(({ name }) => name === containerName);
  const { host, port } = (own?.['livenessProbe'] as Probe | undefined)?.httpGet ?? {};
  return host === undefined || port === undefined ? undefined : { host, port };
}

/** Whether this manifest has our container, as it was added or changed: then its syncer writes the files of the pod. */
export function runsOurs({ spec }: PodManifest): boolean {
  return spec.containers.some(({ name }) => name === containerName);
}
