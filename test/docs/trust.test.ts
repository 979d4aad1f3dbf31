// Holds docs/trust.md against the table of relations, and against what `verify` prints.
import { expect, it } from 'vitest';
import { judgeRelations } from '../../lib/trust/judge-relations.ts';
import { bundleKinds, relations } from '../../lib/trust/relations.ts';
import { renderTrust } from '../../lib/status/trust-report.ts';
import { withRelations } from '../../scripts/relations.ts';
import { now } from '../pki/authority.ts';
import { machine } from '../trust/machine.ts';
import { firstCodes, page, section, tables } from './markdown.ts';

const text = page('docs/trust.md');

it('has the tables of relations and of caBundles as they are (node scripts/relations.ts writes it)', async () => {
  const [rows = []] = tables(section(text, 'The relations'));
  expect(rows.map(([id]) => id)).toEqual(relations.map(({ id }) => id));
  const [bundles = []] = tables(section(text, 'With the API'));
  expect(bundles.map(([id]) => id)).toEqual(Object.keys(bundleKinds));
  expect(await withRelations(text)).toBe(text);
});

it('has every key of an entry, and of the document', () => {
  const report = { at: now, without: 'ca.crt', rows: judgeRelations(relations, machine(), now), notes: [] };
  const info = JSON.parse(renderTrust(report, 'json')) as { relations: readonly object[] };
  const keys = new Set(info.relations.flatMap((row) => Object.keys(row)));
  expect(firstCodes(section(text, 'JSON and YAML'))).toEqual([...keys]);
  const known = ['apiVersion', 'kind'];
  for (const key of Object.keys(info).filter((one) => !known.includes(one)))
    expect(section(text, 'JSON and YAML')).toContain(`\`${key}\``);
});

it.each(['holds', 'FAILS', 'UNKNOWN', '-'])('explains the verdict %s', (verdict) => {
  expect(firstCodes(section(text, 'The report'))).toContain(verdict);
  expect(page('lib/status/trust-report.ts')).toContain(`'${verdict}'`);
});
