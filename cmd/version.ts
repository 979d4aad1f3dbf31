// What the build says about itself; fallbacks for a run from the sources.
declare const VERSION: string;
declare const BUILT_AT: string;

export const version: string = typeof VERSION === 'undefined' ? 'development' : VERSION;

/** No correct clock shows an earlier time. */
export const builtAt: Date = new Date(typeof BUILT_AT === 'undefined' ? '2026-11-01T00:00:00Z' : BUILT_AT);
