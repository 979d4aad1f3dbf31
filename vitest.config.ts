// Four projects by cost. `npm run unit -- test/plan` answers in about a second; `npm test` runs them all.
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { testFiles } from './test/support/project/projects.ts';

const { unit, stories } = testFiles(fileURLToPath(new URL('.', import.meta.url)));
const env = { TESTCONTAINERS_RYUK_DISABLED: 'true' };

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: 'unit',
          // No process is started, and nothing but a temporary directory is written.
          include: [...unit],
          // A hanging test is to be found, a slow machine is none.
          testTimeout: 60_000,
          hookTimeout: 60_000,
          env,
        },
      },
      {
        test: {
          name: 'stories',
          // Processes that are started and killed, simulated years, interleavings, faults of each system call.
          include: [...stories],
          testTimeout: 60_000,
          hookTimeout: 60_000,
          env,
        },
      },
      {
        test: {
          name: 'integration',
          include: ['test/integration/**/*.test.ts'],
          testTimeout: 120_000,
          hookTimeout: 900_000,
          // One machine: real control planes share two cores, so files run one after the other.
          fileParallelism: false,
          globalSetup: ['test/support/cluster/global-setup.ts'],
          env,
        },
      },
      {
        test: {
          name: 'e2e',
          include: ['test/e2e/**/*.test.ts'],
          testTimeout: 300_000,
          hookTimeout: 600_000,
          // Nodes mostly wait for their own components, so two files do not hinder each other.
          maxWorkers: 2,
          // After the others: nodes need the rest of the machine.
          sequence: { groupOrder: 1 },
          globalSetup: ['test/support/node/global-setup.ts'],
          env,
        },
      },
    ],
  },
});
