// Holds what the pages say of mode approver against the code.
import { describe, expect, it } from 'vitest';
import { bootstrapAccount } from '../../lib/bootstrap-identity.ts';
import { parseConfig } from '../../lib/config/load.ts';
import { jsonSchemas } from '../../lib/config/schema.ts';
import type { RbacRule } from '../../lib/install/apply.ts';
import { approverClusterRules } from '../../lib/install/rules.ts';
import { installedPresets } from '../../lib/inventory/preset.ts';
import { parseYaml } from '../../lib/yaml.ts';
import { blocks, codes, firstCodes, page, section, tables, unionMembers } from './markdown.ts';

describe('docs/reasons.md', () => {
  it('has every reason for which a request is left', () => {
    const shapes = unionMembers(page('lib/approver/request.ts'), 'ShapeReason');
    const evidence = unionMembers(page('lib/approver/judge.ts'), 'EvidenceReason');
    const possession = unionMembers(page('lib/approver/possession.ts'), 'PossessionReason');
    const addresses = unionMembers(page('lib/approver/addresses.ts'), 'AddressReason');
    const documented = firstCodes(section(page('docs/reasons.md'), 'Approver'));
    const all = new Set([...shapes, ...evidence, ...possession, ...addresses, 'DryRun']);
    expect(documented.toSorted()).toEqual([...all].toSorted());
    expect(shapes.length + evidence.length).toBeGreaterThan(12);
  });
});

describe('docs/api.md on serving certificates', () => {
  const text = section(page('docs/api.md'), 'Serving certificates of kubelets');
  const [settings = '', rights = ''] = blocks(text).flatMap(({ language, text: block }) =>
    language === 'yaml' ? [block] : [],
  );
  const [rules = [], sources = []] = tables(text);

  it('shows settings that the parser accepts', () => {
    const [alone = ''] = blocks(page('docs/approver.md')).flatMap(({ language, text: block }) =>
      language === 'yaml' ? [block] : [],
    );
    for (const shown of [settings, alone]) {
      const flags = { mode: 'approver', kubeconfig: '/kubeconfig' };
      const file = { path: '/c.yaml', text: shown };
      const { modes } = parseConfig({ flags, file, env: {}, cwd: '/', presets: installedPresets });
      expect(modes).toMatchObject([{ mode: 'approver', signers: ['kubelet-client', 'kubelet-serving'] }]);
    }
  });

  it('has every kind of source, and every reason of these rules', () => {
    const schema = jsonSchemas().config;
    const kinds = sources.flatMap(([first]) => codes(first ?? ''));
    expect(kinds.toSorted()).toEqual(['cidrs', 'file', 'machines', 'nodes', 'served']);
    for (const kind of kinds) expect(schema).toContain(`"${kind}"`);
    const reasons = rules.flatMap(([, last]) => codes(last ?? ''));
    const addresses = unionMembers(page('lib/approver/addresses.ts'), 'AddressReason');
    expect(reasons).toEqual(expect.arrayContaining(addresses));
    const known = firstCodes(section(page('docs/reasons.md'), 'Approver'));
    expect(reasons.filter((reason) => !known.includes(reason))).toEqual([]);
  });

  it('gives the rights that are missing, and no more', () => {
    const both = { signers: ['kubelet-client', 'kubelet-serving'], addresses: [] } as const;
    const all = approverClusterRules({
      ...both,
      addresses: [
        { kind: 'cidrs', cidrs: ['192.0.2.0/24'] },
        { kind: 'machines', api: 'clusterAPI' },
      ],
    });
    const rightsOf = (given: readonly RbacRule[]): string[] =>
      given.flatMap(({ apiGroups, resources, resourceNames = [''], verbs }) =>
        resourceNames.flatMap((name) => verbs.map((verb) => `${verb} ${apiGroups[0]}/${resources[0]} ${name}`)),
      );
    const before = rightsOf(approverClusterRules());
    const { rules: added } = parseYaml(rights.split('---')[0] ?? '') as { rules: RbacRule[] };
    expect(rightsOf(added).toSorted()).toEqual(
      rightsOf(all)
        .filter((right) => !before.includes(right))
        .toSorted(),
    );
  });
});

describe('docs/api.md', () => {
  const text = section(page('docs/api.md'), 'Client certificates of kubelets');
  it('names the bootstrap identity', () => expect(text).toContain(`\`${bootstrapAccount}\``));

  it('shows settings that the parser accepts, with the defaults', () => {
    const settings = blocks(text).find(({ language }) => language === 'yaml')?.text ?? '';
    const config = (more: string) => ({
      flags: {},
      file: { path: '/c.yaml', text: `apiVersion: kube-cert-recovery/v1alpha1\nkind: Configuration\n${more}` },
      env: {},
      cwd: '/',
      presets: installedPresets,
    });
    const { modes } = parseConfig(config(settings));
    expect(modes).toMatchObject([{ mode: 'approver' }]);
    expect(parseConfig(config(settings.replaceAll(/^ {2}(?:nodeCertificate|longestLife).*\n/gm, ''))).modes).toEqual(
      modes,
    );
  });
});
