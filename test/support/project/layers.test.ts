import { existsSync } from 'node:fs';
import { expect, it } from 'vitest';
import { page, root } from '../../docs/markdown.ts';
import { conclusion, layerFiles, type LayerOutcome, layers } from './layers.ts';

const outcomes: readonly LayerOutcome[] = layers.flatMap(({ project, files = ['test/duration.test.ts'] }) =>
  files.map((file) => ({ project, file, passed: true, tests: 10 })),
);

it('names files that are there, of the projects in whose folders they are', () => {
  for (const { project, files = [] } of layers)
    for (const file of files) {
      expect(existsSync(`${root}${file}`), file).toBe(true);
      expect(file).toContain(`/${project}/`);
    }
});

it('has all of the units, and some of what needs real components', () => {
  expect(layerFiles('unit')).toBeUndefined();
  expect(layerFiles('e2e')).toEqual(['test/e2e/expiry.test.ts', 'test/e2e/one-worker.test.ts']);
});

it('concludes in one line', () => {
  const line = conclusion(outcomes, 431.7);
  expect(line).toBe(
    `Proven by ${outcomes.length * 10} tests in 7 min 11 s: ${layers.map(({ proves }) => proves).join('; ')}.`,
  );
});

it.each([
  {
    name: 'that failed',
    but: (all: readonly LayerOutcome[]) => all.map((one) => ({ ...one, passed: one.project !== 'e2e' })),
  },
  { name: 'that did not run', but: (all: readonly LayerOutcome[]) => all.filter(({ project }) => project !== 'e2e') },
])('says what is not proven of a layer $name', ({ but }) => {
  const line = conclusion(but(outcomes), 60);
  expect(line).toMatch(
    /^NOT proven by \d+ tests in 1 min 0 s: a kubeadm node [^.]*; so is a worker\. Proven: every unit; /,
  );
  expect(line).not.toContain('\n');
});

it('proves nothing where nothing ran', () => {
  expect(conclusion([], 0)).toBe(
    `NOT proven by 0 tests in 0 min 0 s: ${layers.map(({ proves }) => proves).join('; ')}.`,
  );
});

it('is what npm test runs; the build machine runs all', () => {
  const { scripts } = JSON.parse(page('package.json')) as { readonly scripts: Readonly<Record<string, string>> };
  expect(scripts['test']).toMatch(/vitest run --config vitest\.layers\.config\.ts$/);
  expect(scripts['test:all']).toMatch(/ && scripts\/own-processes\.sh vitest run$/);
  expect(scripts['ok']).toContain('npm run -s test:all');
  expect(page('.ci/run')).toContain('npm run test:all -- ');
  for (const name of ['README.md', 'CONTRIBUTING.md'])
    expect(page(name)).toMatch(/^ *npm test .*\n *npm run test:all /m);
});
