// Four projects by cost. `npm run unit -- test/plan` answers in about a second; `npm test` runs a part of each, and
// `npm run test:all` all of them.
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { testFiles } from './test/support/project/projects.ts';

const { unit, stories } = testFiles(fileURLToPath(new URL('.', import.meta.url)));
// What only root uses is not on everybody's PATH.
const env = { TESTCONTAINERS_RYUK_DISABLED: 'true', PATH: `${process.env['PATH']}:/usr/sbin:/sbin` };
// Temporary files in memory (scripts/own-processes.sh). Not of end-to-end tests, whose Docker daemon may not see it, nor of
// unit tests, some of which say that a file is on a disk.
const scratch = process.env['KCR_SCRATCH'];
const inMemory = { ...env, ...(scratch !== undefined && { TMPDIR: scratch }) };

// Real control planes wait for their own components much of the time, so four files at a time share two cores. A file
// of these projects may run beside any other, and beside another test run: each chooses its ports by freePorts(), lives
// in temporary directories, gives a fake kubelet the health ports of its process, and runs kubeadm, static pods and
// whole machines in PID, network and mount namespaces of their own, or in containers of a network of their own. Nothing
// else of this machine is written.
const besideOthers = { maxWorkers: 4, sequence: { groupOrder: 1 } };

/** They wait for nothing, so each core has one; the default leaves a core to Vitest itself, which is one of two. */
const onEveryCore = { maxWorkers: '100%' };

/** A second, the default, is short of what a busy machine takes. A poll ends as soon as it succeeds. */
const patience = { expect: { poll: { timeout: 30_000 } } };

/** Minutes, however short they are written: they kill something at each of its steps, or wait. */
const slow = /\/(.*-(kill|crash|faults)|convergence|npm-versions|second-actor|slow-api)\.test\.ts$/;

/**
 * Nodes of end-to-end tests wait for most of their time, and integration tests compute: one file of those begins before
 * each three of these, so that neither are left to the end. Of both the slowest of the last run first, in a fresh clone
 * the largest.
 */
class SlowestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    // oxlint-disable-next-line no-array-sort -- no array's
    const sorted = await super.sort(files);
    const {
      first = [],
      integration = [],
      e2e = [],
      others = [],
    } = Object.groupBy(sorted, ({ project: { name }, moduleId }) => {
      if (name === 'integration') return slow.test(moduleId) ? 'first' : name;
      return name === 'e2e' ? name : 'others';
    });
    const mixed = [...first, ...integration].flatMap((file, at) => [...(at % 3 === 0 ? e2e.splice(0, 1) : []), file]);
    return [...others, ...mixed, ...e2e];
  }
}

export const sequencer = SlowestFirst;

export const projects = [
  {
    test: {
      name: 'unit',
      // No process is started, and nothing but a temporary directory is written.
      include: [...unit],
      ...onEveryCore,
      // A hanging test is to be found, a slow machine is none.
      ...patience,
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
      ...onEveryCore,
      ...patience,
      testTimeout: 60_000,
      hookTimeout: 60_000,
      env: inMemory,
    },
  },
  {
    test: {
      name: 'integration',
      include: ['test/integration/**/*.test.ts'],
      ...patience,
      testTimeout: 300_000,
      hookTimeout: 900_000,
      ...besideOthers,
      globalSetup: ['test/support/cluster/global-setup.ts'],
      env: inMemory,
    },
  },
  {
    test: {
      name: 'e2e',
      include: ['test/e2e/**/*.test.ts'],
      ...patience,
      testTimeout: 1_800_000,
      hookTimeout: 1_800_000,
      ...besideOthers,
      globalSetup: ['test/support/node/global-setup.ts'],
      env,
    },
  },
];

export default defineConfig({ test: { sequence: { sequencer }, projects } });
