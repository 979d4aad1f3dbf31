import { describe, expect, it } from 'vitest';
import { bounds } from '../../lib/bounds.ts';
import { nextBundlesText, parseBundles, shortPrint } from '../../lib/kube/reported-bundles.ts';

const [a, b] = ['a'.repeat(16), 'b'.repeat(16)] as const;
const then = new Date('2026-11-28T10:00:00Z');
const now = new Date('2026-11-29T10:00:00Z');
const held = (cas: readonly string[], loaded = true) => new Map([['kubelet.conf', { cas, loaded }]]);
const written = (cas: readonly string[], loaded = true): string =>
  nextBundlesText(undefined, held(cas, loaded), then) ?? '';

describe('nextBundlesText()', () => {
  it('has the form that readers know, whatever the order of files and CAs', () => {
    const both = new Map([
      ['kubelet.conf', { cas: [b, a, b], loaded: false }],
      ['admin.conf', { cas: [a], loaded: true }],
    ]);
    expect(nextBundlesText(undefined, both, then)).toBe(
      `{"at":"2026-11-28T10:00:00Z","bundles":{` +
        `"admin.conf":{"cas":["${a}"],"since":"2026-11-28T10:00:00Z","loaded":true},` +
        `"kubelet.conf":{"cas":["${a}","${b}"],"since":"2026-11-28T10:00:00Z","loaded":false}}}`,
    );
  });

  it('is nothing where the present value says the same', () => {
    expect(nextBundlesText(written([a, b]), held([b, a]), now)).toBeUndefined();
  });

  it.each([
    ['another CA', held([a, b]), now],
    ['a CA less', held([]), now],
    ['what has been loaded since', held([a], false), then],
  ])('tells %s, and since when the file has held its CAs', (_, next, since) => {
    const found = parseBundles(nextBundlesText(written([a]), next, now))?.get('kubelet.conf');
    expect(found).toEqual({ ...next.get('kubelet.conf'), since });
  });

  it('tells a file that is gone', () => {
    expect(parseBundles(nextBundlesText(written([a]), new Map(), now))).toEqual(new Map());
  });

  it.each(['', '{', 'null', '{"at":"","bundles":{"kubelet.conf":{}}}'])(
    'replaces %j, which it has not written',
    (text) => {
      expect(parseBundles(nextBundlesText(text, held([a]), now))?.get('kubelet.conf')?.since).toEqual(now);
    },
  );
});

describe('parseBundles()', () => {
  const value = (bundle: object): string => JSON.stringify({ bundles: { one: bundle } });
  const good = { cas: [a], since: '2026-11-28T10:00:00Z', loaded: true };

  it('reads what was written', () => {
    expect(parseBundles(value(good))).toEqual(new Map([['one', { ...good, since: then }]]));
  });

  it.each<[string, string | undefined]>([
    ['no annotation', undefined],
    ['no JSON', '{'],
    ['no object', '[]'],
    ['no bundles', '{"at":"2026-11-28T10:00:00Z"}'],
    ['bundles that are none', '{"bundles":[]}'],
    ['a bundle that is none', '{"bundles":{"one":null}}'],
    ['a CA that is no fingerprint', value({ ...good, cas: ['\u001b[2J'] })],
    ['a CA that is no text', value({ ...good, cas: [1] })],
    ['CAs that are no list', value({ ...good, cas: a })],
    ['a time of another form', value({ ...good, since: '+275760-09-13T00:00:00Z' })],
    ['a time that does not exist', value({ ...good, since: '2026-13-41T10:00:00Z' })],
    ['loaded that is no truth', value({ ...good, loaded: 'yes' })],
    ['brackets without end', '['.repeat(bounds.nodeReport.most.characters)],
  ])('takes nothing from %s', (_, text) => {
    expect(parseBundles(text)).toBeUndefined();
  });

  it('takes nothing from more than the bound', () => {
    const { characters, bundles } = bounds.nodeReport.most;
    const many = (count: number): string =>
      JSON.stringify({ bundles: Object.fromEntries(Array.from({ length: count }, (_, at) => [`n${at}`, good])) });
    expect(parseBundles(value(good).padEnd(characters))).toBeDefined();
    expect(parseBundles(value(good).padEnd(characters + 1))).toBeUndefined();
    expect(parseBundles(many(bundles))?.size).toBe(bundles);
    expect(parseBundles(many(bundles + 1))).toBeUndefined();
  });

  it('takes a name of every object for a name', () => {
    const text = '{"bundles":{"__proto__":{"cas":[],"since":"2026-11-28T10:00:00Z","loaded":true}}}';
    expect([...(parseBundles(text)?.keys() ?? [])]).toEqual(['__proto__']);
  });
});

it('shortPrint() is the beginning of a fingerprint', () => {
  expect(shortPrint(`${a}${b}`)).toBe(a);
});
