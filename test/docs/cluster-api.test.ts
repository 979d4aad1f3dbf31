// Holds docs/cluster-api.md against the configuration, the rights that are used, and the command line.
import { expect, it } from 'vitest';
import { parseToolConfig } from '../../lib/config/load.ts';
import { installedPresets } from '../../lib/inventory/preset.ts';
import { expiryAnnotation } from '../../lib/run/machine-expiry.ts';
import { parseYaml } from '../../lib/yaml.ts';
import { blocks, page } from './markdown.ts';

const text = page('docs/cluster-api.md');
const [config = '', , , role = '', recipe = ''] = blocks(text).map((block) => block.text);

it('has a configuration that is one, with its Machine', () => {
  const file = { path: '/f.yaml', text: config };
  const { machine, policy } = parseToolConfig({ flags: {}, env: {}, cwd: '/', file, presets: installedPresets });
  expect(machine).toEqual({
    kubeconfig: '/etc/kubernetes/management.conf',
    namespace: 'default',
    name: 'cluster1-control-plane-x7k2p',
  });
  expect(policy.ahead?.beforeMs).toBe(60 * 86_400_000);
  expect(text).toContain(`\`${expiryAnnotation}\``);
});

it('grants what is used, for that Machine alone', () => {
  expect(parseYaml(role)).toMatchObject({
    rules: [
      {
        apiGroups: ['cluster.x-k8s.io'],
        resources: ['machines'],
        resourceNames: ['cluster1-control-plane-x7k2p'],
        verbs: ['get', 'patch'],
      },
    ],
  });
});

it('installs the units by a command line that there is', () => {
  const [command = ''] = /init host --renew-before=60d/.exec(recipe) ?? [];
  expect(command).not.toBe('');
});
