// Names of the modes of a process. Flags, messages and the sections of the configuration file derive from them; loading
// them costs nothing. Pure.

/** Modes of a process, in the order of messages. */
export const modeNames = ['regen', 'syncer', 'approver'] as const;
export type Mode = (typeof modeNames)[number];

export const isMode = (text: string): text is Mode => (modeNames as readonly string[]).includes(text);
