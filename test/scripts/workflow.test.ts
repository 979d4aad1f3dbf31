// The workflow that publishes a release: what it runs is there, and no action can change under its name.
import { existsSync } from 'node:fs';
import { expect, it } from 'vitest';
import { parseYaml } from '../../lib/yaml.ts';
import { page } from '../docs/markdown.ts';

const text = page('.github/workflows/release.yaml');
interface Step {
  readonly uses?: string;
  readonly run?: string;
}
interface Job {
  readonly permissions?: object;
  readonly needs?: readonly string[];
  readonly steps: readonly Step[];
}
const { jobs, permissions } = parseYaml(text) as {
  readonly jobs: Readonly<Record<string, Job>>;
  readonly permissions: object;
};
const steps = Object.values(jobs).flatMap((job) => job.steps);

it('pins each action by its commit, beside the version', () => {
  const used = text.match(/^.*\buses: .*$/gm) ?? [];
  expect(used).toHaveLength(steps.filter(({ uses }) => uses !== undefined).length);
  for (const line of used) expect(line).toMatch(/uses: [\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
});

it('gives each job its own rights, and publishes what was tested and signed', () => {
  expect(permissions).toEqual({});
  for (const job of Object.values(jobs)) expect(job.permissions).toBeDefined();
  expect(jobs['publish']?.needs).toEqual(['test', 'build']);
});

it('runs scripts that there are', () => {
  const { scripts } = JSON.parse(page('package.json')) as { readonly scripts: object };
  const commands = steps.flatMap(({ run = '' }) => run);
  const named = commands.flatMap((run) => [...run.matchAll(/npm run (\S+)/g)].map(([, name = '']) => name));
  expect(named.filter((name) => !(name in scripts))).toEqual([]);
  const files = commands.flatMap((run) => run.match(/(?<=^|\s)(\.ci|scripts)\/\S+/g) ?? []);
  expect(files.filter((file) => !existsSync(file))).toEqual([]);
  expect([...named, ...files]).toEqual(['release', 'release', '.ci/run']);
});
