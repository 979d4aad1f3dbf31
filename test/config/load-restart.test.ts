import { expect, it } from 'vitest';
import { parseConfig } from '../../lib/config/load.ts';
import { installedPresets } from '../../lib/inventory/preset.ts';

function syncerWith(settings: string): unknown {
  const text = `apiVersion: kube-cert-recovery/v1alpha1\nkind: Configuration\nsyncer: { ${settings} }\n`;
  const flags = { mode: 'syncer', preset: 'kubernetes', kubeconfig: '/k', destinationDir: '/d' };
  const file = { path: '/etc/recovery.yaml', text };
  return parseConfig({ flags, file, env: {}, cwd: '/', presets: installedPresets }).modes[0];
}

it('readers are restarted only where it is told to', () => {
  expect(syncerWith('')).toMatchObject({ restart: undefined });
  expect(syncerWith('restart: report')).toMatchObject({ restart: undefined });
  expect(syncerWith('restart: react')).toMatchObject({ restart: { hasShortBackOff: false } });
  expect(syncerWith('restart: react, manifestsDir: /m, shortBackOff: true')).toMatchObject({
    restart: { manifestsDir: '/m', hasShortBackOff: true },
  });
});

it('settings of restarts that are not made are refused', () => {
  expect(() => syncerWith('manifestsDir: /m, shortBackOff: false')).toThrow(
    /syncer\.manifestsDir: must be left out without syncer\.restart: react\n.*syncer\.shortBackOff: must be left out/,
  );
  expect(() => syncerWith('restart: report, manifestsDir: /m')).toThrow(/syncer\.manifestsDir: must be left out/);
  expect(() => syncerWith('restart: sometimes')).toThrow(/syncer\.restart: must be one of report, react/);
});

it('regen restarts in single runs: one, or again and again, also where it obtains certificates', () => {
  const regenWith = (flags: object) =>
    parseConfig({
      flags: { mode: 'regen', preset: 'kubeadm-worker', restart: true, ...flags },
      env: {},
      cwd: '/',
      presets: installedPresets,
    });
  expect(regenWith({})).toMatchObject({ once: false, modes: [{ mode: 'regen', restart: true }] });
  expect(regenWith({ once: true })).toMatchObject({ once: true, modes: [{ restart: true }] });
  expect(() => regenWith({ restart: false })).toThrow(/--once: is required, or --restart/);
});
