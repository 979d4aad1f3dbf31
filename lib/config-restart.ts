// How mode syncer restarts readers, from its settings. Pure.
import type { Reading } from './config-reading.ts';
import type { SyncerConfig } from './config-types.ts';

/** Settings that would do nothing are told. */
export function restartOf({ settings, problems }: Reading): Pick<SyncerConfig, 'restart'> {
  const { restart, manifestsDir, shortBackOff } = settings.syncer ?? {};
  if (restart === 'react') {
    return { restart: { hasShortBackOff: shortBackOff ?? false, ...(manifestsDir !== undefined && { manifestsDir }) } };
  }
  for (const [name, value] of Object.entries({ manifestsDir, shortBackOff })) {
    if (value === undefined) continue;
    problems.push({
      path: `syncer.${name}`,
      kind: 'conflict',
      message: 'must be left out without syncer.restart: react',
    });
  }
  return {};
}
