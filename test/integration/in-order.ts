// For a file whose tests tell one story on one machine: after one that failed, the others say only that they follow it, so
// that the first failure is what a report shows, with what the machine has to say about it.
import { afterEach, beforeEach } from 'vitest';

/** Called once, before the tests. `explain`: what else the report of the first failure is to show. */
export function inOrder(explain: () => string): void {
  let failed: string | undefined;
  beforeEach(() => {
    if (failed === undefined) return;
    const err = new Error(`Not run: it follows "${failed}", which failed`);
    // Where it was thrown says nothing.
    err.stack = err.message;
    throw err;
  });
  afterEach(({ task }) => {
    if (failed !== undefined || task.result?.state !== 'fail') return;
    failed = task.name;
    throw new Error(explain());
  });
}
