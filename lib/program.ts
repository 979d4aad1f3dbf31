// Identity of this program: which version, of which commit, built when. The build replaces the constants
// (scripts/build-stamp.ts); the fallbacks are for a run from the sources.
import { secondsText } from './clock.ts';

declare const VERSION: string;
declare const COMMIT: string;
declare const BUILT_AT: string;

export const version: string = typeof VERSION === 'undefined' ? 'development' : VERSION;

const commit: string = typeof COMMIT === 'undefined' ? 'unknown' : COMMIT;

/** No correct clock shows an earlier time. */
export const builtAt: Date = new Date(typeof BUILT_AT === 'undefined' ? '2026-11-01T00:00:00Z' : BUILT_AT);

const second = secondsText(builtAt);

/** Fields for reports in JSON. */
export const program = { version, commit, builtAt: second } as const;

/** One line for people. */
export const programText = `${version} (commit ${commit}, built ${second})`;
