// Reads and merges the three sources of the configuration (command line, file, environment), and collects their
// problems. Flags override the file, field by field, and both are checked by one schema. Pure: relative paths of the
// command line are resolved against `cwd`.
import { resolve } from 'node:path';
import type { PresetSource } from '../inventory/preset.ts';
import { checkShape, nowhere } from '../inventory/shape.ts';
import type { DocumentPlace } from '../inventory/shape.ts';
import { valueText } from '../problems.ts';
import type { Problem } from '../problems.ts';
import { isMapping, readYaml } from '../yaml.ts';
import { flagOfField, flagRows, typedValue } from './flags.ts';
import type { FlagRow, ConfigFlags } from './flags.ts';
import { isLeftOut, type SettingPath, withoutSettings } from './entry-settings.ts';
import { looseConfigSchema, settingsSchema } from './schema.ts';
import type { GivenSettings, Settings } from './schema.ts';
import { soundSettings } from './sound-settings.ts';

export interface ConfigInput {
  readonly flags: ConfigFlags;
  /** File of --config. */
  readonly file?: { readonly path: string; readonly text: string };
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Host name of this machine. */
  readonly hostName?: string;
  /** Relative paths on the command line are resolved against it. */
  readonly cwd: string;
  /** Preset of a command for this host, where none is named. */
  readonly defaultPreset?: string;
  readonly presets: PresetSource;
  /** Wrong settings of the file, treated as absent. */
  readonly leaving?: readonly SettingPath[];
  /** Problems of the command's own flags, to be reported with the others. */
  readonly problems?: readonly Problem[];
}

/** All sources, and the problems found so far; every step adds to them. */
export type ConfigReading = ReturnType<typeof readSources>;

/** klog's numbers, which components of Kubernetes accept as `-v`: from 4 on they mean debugging. */
function levelOf(text: string): string {
  if (!/^(?:\d|10)$/.test(text)) return text;
  return Number(text) >= 4 ? 'debug' : 'info';
}

const listOf = (text: string): string[] => text.split(',').flatMap((part) => (part.trim() === '' ? [] : [part.trim()]));

/** Parses `name=value` texts; undefined where none is valid. */
function assignments(
  { flag }: FlagRow,
  wanted: string,
  { texts, parse, problems }: { texts: readonly string[]; parse: (text: string) => unknown; problems: Problem[] },
): Readonly<Record<string, unknown>> | undefined {
  const values = new Map<string, unknown>();
  for (const text of texts) {
    const [, name, value] = /^([A-Za-z][A-Za-z0-9]*)=(.*)$/s.exec(text) ?? [];
    if (name === undefined || value === undefined) {
      problems.push({ path: flag, kind: 'invalid', message: `must be ${wanted}, got ${valueText(text)}` });
    } else if (values.has(name)) {
      problems.push({ path: flag, kind: 'duplicate', message: `must give "${name}" once, got it again` });
    } else values.set(name, parse(value));
  }
  return values.size === 0 ? undefined : Object.fromEntries(values);
}

/** Value of a flag in the form of the file; undefined: not given. */
function valueOf(row: FlagRow, flags: ConfigFlags, { cwd, problems }: { cwd: string; problems: Problem[] }): unknown {
  const path = (text: string): string => (text === '' ? text : resolve(cwd, text));
  const typed = typedValue(flags, row);
  if (typed === undefined || typeof typed === 'boolean') return typed;
  const texts = [typed].flat();
  const [text = ''] = texts;
  switch (row.as) {
    case 'path':
      return path(text);
    case 'list':
      return listOf(text);
    case 'level':
      return levelOf(text);
    case 'lists':
      return texts.flatMap(listOf);
    case 'listsByName':
      return assignments(row, 'name=value[,value...]', { texts, parse: listOf, problems });
    case 'pathsByName':
      return assignments(row, 'name=path', { texts, parse: path, problems });
    case undefined:
  }
  return text;
}

function settingsOfFlags(flags: ConfigFlags, cwd: string): { settings: GivenSettings; problems: readonly Problem[] } {
  const raw: Record<string, unknown> = {};
  const problems: Problem[] = [];
  for (const row of flagRows) {
    const value = valueOf(row, flags, { cwd, problems });
    if (row.field === undefined || value === undefined) continue;
    const [group = '', field] = row.field.split('.');
    raw[group] = field === undefined ? value : { ...(raw[group] as object | undefined), [field]: value };
  }
  const shape = checkShape(settingsSchema, raw);
  if ('value' in shape) return { settings: raw, problems };
  const named = shape.problems.map((problem) => ({
    ...problem,
    path: flagOfField(problem.path)?.flag ?? problem.path,
  }));
  return { settings: soundSettings(raw), problems: [...problems, ...named] };
}

function settingsOfFile(file: ConfigInput['file']) {
  const none = { settings: {} as GivenSettings, inline: undefined as unknown };
  if (file === undefined) return { ...none, place: nowhere, problems: [], unread: false };
  const { path: source, text } = file;
  const { value, problems, lineOf } = readYaml(text);
  const place: DocumentPlace = { path: [], lineOf, source };
  if (problems.length > 0) {
    const syntax = problems.map((problem): Problem => ({ path: '', kind: 'syntax', ...problem, source }));
    return { ...none, place, problems: syntax, unread: true };
  }
  const shape = checkShape(looseConfigSchema, value, place);
  /** Whether the file is no YAML or no mapping: its intended content is unknown. */
  const unread = !isMapping(value);
  /** Inventory in the file, unchecked. */
  const { inventory: inline, ...rest } = unread ? {} : value;
  const found = 'problems' in shape ? shape.problems : [];
  const inOrder = found.toSorted((a, b) => (a.line ?? 0) - (b.line ?? 0));
  return { settings: soundSettings(rest), place, inline, problems: inOrder, unread };
}

function merged(file: GivenSettings, flags: GivenSettings, leaving: readonly SettingPath[]): Settings {
  const ofFile: Readonly<Record<string, unknown>> = file;
  const both = Object.entries(flags).map(([key, value]) => {
    const other = ofFile[key];
    return [key, isMapping(value) && isMapping(other) ? { ...other, ...value } : value] as const;
  });
  return settingsSchema.parse(withoutSettings({ ...file, ...Object.fromEntries(both) }, leaving));
}

export function readSources(input: ConfigInput) {
  const { settings: flags, problems } = settingsOfFlags(input.flags, input.cwd);
  const file = settingsOfFile(input.file);
  const { leaving = [] } = input;
  const ofFile = file.problems.filter((problem) => !isLeftOut(problem, leaving));
  const all = [...(input.problems ?? []), ...problems, ...ofFile];
  /** Valid settings of both, with defaults. */
  const settings = merged(file.settings, flags, leaving);
  return { input, flags, file, settings, problems: all };
}

/** Value that the file of --config gives a field: `regen.renewBefore`. Undefined: it sets none, or a wrong one. */
export function saidByFile({ file }: ConfigInput, field: string): unknown {
  const { settings } = settingsOfFile(file);
  return field.split('.').reduce<unknown>((at, key) => (isMapping(at) ? at[key] : undefined), settings);
}

/** Reports a missing field, unless it may be present: in an unread file, or given wrongly and reported already. */
export function missing({ file, problems }: ConfigReading, paths: readonly string[], message: string): void {
  const told = problems.some(
    ({ path, kind }) => kind !== 'required' && paths.some((one) => path === one || path.startsWith(`${one}[`)),
  );
  if (!file.unread && !told) problems.push({ path: paths[0] ?? '', kind: 'required', message });
}
