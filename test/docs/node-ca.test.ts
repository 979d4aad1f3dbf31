// Holds docs/node-ca.md against the pod, the preset and the names of the code. Its commands are run by
// test/integration/node-ca-install.test.ts.
import { expect, it } from 'vitest';
import { parseConfig } from '../../lib/config/load.ts';
import { accountName } from '../../lib/install/accounts.ts';
import { nodeCaStaticPod } from '../../lib/install/node-ca-pod.ts';
import { isFile, isObject } from '../../lib/inventory/places.ts';
import { installedPresets, loadPreset } from '../../lib/inventory/preset.ts';
import { defaultOverlapMs, retiredAnnotation } from '../../lib/plan/union-rules.ts';
import { blocks, codes, page, section, tables } from './markdown.ts';

const text = page('docs/node-ca.md');

it('names the directories that the pod has of the machine, those that it may write first', () => {
  const { spec } = nodeCaStaticPod({ image: 'i', namespace: 'n' }) as {
    spec: { volumes: { hostPath: { path: string } }[]; containers: [{ volumeMounts: { readOnly?: boolean }[] }] };
  };
  const rows = tables(section(text, 'Install'))[0] ?? [];
  expect(rows.map(([path = '']) => codes(path)[0])).toEqual(spec.volumes.map(({ hostPath }) => hostPath.path));
  const readOnly = rows.map(([, what = '']) => what.startsWith('read only'));
  expect(readOnly).toEqual(spec.containers[0].volumeMounts.map(({ readOnly: only }) => only === true));
});

it('has every file of the preset, and where its CAs are from', () => {
  const { artefacts } = loadPreset('node-ca');
  const keys = artefacts.flatMap(({ location }) => (isObject(location) ? (location.key ?? []) : []));
  const [rows = []] = tables(text);
  expect([...new Set(rows.map(([, from = '']) => codes(from)[0]))]).toEqual(keys);
  const named = new Set(rows.flatMap(([file = '']) => codes(file)));
  const files = artefacts.flatMap((one) => (isFile(one.location) && one.name.endsWith('.conf') ? [one.name] : []));
  expect(files.filter((file) => !named.has(file))).toEqual([]);
});

it('names the annotation, the overlap and the manifest', () => {
  const retire = section(text, 'Removing a CA');
  expect(retire).toContain(`${retiredAnnotation}=SHA256:FINGERPRINT`);
  expect(retire).toContain('for a day');
  expect(defaultOverlapMs).toBe(86_400_000);
  expect(text).toContain(`/${accountName('node-ca')}.yaml`);
});

it('shows a command for a unit that the parser accepts', () => {
  const [command = ''] = blocks(text).flatMap(({ language, text: one }) => (language === 'text' ? [one.trim()] : []));
  const typed = [...command.matchAll(/--([a-z]+)(?:=(\S+))?/g)].map(([, name = '', value]) => [name, value ?? true]);
  const flags = Object.fromEntries(typed) as object;
  expect(parseConfig({ flags, env: {}, cwd: '/', presets: installedPresets })).toMatchObject({
    inventory: { name: 'node-ca' },
    modes: [{ restart: true, kubeconfig: '/etc/kubernetes/kubelet.conf' }],
  });
});
