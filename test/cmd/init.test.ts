import { describe, expect, it } from 'vitest';
import { initText } from '../../cmd/init.ts';
import type { InitOutcome } from '../../lib/install/init.ts';

const outcome: InitOutcome = {
  created: [],
  updated: [],
  unchanged: [],
  differing: [],
  missing: [],
  webhooks: [],
  files: [],
  stagingRemoved: false,
};
const text = (more: Partial<InitOutcome>): string => initText({ ...outcome, ...more }, { directory: '/d' });

describe('initText()', () => {
  it("says that signers' keys were left in the staging directory, and what to do", () => {
    const said = text({ differing: ['Secret "n/a"'], stagingKept: '/d/staging' });
    expect(said).toContain('Secret "n/a" differs from the staged one and was left alone\n');
    expect(said).toContain(`Signers' keys are still in "/d/staging"`);
    expect(said).toContain('rm -r /d/staging');
    expect(said).not.toContain('was removed');
  });

  it('says that they were removed, and nothing when there were none', () => {
    expect(text({ stagingRemoved: true })).toContain("The staging directory with the signers' keys was removed.\n");
    expect(text({})).not.toContain('taging');
  });
});
