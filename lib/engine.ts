// V8 in a process that waits for months. On the command line of Node these flags would cost each start a twentieth of a
// second: V8 refuses code that was compiled for other flags, of Node's own modules as well as of the program.
import { setFlagsFromString } from 'node:v8';

/** Prefers a small heap from now on: pages that V8 otherwise keeps half empty take 8 MB. */
export function preferSmallHeap(): void {
  setFlagsFromString('--optimize-for-size');
}

/**
 * Optimises no code from now on, for a process that works for a second in months: V8's compilers would take a sixth of
 * its processor time, beside an API server that has just started, for code that is hardly called again.
 */
export function optimiseNothing(): void {
  setFlagsFromString('--no-maglev');
  setFlagsFromString('--no-turbofan');
}
