// Holds docs/ansible.md against the role and the cloud-configs, which test/e2e/packages.test.ts applies.
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { blocks, codes, firstCodes, page, section, tables } from './markdown.ts';

const text = page('docs/ansible.md');
const role = (file: string): unknown => parse(page(`manifests/ansible/roles/kube_cert_recovery/${file}`));

interface Option {
  readonly default?: unknown;
  readonly description: string;
}

describe('docs/ansible.md', () => {
  const defaults = role('defaults/main.yml') as Readonly<Record<string, unknown>>;

  it('names the variables of the role, with their defaults', () => {
    const specs = role('meta/argument_specs.yml') as {
      readonly argument_specs: { readonly main: { readonly options: Readonly<Record<string, Option>> } };
    };
    const { options } = specs.argument_specs.main;
    expect(firstCodes(section(text, 'The role'))).toEqual(Object.keys(defaults));
    expect(Object.fromEntries(Object.entries(options).map(([name, one]) => [name, one.default]))).toEqual(defaults);
    for (const [name = '', given = ''] of tables(section(text, 'The role'))[0] ?? []) {
      const wanted = defaults[codes(name)[0] ?? ''];
      expect(codes(given), name).toEqual(wanted === '' ? [] : [Array.isArray(wanted) ? '[]' : wanted]);
    }
  });

  it('shows variables that there are', () => {
    const shown = blocks(section(text, 'The role')).flatMap(({ language, text: block }) =>
      language === 'yaml' ? Object.keys(parse(block) as object) : [],
    );
    expect(shown.length).toBeGreaterThan(0);
    expect(Object.keys(defaults)).toEqual(expect.arrayContaining(shown));
  });

  it('speaks of cloud-configs that differ in what the machine is only', () => {
    const [controlPlane, worker] = ['control-plane', 'worker'].map((name) => page(`manifests/cloud-init/${name}.yaml`));
    const commands = (config = ''): string => config.slice(config.indexOf('runcmd:'));
    expect(commands(controlPlane)).toBe(commands(worker));
    for (const config of [controlPlane, worker]) expect(config).toContain('/kube-cert-recovery-arm.path\n');
    expect(text).toContain('`kube-cert-recovery-arm.path`');
  });
});
