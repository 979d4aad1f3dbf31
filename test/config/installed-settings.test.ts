import { describe, expect, it } from 'vitest';
import { parseConfig } from '../../lib/config/load.ts';
import { installedSettings, keptIn } from '../../lib/config/installed-settings.ts';
import { approverConfig } from '../../lib/install/approver-pod.ts';
import { installedPresets } from '../../lib/inventory/preset.ts';
import { toYaml } from '../../lib/yaml.ts';

const environment = { parameters: { apiServerHostnames: ['api'] }, directories: {} };
const text = `apiVersion: kube-cert-recovery/v1alpha1
kind: Configuration
modes: [regen]
preset: kubernetes
kubeconfig: /admin
once: true
dryRun: true
tlsServerNameOverride: proxy
recoveryServerName: of-the-file
regen: { lockDir: /run/lock, restart: true }
syncer: { destinationDir: /elsewhere }
log: { level: debug }
`;

describe('installedSettings()', () => {
  it('keeps what the file says of the cluster, not of this run', () => {
    expect(installedSettings({ flags: {}, file: { path: '/c.yaml', text } }, environment)).toEqual({
      preset: 'kubernetes',
      tlsServerNameOverride: 'proxy',
      recoveryServerName: 'of-the-file',
      regen: { lockDir: '/run/lock' },
      log: { level: 'debug' },
      ...environment,
    });
  });

  it('takes what the flags say of the cluster, before the file', () => {
    const flags = {
      preset: 'kubernetes',
      namespace: 'ns',
      recoveryServerName: 'typed',
      apiServerAddress: '10.0.0.1:6443',
      tlsServerNameOverride: 'of this connection',
      dryRun: true,
      kubeconfig: '/admin',
    };
    const cluster = { namespace: 'ns', recoveryServerName: 'typed', apiServerAddress: '10.0.0.1:6443' };
    expect(installedSettings({ flags }, environment)).toEqual({ preset: 'kubernetes', ...cluster, ...environment });
    expect(installedSettings({ flags, file: { path: '/c.yaml', text } }, environment)).toMatchObject(cluster);
  });

  it('is a configuration, with modes and credentials', () => {
    const settings = installedSettings({ flags: {}, file: { path: '/c.yaml', text } }, environment);
    const head = { apiVersion: 'kube-cert-recovery/v1alpha1', kind: 'Configuration', modes: ['syncer'] };
    const syncer = { kubeconfig: '/k', destinationDir: '/d' };
    const file = { path: '/c.yaml', text: toYaml({ ...head, ...settings, syncer }) };
    const config = parseConfig({ flags: {}, file, env: {}, cwd: '/', presets: installedPresets });
    expect(config).toMatchObject({ once: false, dryRun: false, recoveryServerName: 'of-the-file' });
  });
});

describe('keptIn()', () => {
  it('has what the administrator gave an approver of its own, and the namespace of its accounts', () => {
    const approver = { signers: ['kubelet-client'], requesters: [{ username: 'someone', groups: ['some'] }] };
    const own = { kubeconfig: '/own/kubeconfig', bootstrapNamespace: 'elsewhere', nodeCertificate: '/pki/current.pem' };
    const head = { apiVersion: 'kube-cert-recovery/v1alpha1', kind: 'Configuration' };
    expect(keptIn(approverConfig({ ...approver, ...own }))).toEqual({
      settings: { ...head, approver },
      namespace: 'elsewhere',
    });
    expect(keptIn(approverConfig(own))).toEqual({ settings: head, namespace: 'elsewhere' });
  });
});
