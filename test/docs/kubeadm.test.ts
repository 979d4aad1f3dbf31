// Holds docs/kubeadm.md, and what other pages say of a kubeadm machine, against the preset and the units. Its commands
// are run by test/integration/kubeadm-docs.test.ts.
import { describe, expect, it } from 'vitest';
import { renderHost, unitPaths } from '../../lib/install/host.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { blocks, firstCode, firstCodes, page, section, tables } from './markdown.ts';

const text = page('docs/kubeadm.md');
const flat = text.replaceAll(/\s+/g, ' ');
const preset = loadPreset('kubeadm');
const day = 86_400_000;

describe('docs/kubeadm.md', () => {
  it('names the units, and how long a start of the kubelet may wait', () => {
    expect(firstCodes(section(text, 'Once, on each control-plane node')).toSorted()).toEqual(
      unitPaths('')
        .map((path) => path.slice(1))
        .toSorted(),
    );
    const units = renderHost({ executable: '/k', flags: [], writable: [], manifests: [] });
    const [, kill, longest] = /--kill-after=(\d+)s (\d+)s/.exec(units.map(({ content }) => content).join('')) ?? [];
    const seconds = Number(kill) + Number(longest);
    expect(flat).toContain(`for at most ${seconds} seconds`);
    expect(flat).toContain(`ended after some ${seconds} seconds`);
    for (const all of [text, page('README.md')]) expect(all).toMatch(new RegExp(`\\b${seconds} s`));
  });

  it('gives the plain command as the units have it', () => {
    const units = renderHost({
      executable: 'kube-cert-recovery',
      flags: ['--preset=kubeadm'],
      writable: [],
      manifests: [],
    });
    const [plain] = blocks(section(text, 'Without systemd'));
    const healing = units.filter(({ path }) => !/\.timer$|-adopted\.service$/.test(path));
    for (const { content } of healing) expect(content).toContain(plain?.text.trim());
    const [, repair] = blocks(section(text, 'Without systemd'));
    const adopted = units.find(({ path }) => path.endsWith('-adopted.service'))?.content;
    expect(adopted).toContain(repair?.text.trim());
  });

  it('gives the life of every leaf, and when it is renewed ahead of its end', () => {
    const targets = preset.artefacts.filter((row) => row.kind === 'target');
    expect(targets.length).toBeGreaterThan(10);
    for (const { name, validity, refresh } of targets) {
      expect(flat, name).toContain(`| ${validity / day} days, and never longer than its CA`);
      expect(flat, name).toContain(`renews ahead of time, ${(validity - refresh) / day} days before the end`);
    }
  });

  it('names every kubeconfig, and every file of the kubelet', () => {
    const written = section(text, 'What is written');
    const usual = (file: string): string => preset.files?.[file.slice(1, -1)]?.default ?? file;
    for (const { location } of preset.artefacts) {
      const files =
        location.kind === 'kubeconfig'
          ? [location.file, location.credentials ?? location.file]
          : location.kind === 'combinedPem'
            ? [location.file]
            : location.kind === 'pemPair' && location.certFile.startsWith('{kubeletDir}')
              ? [location.certFile]
              : [];
      for (const file of files.map(usual)) expect(written).toContain(file.slice(file.lastIndexOf('/') + 1));
    }
  });

  it('says what is never absent and missed: the optional ones', () => {
    const optional = preset.artefacts.flatMap((row) =>
      row.kind === 'target' && row.presence === 'optional' ? [row.name] : [],
    );
    expect(optional).toEqual(['admin.conf', 'super-admin.conf', 'kubelet-server', 'kubelet-server-current']);
    expect(section(text, 'What is written').match(/never when (it is|they are) absent/g)).toHaveLength(2); // the kubelet's in one row
  });

  it('says how many copies are kept', () => {
    const [, kept] = /generationsKept = (\d+)/.exec(page('lib/store/backup-directory.ts')) ?? [];
    expect(kept).toBe('5');
    expect(flat).toContain('the last five generations');
    expect(page('docs/contract.md')).toContain(`backups\`, last ${kept}`);
  });
});

it('docs/inventory.md names the parameters and directories of the preset kubeadm, with their defaults', () => {
  const { parameters, directories = {} } = preset;
  const rows = tables(section(page('docs/inventory.md'), 'Presets'))[2] ?? [];
  expect(rows.map(([name]) => firstCode(name)).toSorted()).toEqual(
    Object.keys({ ...parameters, ...directories }).toSorted(),
  );
  for (const [name, { default: wanted }] of Object.entries(directories))
    expect(firstCode(rows.find(([cell]) => firstCode(cell) === name)?.[1])).toBe(wanted);
});
