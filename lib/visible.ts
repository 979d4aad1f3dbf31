// Text from outside (names from the API, from files, from certificates) that is harmless for a terminal: no escape
// sequences, no changes of direction. Pure.

/** For one line: characters that a terminal would act on are replaced by their code points. */
export const visible = (text: string): string =>
  text.replaceAll(/[\p{C}\u2028\u2029]/gu, (char) => `\\u{${char.codePointAt(0)?.toString(16)}}`);

/** Line breaks and tabs stay, and what this program itself writes: a line in a colour, and one over another. */
// oxlint-disable-next-line no-control-regex -- these are what is looked for
const unseen = /((?<![^])\r\u001B\[K|^\u001B\[3[1-3]m|\u001B\[0m$)|[^\P{C}\n\t]|[\u2028\u2029]/gmu;

const escapedUnit = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;

/** For many lines, in the form that JSON and YAML have in quotes. */
export const visibleLines = (text: string): string =>
  text.replaceAll(unseen, (found: string, own?: string) => own ?? found.replaceAll(/[^]/g, escapedUnit));
