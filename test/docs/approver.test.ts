// Holds what the pages say of mode approver against the code.
import { describe, expect, it } from 'vitest';
import { bootstrapAccount } from '../../lib/bootstrap-identity.ts';
import { parseConfig } from '../../lib/config/load.ts';
import { installedPresets } from '../../lib/inventory/preset.ts';
import { blocks, firstCodes, page, section, unionMembers } from './markdown.ts';

describe('docs/reasons.md', () => {
  it('has every reason for which a request is left', () => {
    const shapes = unionMembers(page('lib/approver/request.ts'), 'ShapeReason');
    const evidence = unionMembers(page('lib/approver/judge.ts'), 'EvidenceReason');
    const possession = unionMembers(page('lib/approver/possession.ts'), 'PossessionReason');
    const documented = firstCodes(section(page('docs/reasons.md'), 'Approver'));
    const all = new Set([...shapes, ...evidence, ...possession, 'DryRun']);
    expect(documented.toSorted()).toEqual([...all].toSorted());
    expect(shapes.length + evidence.length).toBeGreaterThan(12);
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
