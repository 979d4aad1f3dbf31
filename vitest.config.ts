// Four projects by cost. `npm run unit -- test/plan` answers in about a second; `npm test` runs a part of each, and
// `npm run test:all` all of them.
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { testFiles } from './test/support/project/projects.ts';

const { unit, stories } = testFiles(fileURLToPath(new URL('.', import.meta.url)));
// What only root uses is not on everybody's PATH.
const env = { TESTCONTAINERS_RYUK_DISABLED: 'true', PATH: `${process.env['PATH']}:/usr/sbin:/sbin` };

// Of all but end-to-end tests, whose Docker daemon may not see it: temporary files in memory (scripts/own-processes.sh).
const scratch = process.env['KCR_SCRATCH'];
const inMemory = { ...env, ...(scratch !== undefined && { TMPDIR: scratch }) };

// Real control planes wait for their own components most of the time, so three files at a time share two cores. A file
// of these projects may run beside any other, and beside another test run: each chooses its ports by freePorts(), lives
// in temporary directories, gives a fake kubelet the health ports of its process, and runs kubeadm, static pods and
// whole machines in PID, network and mount namespaces of their own, or in containers of a network of their own. Nothing
// else of this machine is written.
const besideOthers = { maxWorkers: 3, sequence: { groupOrder: 1 } };

/**
 * What kills something at each of its steps takes minutes, however short it is written: begun last, as the smallest file,
 * it would run on alone. Else as usual: the slowest of the last run first, in a fresh clone the largest.
 */
class KillsFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    // oxlint-disable-next-line no-array-sort -- no array's
    const groups = Map.groupBy(await super.sort(files), ({ project }) => project.name);
    return [...groups.values()].flatMap((group) => {
      const { kills = [], others = [] } = Object.groupBy(group, ({ moduleId }) =>
        /-(kill|crash)\.test\.ts$/.test(moduleId) ? 'kills' : 'others',
      );
      return [...kills, ...others];
    });
  }
}

export const sequencer = KillsFirst;

export const projects = [
  {
    test: {
      name: 'unit',
      // No process is started, and nothing but a temporary directory is written.
      include: [...unit],
      // A hanging test is to be found, a slow machine is none.
      testTimeout: 60_000,
      hookTimeout: 60_000,
      env: inMemory,
    },
  },
  {
    test: {
      name: 'stories',
      // Processes that are started and killed, simulated years, interleavings, faults of each system call.
      include: [...stories],
      testTimeout: 60_000,
      hookTimeout: 60_000,
      env: inMemory,
    },
  },
  {
    test: {
      name: 'integration',
      include: ['test/integration/**/*.test.ts'],
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
      testTimeout: 1_800_000,
      hookTimeout: 1_800_000,
      ...besideOthers,
      globalSetup: ['test/support/node/global-setup.ts'],
      env,
    },
  },
];

export default defineConfig({ test: { sequence: { sequencer }, projects } });
