// A reader that opens a file all the time, in a thread of its own.
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';

export interface Readings {
  readonly reads: number;
  readonly failures: readonly string[];
  /** Contents that differ. */
  readonly seen: readonly string[];
}

/** Reads the file every half a millisecond. */
export function startReading(path: string): { stop: () => Promise<Readings> } {
  const stopped = new Int32Array(new SharedArrayBuffer(4));
  const code = `
    const { parentPort, workerData: { path, stopped } } = require('node:worker_threads');
    const { readFileSync } = require('node:fs');
    const [seen, failures] = [new Set(), new Set()];
    let reads = 0;
    while (Atomics.load(stopped, 0) === 0) {
      try { seen.add(readFileSync(path, 'utf8')); } catch (err) { failures.add(err.code); }
      reads += 1;
      Atomics.wait(stopped, 0, 0, 0.5);
    }
    parentPort.postMessage({ reads, failures: [...failures], seen: [...seen] });`;
  const worker = new Worker(code, { eval: true, workerData: { path, stopped } });
  return {
    async stop() {
      Atomics.store(stopped, 0, 1);
      const [readings] = (await once(worker, 'message')) as [Readings];
      return readings;
    },
  };
}
