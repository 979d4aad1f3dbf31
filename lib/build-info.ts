// What the build says of itself. The bundler puts the values in; a run from source says "dev".
declare const VERSION: string | undefined;
declare const BUILT_AT: string | undefined;

export const version: string = typeof VERSION === 'string' ? VERSION : 'dev';

/** No correct clock shows an earlier time. Run from source: the day this line was last touched. */
export const builtAt: Date = new Date(typeof BUILT_AT === 'string' ? BUILT_AT : '2026-11-01T00:00:00Z');
