import { describe, expect, it } from 'vitest';
import { RecoveryError } from '../lib/errors.ts';
import { componentMapping, editYaml, parseYaml, readYaml, toYaml } from '../lib/yaml.ts';

const level = (n: number): string => `a${n}: &a${n} [${Array.from({ length: 10 }, () => `*a${n - 1}`).join(', ')}]\n`;

describe('parseYaml()', () => {
  it('reads YAML and JSON', () => {
    expect(parseYaml('a: [1, x]\n')).toEqual({ a: [1, 'x'] });
    expect(parseYaml('{"a": {"b": null}}')).toEqual({ a: { b: null } });
  });

  it.each([
    ['a broken flow', 'token: "super-secret\nusers: [', 2],
    ['a key twice', 'a: super-secret\na: super-secret\n', 2],
    ['text behind a value', 'a: "b" super-secret\n', 1],
    ['a stray token', 'a: b\n}super-secret\n', 2],
  ])('names the place of %s, and never the text', (_title, text, line) => {
    const parse = (): unknown => parseYaml(text);
    expect(parse).toThrow(RecoveryError);
    expect(parse).toThrow(new RegExp(`^Cannot parse YAML: [A-Z_]+ at line ${line}, column \\d+$`));
  });

  it('gives every reader of a text the same value, which none can change', () => {
    const value = parseYaml('words: [one, two]\n') as { readonly words: string[] };
    expect(parseYaml('words: [one, two]\n')).toBe(value);
    expect(() => value.words.push('three')).toThrow(TypeError);
  });

  it('reads bytes, which cannot be frozen', () => {
    const { key } = parseYaml('%YAML 1.1\n---\nkey: !!binary aGVsbG8=\n') as { readonly key: Uint8Array };
    expect(Buffer.from(key).toString()).toBe('hello');
  });

  it('reads a value that stands in itself', () => {
    const { list } = parseYaml('list: &it [*it]\n') as { readonly list: readonly unknown[] };
    expect(list[0]).toBe(list);
    expect(Object.isFrozen(list)).toBe(true);
  });

  it('refuses a text that would unfold into a huge one', () => {
    const text = `a0: &a0 [x]\n${level(1)}${level(2)}${level(3)}${level(4)}`;
    expect(() => parseYaml(text)).toThrow('Cannot parse YAML: too many aliases');
    expect(readYaml(text).problems).toEqual([{ line: 1, message: 'Too many aliases' }]);
  });
});

describe('parseYaml() of a text that was made to be large', () => {
  it.each([
    ['a list', '- a\n'.repeat(100_000), 'more than 3000 values'],
    ['a list in brackets', `[${'1,'.repeat(200_000)}1]`, 'more than 3000 values'],
    ['a long text', 'x'.repeat(1_000_000), 'more than 524288 characters'],
    ['dashes behind a key', `k: ${'- '.repeat(50_000)}`, 'more than 3000 values'],
    ['lists in lists on a line', '- '.repeat(50_000), 'values in more than 100 others'],
    [
      'mappings in mappings',
      Array.from({ length: 900 }, (_, at) => `${' '.repeat(at)}a:`).join('\n'),
      'values in more than 100 others',
    ],
    ['texts beside texts', '"a" '.repeat(50_000), 'more than 3000 values'],
    ['keys in keys of one line', ': /a'.repeat(2000), 'values in more than 100 others'],
    ['lists in lists', `${'['.repeat(200_000)}${']'.repeat(200_000)}`, 'values in more than 100 others'],
  ])('refuses %s before it is parsed', (_title, text, problem) => {
    expect(() => parseYaml(text)).toThrow(`Cannot parse YAML: it has ${problem}`);
    const problems = [{ line: 1, message: `It has ${problem}` }];
    expect(readYaml(text, 'others')).toMatchObject({ value: undefined, problems });
    expect(componentMapping(text)).toBeUndefined();
  });

  it('reads one long text, and many keys', () => {
    expect(parseYaml(`a: ${'x'.repeat(500_000)}\n`)).toMatchObject({ a: expect.stringMatching(/^x{9}/) as string });
    const keys = Array.from({ length: 30_000 }, (_, at) => `k${at}: 1\n`).join('');
    expect(Object.keys(parseYaml(keys, 'ours') as object)).toHaveLength(30_000);
    expect(() => parseYaml(`${keys}k7: 1\n`, 'ours')).toThrow('DUPLICATE_KEY at line 30001');
  });
});

describe('readYaml()', () => {
  const { lineOf } = readYaml('# comment\na: 1\nb:\n  - x: 1\n    y: 2\n  - 3\n');

  it.each([
    [['a'], 2],
    [['b'], 3],
    [['b', 0, 'y'], 5],
    [['b', 1], 6],
    [['b', 1, 'z'], 6],
    [['b', 0, 'missing'], 4],
    [['missing'], 2],
  ])('knows the line of %j', (path, line) => {
    expect(lineOf(path)).toBe(line);
  });
});

describe('toYaml()', () => {
  it.each(['on', 'off', 'yes', 'no', 'y', 'N', '0b11', '1_000', '0o7', 'true', '1e3'])(
    'keeps the text %s a text for readers of YAML 1.1, as Kubernetes is one',
    (text) => expect(toYaml({ text })).toBe(`text: "${text}"\n`),
  );

  it('writes what parseYaml reads back, without anchors', () => {
    const shared = { namespace: 'a' };
    const value = { one: shared, two: shared, text: 'a: b\nc' };
    expect(toYaml(value)).not.toContain('&');
    expect(parseYaml(toYaml(value))).toEqual(value);
  });
});

describe('editYaml()', () => {
  it.each([
    {
      name: 'comments and order',
      text: '# top\nb: 1 # why\na:\n  x: old\n',
      after: '# top\nb: 1 # why\na:\n  x: new\n',
    },
    { name: 'lists that are not indented', text: 'l:\n- 1\na:\n  x: old\n', after: 'l:\n- 1\na:\n  x: new\n' },
    { name: 'lists that are indented', text: 'l:\n  - 1\na:\n  x: old\n', after: 'l:\n  - 1\na:\n  x: new\n' },
    {
      name: 'nested lists that are not indented',
      text: 's:\n  l:\n  - m:\n    - 1\na:\n  x: old\n',
      after: 's:\n  l:\n  - m:\n    - 1\na:\n  x: new\n',
    },
    { name: 'quotes', text: 'a: { "x": "old", y: 1 }\n', after: 'a: { "x": "new", y: 1 }\n' },
    { name: 'JSON', text: '{"a":{"x":"old"}}', after: '{\n  "a": {\n    "x": "new"\n  }\n}\n' },
    { name: 'a value that an anchor shares', text: 'b: &s\n  x: old\na: *s\n', after: 'b:\n  x: old\na:\n  x: new\n' },
    { name: 'an empty mapping', text: 'a:\n', after: 'a:\n  x: new\n' },
    { name: 'a missing mapping', text: 'b: 1\n', after: 'b: 1\na:\n  x: new\n' },
  ])('keeps $name', ({ text, after }) => {
    const edit = editYaml(text);
    edit.set(['a', 'x'], 'new');
    expect(edit.text()).toBe(after);
  });

  it('does not fold a long value', () => {
    const long = 'A'.repeat(3000);
    const edit = editYaml('a: 1\n');
    edit.set(['b'], long);
    expect(edit.text()).toBe(`a: 1\nb: ${long}\n`);
  });

  it('escapes what no YAML reader takes', () => {
    const edit = editYaml('a: 1\n');
    edit.set(['b'], 'x\u007fy\u0080');
    expect(edit.text()).toBe('a: 1\nb: "x\\u007fy\\u0080"\n');
    expect(parseYaml(edit.text())).toEqual({ a: 1, b: 'x\u007fy\u0080' });
  });

  it('says nothing of the text that it cannot parse', () => {
    expect(() => editYaml('token: [secret')).toThrow(/^Cannot parse YAML: (?!.*secret)/);
  });
});
