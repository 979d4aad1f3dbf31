// A one-slot mailbox: whoever notices a change says so without waiting, the loop hears it once, however often it was
// said. What has changed is not said: the loop looks for itself.

export interface Changes {
  notify(): void;
  /** Resolves when something has changed since the last call, or when `signal` aborts. */
  wait(signal: AbortSignal): Promise<void>;
}

const nobody = (): void => undefined;

export function createChanges(): Changes {
  let changed = false;
  let wake = nobody;
  return {
    notify() {
      changed = true;
      wake();
    },
    wait(signal) {
      return new Promise((resolve) => {
        const done = (): void => {
          wake = nobody;
          signal.removeEventListener('abort', done);
          if (!signal.aborted) changed = false;
          resolve();
        };
        if (changed || signal.aborted) {
          done();
          return;
        }
        wake = done;
        signal.addEventListener('abort', done, { once: true });
      });
    },
  };
}
