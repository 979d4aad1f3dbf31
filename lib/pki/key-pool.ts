// Keys generated ahead, while the API server still starts, so that signing later takes milliseconds. Each key is handed
// out once. Key generation runs on the same four threads as file operations, so that some are always left for these;
// more at a time than there are processors would not be faster.
import { availableParallelism } from 'node:os';
import { algorithmText, generateKey, type KeyAlgorithm, type PrivateKey } from './key.ts';

export interface KeyPool {
  /** Number of keys in the pool. */
  readonly ready: number;
  /** Generates keys until `count` (at most the pool's size) are in the pool, or it is dropped. Throws SignFailed. */
  fill(count?: number): Promise<void>;
  /**
   * Returns a key for one use: from the pool when it holds this algorithm, otherwise newly generated. Throws
   * SignFailed.
   */
  take(algorithm: KeyAlgorithm): Promise<PrivateKey>;
  /** Discards the keys in the pool and stops a running fill. Keys can still be taken: they are generated. */
  drop(): void;
}

const atOnce = Math.min(Math.max(availableParallelism(), 2), 3);

export function createKeyPool({ algorithm, size }: { algorithm: KeyAlgorithm; size: number }): KeyPool {
  const kind = algorithmText(algorithm);
  const generate = limited(atOnce);
  let keys: PrivateKey[] = [];
  let making = 0;
  let generation = 0;

  const makeUntil = async (count: number): Promise<void> => {
    const mine = generation;
    const isWanted = (): boolean => mine === generation && keys.length + making < count;
    while (isWanted()) {
      making += 1;
      try {
        const key = await generate(algorithm);
        if (mine === generation) keys.push(key);
      } finally {
        making -= 1;
      }
    }
  };

  return {
    get ready() {
      return keys.length;
    },
    async fill(count = size) {
      const wanted = Math.min(count, size);
      await Promise.all(Array.from({ length: atOnce }, () => makeUntil(wanted)));
    },
    async take(wanted) {
      const key = algorithmText(wanted) === kind ? keys.shift() : undefined;
      return key ?? generate(wanted);
    },
    drop() {
      generation += 1;
      keys = [];
    },
  };
}

/** generateKey(), at most `most` at a time; in the order of the calls. */
function limited(most: number): (algorithm: KeyAlgorithm) => Promise<PrivateKey> {
  const waiting: (() => void)[] = [];
  let running = 0;
  return async (algorithm) => {
    if (running === most) await new Promise<void>((resolve) => waiting.push(resolve));
    else running += 1;
    try {
      return await generateKey(algorithm);
    } finally {
      const next = waiting.shift();
      if (next === undefined) running -= 1;
      else next();
    }
  };
}
