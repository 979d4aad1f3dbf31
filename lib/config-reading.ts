// The three sources of the configuration (command line, file, environment) read and merged, with the problems met on
// the way. Flags beat the file, field by field. Pure.
import { settingsOfFlags } from './config-flags.ts';
import { looseConfigSchema, soundSettings } from './config-schema.ts';
import type { Settings } from './config-schema.ts';
import type { Flags } from './config-types.ts';
import type { PresetSource } from './inventory/preset.ts';
import { checkShape, nowhere } from './inventory/shape.ts';
import type { Place } from './inventory/shape.ts';
import type { Problem } from './problems.ts';
import { readYaml } from './yaml.ts';

export interface ConfigInput {
  readonly flags: Flags;
  /** The file of --config. */
  readonly file?: { readonly path: string; readonly text: string };
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Relative paths on the command line are seen from here. */
  readonly cwd: string;
  readonly presets: PresetSource;
  /** What the command found wrong with flags of its own, to be told with the rest. */
  readonly problems?: readonly Problem[];
}

interface FileSettings {
  readonly settings: Settings;
  readonly place: Place;
  /** The inventory that stands in the file, unchecked. */
  readonly inline: unknown;
  readonly problems: readonly Problem[];
  /** The file is no YAML or no mapping: nobody knows what it was to say. */
  readonly unread: boolean;
}

/** All sources read, and the problems met so far; every step adds to them. */
export interface Reading {
  readonly input: ConfigInput;
  readonly flags: Settings;
  readonly file: FileSettings;
  /** Both, as far as they are right. */
  readonly settings: Settings;
  readonly problems: Problem[];
}

function settingsOfFile(file: ConfigInput['file']): FileSettings {
  if (file === undefined) return { settings: {}, place: nowhere, inline: undefined, problems: [], unread: false };
  const { path: source, text } = file;
  const { value, problems, lineOf } = readYaml(text);
  const place: Place = { path: [], lineOf, source };
  if (problems.length > 0) {
    const syntax = problems.map((problem): Problem => ({ path: '', kind: 'syntax', ...problem, source }));
    return { settings: {}, place, inline: undefined, problems: syntax, unread: true };
  }
  const shape = checkShape(looseConfigSchema, value, place);
  const unread = typeof value !== 'object' || value === null || Array.isArray(value);
  const { inventory: inline, ...rest } = (unread ? {} : value) as Readonly<Record<string, unknown>>;
  const found = 'problems' in shape ? shape.problems : [];
  const inOrder = found.toSorted((a, b) => (a.line ?? 0) - (b.line ?? 0));
  return { settings: soundSettings(rest), place, inline, problems: inOrder, unread };
}

function merged(file: Settings, flags: Settings): Settings {
  const groups = ['parameters', 'directories', 'regen', 'syncer', 'approver', 'policy', 'log'] as const;
  const both = groups.map((key) => [key, { ...file[key], ...flags[key] }] as const);
  return { ...file, ...flags, ...(Object.fromEntries(both) as Settings) };
}

export function read(input: ConfigInput): Reading {
  const { settings: flags, problems } = settingsOfFlags(input.flags, input.cwd);
  const file = settingsOfFile(input.file);
  const all = [...(input.problems ?? []), ...problems, ...file.problems];
  return { input, flags, file, settings: merged(file.settings, flags), problems: all };
}

/** Says that something is missing, unless it may be there: in an unread file, or given wrongly and told so already. */
export function missing({ file, problems }: Reading, paths: readonly string[], message: string): void {
  const told = problems.some(
    ({ path, kind }) => kind !== 'required' && paths.some((one) => path === one || path.startsWith(`${one}[`)),
  );
  if (!file.unread && !told) problems.push({ path: paths[0] ?? '', kind: 'required', message });
}
