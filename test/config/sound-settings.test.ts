// Whatever stands in place of a setting, it is a problem with a path or no problem: never an error of the validator itself.
import { expect, it } from 'vitest';
import { parseToolConfig } from '../../lib/config/load.ts';
import { settingsSchema } from '../../lib/config/schema.ts';
import type { ConfigInput } from '../../lib/config/sources.ts';
import { soundSettings } from '../../lib/config/sound-settings.ts';
import { errorText, isCode } from '../../lib/errors.ts';
import { installedPresets } from '../../lib/inventory/preset.ts';
import { isMapping } from '../../lib/yaml.ts';

const place = { kubeconfig: '/k', namespace: 'n', name: 's' };
const whole: Readonly<Record<string, unknown>> = {
  apiVersion: 'kube-cert-recovery/v1alpha1',
  kind: 'Configuration',
  preset: 'kubeadm',
  modes: ['regen', 'approver'],
  kubeconfig: '/k',
  parameters: { nodeName: ['node-1'] },
  directories: { kubeletDir: '/kubelet' },
  once: true,
  keyAlgorithm: 'rsa4096',
  log: { level: 'info', format: 'text' },
  policy: { kind: 'OnlyWhenExpired', grace: '1m', settle: '1s' },
  lives: { apiserver: { validity: '90d', renewBefore: '45d' } },
  regen: {
    renewBefore: '30d',
    caRenewBefore: '90d',
    window: '02:00-05:00',
    warnOnly: true,
    clockSynchronised: 'auto',
    sources: {
      apiserver: { secret: place },
      'etcd-peer': { pemPair: { certFile: '/c', keyFile: '/k' } },
      'scheduler.conf': { command: ['/fetch', 'it'] },
    },
    deliveries: { 'etcd-server': { secret: place } },
    machine: place,
  },
  approver: {
    signers: ['kubelet-client', 'kubelet-serving'],
    addresses: [{ nodes: {} }, { cidrs: [{ cidr: '10.0.0.0/8' }] }],
    requesters: ['worker', { username: 'u', groups: ['g'] }],
    expectedNodes: ['node-2'],
  },
};

const oddities: readonly unknown[] = [{}, 'x', null, [], { x: 1 }, [{}], '', 0, -1, true, { secret: null }, ['../x']];

type Path = readonly (string | number)[];

function pathsIn(value: unknown, at: Path = []): Path[] {
  const inner = Array.isArray(value) ? [...value.entries()] : isMapping(value) ? Object.entries(value) : [];
  return inner.flatMap(([key, one]) => [[...at, key], ...pathsIn(one, [...at, key])]);
}

function replaced(path: Path, oddity: unknown): unknown {
  const copy = structuredClone(whole);
  const [last = '', ...above] = path.toReversed();
  let at: object = copy;
  for (const key of above.toReversed()) at = Reflect.get(at, key) as object;
  Reflect.set(at, last, oddity);
  return copy;
}

const input = (value: unknown): ConfigInput => ({
  flags: {},
  file: { path: '/c.yaml', text: JSON.stringify(value, null, 1) },
  env: {},
  cwd: '/',
  presets: installedPresets,
});

it.each(pathsIn(whole).map((path) => [path.join('.'), path] as const))('in place of %s', (_, path) => {
  for (const oddity of oddities) {
    const value = replaced(path, oddity);
    const said = JSON.stringify(oddity);
    expect(settingsSchema.safeParse(soundSettings(value as object)).success, said).toBe(true);
  }
  for (const oddity of oddities.slice(0, 5)) {
    try {
      parseToolConfig(input(replaced(path, oddity)));
    } catch (err) {
      expect(isCode(err, 'ConfigInvalid'), errorText(err)).toBe(true);
      expect(errorText(err)).toMatch(/^Cannot use the configuration: \d+ problems?\n {2}/);
    }
  }
});
