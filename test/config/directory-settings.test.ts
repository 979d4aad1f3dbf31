import { describe, expect, it } from 'vitest';
import { parseRunConfig, parseToolConfig } from '../../lib/config/load.ts';
import { installedPresets } from '../../lib/inventory/preset.ts';
import type { ConfigInput } from '../../lib/config/sources.ts';

const input = (text: string, preset = 'kubeadm'): ConfigInput => ({
  flags: { mode: 'regen' },
  file: {
    path: '/etc/recovery.yaml',
    text: `apiVersion: kube-cert-recovery/v1alpha1\nkind: Configuration\npreset: ${preset}\n${text}\n`,
  },
  env: {},
  cwd: '/',
  presets: installedPresets,
});

function refusal(text: string): string {
  const said = [parseRunConfig, parseToolConfig].map((parse) => {
    try {
      parse(input(text));
      return 'accepted';
    } catch (err) {
      return String(err);
    }
  });
  expect(said[0]).toBe(said[1]);
  return said[0] ?? '';
}

describe('a directory of regen', () => {
  it.each([
    ['backupDir: /etc/kubernetes/manifests', 'backupDir', '/etc/kubernetes/manifests'],
    ['backupDir: /etc/kubernetes/manifests/backups', 'backupDir', '/etc/kubernetes/manifests'],
    ['lockDir: /etc/kubernetes/manifests/lock', 'lockDir', '/etc/kubernetes/manifests'],
  ])('is refused among the manifests of static pods: %s', (setting, key, around) => {
    expect(refusal(`regen: { ${setting} }`)).toContain(`line 4: regen.${key}: must lie outside "${around}"`);
  });

  it('is refused where the manifests of this machine are', () => {
    const own = 'directories: { kubernetesDir: /k8s }\nregen: { backupDir: /k8s/manifests/backups }';
    expect(refusal(own)).toContain('line 5: regen.backupDir: must lie outside "/k8s/manifests"');
    const syncer = 'syncer: { restart: react, manifestsDir: /static }\nregen: { backupDir: /static/backups }';
    expect(refusal(syncer)).toContain('regen.backupDir: must lie outside "/static"');
  });

  it.each(['/etc/kubernetes/manifests-backups', '/etc/kubernetes/backups'])('may be %s', (path) => {
    expect(refusal(`regen: { backupDir: ${path} }`)).toBe('accepted');
  });
});

describe('a path with what no path here can have is refused', () => {
  it.each([
    ['a line break', String.raw`/pki\nx`],
    ['another control character', String.raw`/pki\x1b[2J`],
    ['bytes that are not UTF-8', '/pki\uFFFD'],
  ])('%s', (_, path) => {
    const wanted = 'must be a path in UTF-8 without line breaks and other control characters, got ';
    expect(refusal(`directories: { pkiDir: "${path}" }`)).toContain(`line 4: directories.pkiDir: ${wanted}`);
    expect(refusal(`regen: { backupDir: "${path}" }`)).toContain(`line 4: regen.backupDir: ${wanted}`);
  });

  it('by a flag, too', () => {
    const flags = { mode: 'regen', directory: ['pkiDir=/pki\nx'] };
    expect(() => parseRunConfig({ ...input(''), flags })).toThrow(/: must be a path in UTF-8 without line breaks/);
  });
});
