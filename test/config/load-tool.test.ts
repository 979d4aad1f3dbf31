// What a command is told that runs no mode, and where pairs come from that a machine cannot make.
import { describe, expect, it } from 'vitest';
import type { ConfigFlags } from '../../lib/config/flags.ts';
import { parseConfig, parseToolConfig } from '../../lib/config/load.ts';
import { installedPresets } from '../../lib/inventory/preset.ts';

const head = 'apiVersion: kube-cert-recovery/v1alpha1\nkind: Configuration\n';
const input = (flags: ConfigFlags, ...lines: readonly string[]) => ({
  flags,
  ...(lines.length > 0 && { file: { path: '/etc/recovery.yaml', text: `${head}${lines.join('\n')}\n` } }),
  env: {},
  cwd: '/home/admin',
  presets: installedPresets,
});

describe('parseToolConfig()', () => {
  it('needs no mode, no credential and no place', () => {
    const config = parseToolConfig(input({ preset: 'kubernetes', parameter: ['apiServerHostnames=a'] }));
    expect(config).toMatchObject({ inventory: { name: 'kubernetes' }, policy: { kind: 'BeforeExpiry' } });
    expect(config.kubeconfig).toBeUndefined();
  });

  it('looks with the credential of regen, unless --kubeconfig names another', () => {
    const lines = ['preset: openshift-kube-scheduler', 'kubeconfig: /shared', 'regen: { kubeconfig: /r }'];
    expect(parseToolConfig(input({}, ...lines)).kubeconfig).toBe('/r');
    expect(parseToolConfig(input({ kubeconfig: '/k' }, ...lines)).kubeconfig).toBe('/k');
  });
});

describe('regen.sources', () => {
  const parse = (source: string) =>
    parseConfig(input({ mode: 'regen', once: true }, 'preset: kubeadm', `regen: { sources: { ${source} } }`)).modes[0];

  it('is by target in files', () => {
    const command = ['/bin/fetch', 'a'];
    expect(parse('external-etcd-client: { command: [/bin/fetch, a] }')).toMatchObject({
      sources: { 'external-etcd-client': { command } },
    });
  });

  it.each([
    [
      'external-etcd-cliant: { command: [/a] }',
      /must be a target in files of this host, got "external-etcd-cliant" \(did/,
    ],
    ['external-etcd-ca: { command: [/a] }', /must be a target in files of this host, got "external-etcd-ca"/],
    ['external-etcd-client: {}', /exactly one of secret, pemPair and command/],
    [
      'external-etcd-client: { command: [fetch] }',
      /regen\.sources\.external-etcd-client\.command\[0\]: must be an absolute path/,
    ],
  ])('refuses %s', (source, message) => {
    expect(() => parse(source)).toThrow(message);
  });
});
