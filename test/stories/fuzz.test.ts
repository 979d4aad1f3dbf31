// A minute of `npm run fuzz`: the same inputs in every run, and others with FUZZ_SEED=<seed>. Of the time a second of the
// processor is bounded here, which only a reader takes that is not linear; `npm run fuzz` bounds 50 ms.
import { describe, expect, it } from 'vitest';
import { Dice } from '../support/faults/damage.ts';
import { fuzz, inputOf, slowness, written } from '../fuzz/fuzz.ts';
import { readers } from '../fuzz/readers.ts';

const seed = Number(process.env['FUZZ_SEED'] ?? 1);
const count = Number(process.env['FUZZ_COUNT'] ?? 12);

describe(`hostile inputs of seed ${seed}: no exception, no long turn, no large output`, () => {
  it.each(readers)(
    '$name',
    async (reader) => {
      const findings = await fuzz([reader], { seed, count, slower: 20 });
      expect(written(findings)).toEqual([]);
    },
    600_000,
  );
});

// Seeds of the form `text` are words to change: a reader may refuse them.
it.each(readers.filter(({ form }) => form !== 'text'))('what is valid is read: $name', async ({ read, seeds }) => {
  await expect(Promise.resolve(read(Buffer.from(seeds[0] ?? '')))).resolves.not.toThrow();
});

it('the same seed is the same input', () => {
  const all = (): readonly Buffer[] => readers.slice(0, 4).map((reader) => inputOf(reader, 7, 3));
  expect(all()).toEqual(all());
  expect(new Dice(1).roll(1e9)).toBe(new Dice(1).roll(1e9));
});

it('finds an exception, a long turn and a large output, and names the file that shows it', async () => {
  const odd = { form: 'text', seeds: ['a'], largest: 100 } as const;
  const busy = (): void => {
    const began = process.threadCpuUsage().user;
    while (process.threadCpuUsage().user - began < 80_000 * slower);
  };
  const slower = slowness();
  const findings = await fuzz(
    [
      { ...odd, name: 'throws', read: (input) => input.readUInt8(101) },
      { ...odd, name: 'stands still', read: busy },
      { ...odd, name: 'grows', read: () => 'x'.repeat(1e6) },
      { ...odd, name: 'is sound', read: () => 1 },
    ],
    { seed: 1, count: 2, slower },
  );
  expect(findings.map(({ reader }) => reader)).toEqual(['throws', 'stands still', 'grows']);
  expect(written(findings)[0]).toMatch(
    /^throws: input 0: thrown: RangeError[^]*npm run fuzz -- --reader='throws' --input=\//,
  );
});
