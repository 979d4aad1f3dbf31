// Says on standard error what takes long and for how long: on a terminal one line that counts the seconds, elsewhere
// (a log of a build machine) a line now and then, so that work is not taken for a hang.
import type { Writable } from 'node:stream';

export interface Progress {
  /** A fact worth a line. */
  note(text: string): void;
  /** `text ... 12 s` while `work` runs. */
  during<T>(text: string, work: () => Promise<T>): Promise<T>;
}

const quietSeconds = 30;

export function createProgress(out: Writable & { readonly isTTY?: boolean } = process.stderr): Progress {
  const note = (text: string): void => void out.write(`${text}\n`);
  return {
    note,
    async during(text, work) {
      const started = performance.now();
      const seconds = (): number => Math.round((performance.now() - started) / 1000);
      const terminal = out.isTTY === true;
      out.write(terminal ? `${text} ...` : `${text} ...\n`);
      let said = 0;
      const timer = setInterval(() => {
        if (terminal) out.write(`\r${text} ... ${seconds()} s`);
        else if (seconds() >= said + quietSeconds) {
          said = seconds();
          note(`${text} ... ${said} s`);
        }
      }, 1000);
      try {
        const result = await work();
        note(`${terminal ? '\r' : ''}${text} ... ${seconds()} s, done`);
        return result;
      } catch (err) {
        note(`${terminal ? '\r' : ''}${text} ... ${seconds()} s, failed`);
        throw err;
      } finally {
        clearInterval(timer);
      }
    },
  };
}
