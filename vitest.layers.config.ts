// `npm test`: one file or a few of every layer, as test/support/project/layers.ts lists them, each run as in `npm run test:all`.
import { defineConfig } from 'vitest/config';
import { layerFiles, layerProjects } from './test/support/project/layers.ts';
import { LayersReporter } from './test/support/project/layers-reporter.ts';
import { projects, sequencer } from './vitest.config.ts';

export default defineConfig({
  test: {
    sequence: { sequencer },
    reporters: ['default', new LayersReporter()],
    projects: projects
      .filter(({ test: { name } }) => layerProjects.has(name))
      .map(({ test }) => ({ test: { ...test, include: [...(layerFiles(test.name) ?? test.include)] } })),
  },
});
