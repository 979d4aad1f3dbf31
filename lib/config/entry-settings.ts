// Settings that concern one entry of the inventory, or only what is done beside a repair: its source, where it is delivered,
// its life, when something is renewed ahead of time, whether a component is restarted. A wrong one is a problem like all others;
// but a run that repairs leaves it out and repairs everything else, because a kubelet may wait for that. What says how
// anything may be written at all is never left out: copies of replaced files would lie elsewhere, a CA would be accepted or
// renewed that was not meant. Pure.
import { nearest, type Problem } from '../problems.ts';
import { isMapping } from '../yaml.ts';
import { settingsSchema } from './schema.ts';

/** The keys of a setting in the file: `['regen', 'sources', 'apiserver']`. */
export type SettingPath = readonly [string, ...string[]];

/** Matches the beginning of a path as people read it (pathText). The last part is the name of an entry. */
const ofEntry = /^(regen\.sources|regen\.deliveries|lives)(?:\.([A-Za-z_][\w-]*)|\[("(?:[^"\\]|\\.)*")\])?(?=[.[]|$)/;
const ofMachine = /^regen\.machine(?=[.[]|$)/;
const ofRegen = /^regen(?:\.([A-Za-z_][\w-]*)|\[("(?:[^"\\]|\\.)*")\])$/;
const regenKeys = Object.keys(settingsSchema.shape.regen.unwrap().shape);
/** One of them alone says nothing: a renewal at another time than the one that was meant is none that was asked for. */
const aheadFields = ['renewBefore', 'caRenewBefore', 'window', 'warnOnly'] as const;
const ofAhead = new RegExp(`^regen\\.(?:${aheadFields.join('|')})$`);

const ahead: SettingPath = ['regen', 'renewBefore'];

function settingOf({ path, kind }: Pick<Problem, 'path' | 'kind'>): SettingPath | undefined {
  if (ofAhead.test(path)) return ahead;
  if (ofMachine.test(path)) return ['regen', 'machine'];
  if (path === 'regen.restart') return ['regen', 'restart'];
  if (kind === 'unknown' && ofRegen.test(path)) return unknownSetting(path);
  const [whole, group = '', plain, quoted] = ofEntry.exec(path) ?? [];
  if (whole === undefined) return undefined;
  const name = quoted === undefined ? plain : (JSON.parse(quoted) as string);
  const [first = '', ...rest] = group.split('.');
  return [first, ...rest, ...(name === undefined ? [] : [name])];
}

/** A key that nobody knows may be meant for one that is known: then it is left out where that one would be. */
function unknownSetting(path: string): SettingPath | undefined {
  const [, plain, quoted = '""'] = ofRegen.exec(path) ?? [];
  const key = plain ?? (JSON.parse(quoted) as string);
  const text = key.toLowerCase();
  const holds = (known: string): boolean => known.includes(text) || text.includes(known);
  const meant = [nearest(key, regenKeys) ?? [], regenKeys.filter((known) => holds(known.toLowerCase()))].flat();
  const settings = meant.map((known) => settingOf({ path: `regen.${known}`, kind: 'invalid' }));
  if (settings.includes(undefined)) return undefined;
  return settings.find((one) => one === ahead) ?? ['regen', key];
}

/** The settings to be left out for these problems; undefined where one of them concerns more. */
export function settingsOfEntries(problems: readonly Problem[]): readonly SettingPath[] | undefined {
  const settings = problems.map((problem) => settingOf(problem));
  return settings.includes(undefined) ? undefined : settings.filter((one) => one !== undefined);
}

export const isLeftOut = (problem: Problem, leaving: readonly SettingPath[]): boolean => {
  const setting = settingOf(problem);
  return setting !== undefined && leaving.some((one) => one.join('\0') === setting.join('\0'));
};

/** The same settings without these. */
export function withoutSettings<T extends object>(settings: T, leaving: readonly SettingPath[]): T {
  const left = structuredClone(settings);
  for (const path of leaving) remove(left, path);
  if (!leaving.includes(ahead)) return left;
  for (const field of aheadFields) remove(left, ['regen', field]);
  const lives: unknown = Reflect.get(left, 'lives');
  for (const name of isMapping(lives) ? Object.keys(lives) : []) remove(left, ['lives', name, 'renewBefore']);
  return left;
}

function remove(from: object, [key = '', ...rest]: readonly PropertyKey[]): void {
  const inner: unknown = Reflect.get(from, key);
  if (rest.length === 0) Reflect.deleteProperty(from, key);
  else if (typeof inner === 'object' && inner !== null) remove(inner, rest);
}
