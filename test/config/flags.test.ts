import { describe, expect, it } from 'vitest';
import { type ConfigFlags, flagOfField, flagRows, isRepeatable, typedValue } from '../../lib/config/flags.ts';
import { parseDuration } from '../../lib/duration.ts';

describe('flagRows', () => {
  it('gives no command two flags of one name', () => {
    const shared = flagRows.filter(({ owner }) => owner === 'all' || owner === 'modes').map(({ key }) => key);
    for (const owner of new Set(flagRows.map((row) => row.owner))) {
      const own = flagRows.filter((row) => row.owner === owner).map(({ key }) => key);
      expect(new Set(own).size).toBe(own.length);
      if (owner !== 'all' && owner !== 'modes') expect(own.filter((key) => shared.includes(key))).toEqual([]);
    }
  });

  it('knows what was typed by the name that commander gives it', () => {
    const typed = { dryRun: true, parameter: ['a=b'], tlsServerNameOverride: 'x', logLevel: '4' } satisfies ConfigFlags;
    const found = flagRows.flatMap((row) => {
      const value = typedValue(typed, row);
      return value === undefined ? [] : [[row.flag, value, isRepeatable(row)]];
    });
    expect(found).toEqual([
      ['--parameter', ['a=b'], true],
      ['--tls-server-name-override', 'x', false],
      ['--dry-run', true, false],
      ['--log-level', '4', false],
    ]);
  });

  it('has a value for each flag that may be given without one, and its help says so', () => {
    const optional = flagRows.filter(({ usage }) => usage.endsWith(']'));
    expect(optional.map(({ flag, owner }) => `${owner} ${flag}`)).toEqual(['status --wait', 'init host --wait']);
    for (const { alone = '', help } of optional) {
      expect(parseDuration(alone)).toBeGreaterThan(0);
      expect(help).toContain(`(without a value: ${alone})`);
    }
  });

  it('asks for a value exactly where one is read, and for fields that are flags once', () => {
    for (const { usage, as } of flagRows) if (as !== undefined) expect(usage).toMatch(/ <.+>$/);
    const fields = flagRows.flatMap(({ field = [] }) => field);
    expect(new Set(fields).size).toBe(fields.length);
  });
});

it.each([
  ['parameters.hosts[0]', '--parameter'],
  ['modes[1]', '--mode'],
  ['kubeconfig', '--kubeconfig'],
  ['regen.kubeconfig', '--regen-kubeconfig'],
  ['log.level', '--log-level'],
  ['kubeconfigs', undefined],
  ['regen', undefined],
])('flagOfField(%s) is %s', (path, flag) => expect(flagOfField(path)?.flag).toBe(flag));
