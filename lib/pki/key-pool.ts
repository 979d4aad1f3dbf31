// Keys made ahead, while the API server still starts, so that signing later takes milliseconds. Each key is handed out
// once. Only two are made at a time: key generation runs on the same few threads as file operations.
import type { KeyAlgorithm } from './facts.ts';
import { algorithmText, generateKey, type PrivateKey } from './key.ts';

export interface KeyPool {
  /** Keys that lie ready. */
  readonly ready: number;
  /** Makes keys until `count` (at most the pool's size) lie ready, or the pool is dropped. Throws SignFailed. */
  fill(count?: number): Promise<void>;
  /** A key for one use: from the pool when it holds this algorithm, otherwise newly made. Throws SignFailed. */
  take(algorithm: KeyAlgorithm): Promise<PrivateKey>;
  /** Forgets the keys that lie ready and ends a running fill. Keys can still be taken: they are made. */
  drop(): void;
}

const atOnce = 2;

export function createKeyPool({ algorithm, size }: { algorithm: KeyAlgorithm; size: number }): KeyPool {
  const kind = algorithmText(algorithm);
  let keys: PrivateKey[] = [];
  let making = 0;
  let generation = 0;

  const makeUntil = async (count: number): Promise<void> => {
    const mine = generation;
    const isWanted = (): boolean => mine === generation && keys.length + making < count;
    while (isWanted()) {
      making += 1;
      try {
        const key = await generateKey(algorithm);
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
      return key ?? generateKey(wanted);
    },
    drop() {
      generation += 1;
      keys = [];
    },
  };
}
