// What each mode is told: its settings with their defaults, its credential, and what it cannot be without. Pure.
import type { KeyAlgorithm } from '../pki/key.ts';
import { defaultBootstrapNamespace } from '../bootstrap-identity.ts';
import type { Inventory } from '../inventory/model.ts';
import { isFile } from '../inventory/places.ts';
import { componentsIn } from '../inventory/resolve.ts';
import { suggestion } from '../problems.ts';
import type { ApproverConfig, HostConfig, ModeConfig, RenewalConfig, SyncerConfig } from './config.ts';
import { missing } from './sources.ts';
import type { ConfigReading } from './sources.ts';
import type { Settings } from './schema.ts';
import { defaultBackupDir, defaultLockDir } from '../well-known.ts';

const yearMs = 365 * 86_400_000;

const keyAlgorithms: Readonly<Record<NonNullable<Settings['keyAlgorithm']>, KeyAlgorithm>> = {
  rsa2048: { name: 'RSA', bits: 2048 },
  rsa4096: { name: 'RSA', bits: 4096 },
  ecdsaP256: { name: 'ECDSA', curve: 'P-256' },
  ecdsaP384: { name: 'ECDSA', curve: 'P-384' },
};

/** Who maintains these artefacts the inventory knows; an owner leaves nobody else a turn. */
export function renewalOf({ policy, keyAlgorithm }: Settings, inventory: Inventory | undefined): RenewalConfig {
  const kind = policy?.kind ?? inventory?.policy?.kind ?? 'OnlyWhenExpired';
  return {
    policy: {
      kind,
      graceMs: policy?.grace ?? (kind === 'BeforeExpiry' ? 0 : 60_000),
      settleMs: policy?.settle ?? 1000,
    },
    keyAlgorithm: keyAlgorithm && keyAlgorithms[keyAlgorithm],
  };
}

export function hostOf({ regen }: Settings): HostConfig {
  return {
    backupDir: regen?.backupDir ?? defaultBackupDir,
    lockDir: regen?.lockDir ?? defaultLockDir,
    clockSynchronised: regen?.clockSynchronised ?? 'auto',
  };
}

/** The credential of everything that has none of its own: flag, file, KUBECONFIG. */
export function sharedKubeconfig({ input, settings, problems }: ConfigReading): string | undefined {
  if (settings.kubeconfig !== undefined) return settings.kubeconfig;
  const { KUBECONFIG: fromEnv } = input.env;
  if (fromEnv === undefined || fromEnv === '') return undefined;
  if (fromEnv.startsWith('/') && !fromEnv.includes(':')) return fromEnv;
  const message = `must be the absolute path of one file, got "${fromEnv}"`;
  problems.push({ path: 'env KUBECONFIG', kind: 'invalid', message });
  return undefined;
}

/** The most special credential holds: that of the mode, else the shared one. Flags beat the file within each. */
export function modesOf(reading: ConfigReading, inventory: Inventory | undefined): readonly ModeConfig[] {
  const { settings } = reading;
  const wanted = [...new Set(settings.modes)];
  const own = wanted.length > 0 && wanted.every((mode) => settings[mode]?.kubeconfig !== undefined);
  const shared = own ? undefined : sharedKubeconfig(reading);
  const usesApi = inventory?.artefacts.some(({ location }) => !isFile(location)) ?? false;
  return wanted.flatMap((mode): readonly ModeConfig[] => {
    const kubeconfig = settings[mode]?.kubeconfig ?? shared;
    const { locations = 'all', restart = false } = settings.regen ?? {};
    if (kubeconfig === undefined && (mode !== 'regen' || (locations !== 'disk' && usesApi))) {
      const given = ['kubeconfig', `${mode}.kubeconfig`, `--${mode}-kubeconfig`, 'env KUBECONFIG'];
      const message = `is required in mode ${mode} (or ${mode}.kubeconfig in the file, or env KUBECONFIG)`;
      missing(reading, ['--kubeconfig', ...given], message);
    }
    if (mode === 'regen') {
      return [{ mode, locations, restart, kubeconfig, ...hostOf(settings), ...renewalOf(settings, inventory) }];
    }
    if (mode === 'approver') return kubeconfig === undefined ? [] : [approverOf(settings, kubeconfig)];
    return syncerOf(reading, inventory, kubeconfig);
  });
}

function syncerOf(
  reading: ConfigReading,
  inventory: Inventory | undefined,
  kubeconfig: string | undefined,
): readonly SyncerConfig[] {
  const { destinationDir, components, cachesSyncedFile } = reading.settings.syncer ?? {};
  if (destinationDir === undefined) {
    const message = 'is required in mode syncer (or syncer.destinationDir in the file)';
    missing(reading, ['--destination-dir', 'syncer.destinationDir'], message);
  }
  if (kubeconfig === undefined || destinationDir === undefined) return [];
  if (inventory !== undefined && components !== undefined) checkComponents(reading, inventory, components);
  return [{ mode: 'syncer', kubeconfig, destinationDir, components, cachesSyncedFile, restart: restartOf(reading) }];
}

/** How it restarts readers. Settings that would do nothing are told. */
function restartOf({ settings, problems }: ConfigReading): SyncerConfig['restart'] {
  const { restart, manifestsDir, shortBackOff } = settings.syncer ?? {};
  if (restart === 'react') return { hasShortBackOff: shortBackOff ?? false, manifestsDir };
  const message = 'must be left out without syncer.restart: react';
  for (const [name, value] of Object.entries({ manifestsDir, shortBackOff }))
    if (value !== undefined) problems.push({ path: `syncer.${name}`, kind: 'conflict', message });
  return undefined;
}

export function checkComponents(reading: ConfigReading, inventory: Inventory, components: readonly string[]): void {
  const known = componentsIn(inventory);
  const path = reading.flags.syncer?.components === undefined ? 'syncer.components' : '--component';
  for (const name of components.filter((one) => !known.includes(one))) {
    const message =
      known.length === 0
        ? 'must be left out: the inventory does not say who reads what'
        : `must name components that read artefacts of the inventory (${known.join(', ')}), got "${name}"${suggestion(name, known)}`;
    reading.problems.push({ path, kind: 'notFound', message });
  }
}

function approverOf({ approver, regen }: Settings, kubeconfig: string): ApproverConfig {
  return {
    mode: 'approver',
    kubeconfig,
    nodeCertificate: approver?.nodeCertificate ?? '/var/lib/kubelet/pki/kubelet-client-current.pem',
    longestLifeMs: approver?.longestLife ?? yearMs,
    expectedNodes: approver?.expectedNodes ?? [],
    bootstrapNamespace: approver?.bootstrapNamespace ?? defaultBootstrapNamespace,
    // One machine has one clock.
    clockSynchronised: regen?.clockSynchronised ?? 'auto',
  };
}
