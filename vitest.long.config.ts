// End-to-end tests that take ten minutes each and more: run by hand (`npm run test:long`), not by every build.
import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    name: 'long',
    include: ['test/long/**/*.test.ts'],
    testTimeout: 900_000,
    hookTimeout: 900_000,
    fileParallelism: false,
    globalSetup: ['test/support/node/global-setup.ts'],
    env: { TESTCONTAINERS_RYUK_DISABLED: 'true' },
  },
});
