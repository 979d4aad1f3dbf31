// Settings of one entry of the inventory, or of steps that accompany a repair: the source, deliveries and life of an
// entry, renewal ahead of time, the restart of components, warnings and metrics. A wrong one is a problem like all
// others; but a repairing run leaves it out and repairs everything else, because a kubelet may wait for that. Settings
// of how files are written are never left out: copies of replaced files would lie elsewhere, or the wrong CA would be
// accepted or renewed. Pure.
import { nearest, type Problem } from '../problems.ts';
import { isMapping } from '../yaml.ts';
import { settingsSchema } from './schema.ts';

/** Keys of a setting in the file: `['regen', 'sources', 'apiserver']`. */
export type SettingPath = readonly [string, ...string[]];

/** Matches the beginning of a path in messages (pathText). The last part is the name of an entry. */
const ofEntry = /^(regen\.sources|regen\.deliveries|lives)(?:\.([A-Za-z_][\w-]*)|\[("(?:[^"\\]|\\.)*")\])?(?=[.[]|$)/;
const ofWhole =
  /^(?:(metrics)|(regen)\.(machine|waitForNodes|acceptLagging|warnBefore|metricsFile|onRenewed))(?=[.[]|$)/;
const ofRegen = /^regen(?:\.([A-Za-z_][\w-]*)|\[("(?:[^"\\]|\\.)*")\])$/;
const regenKeys = Object.keys(settingsSchema.shape.regen.unwrap().shape);
/** Left out together: renewal at another time than the configured one would be wrong. */
const aheadFields = ['renewBefore', 'caRenewBefore', 'window', 'warnOnly'] as const;
const ofAhead = new RegExp(`^regen\\.(?:${aheadFields.join('|')})$`);

const ahead: SettingPath = ['regen', 'renewBefore'];

function settingOf({ path, kind }: Pick<Problem, 'path' | 'kind'>): SettingPath | undefined {
  if (ofAhead.test(path)) return ahead;
  const [, metrics, regen = metrics, step] = ofWhole.exec(path) ?? [];
  if (regen !== undefined) return step === undefined ? [regen] : [regen, step];
  if (path === 'regen.restart') return ['regen', 'restart'];
  if (kind === 'unknown' && ofRegen.test(path)) return unknownSetting(path);
  const [whole, group = '', plain, quoted] = ofEntry.exec(path) ?? [];
  if (whole === undefined) return undefined;
  const name = quoted === undefined ? plain : (JSON.parse(quoted) as string);
  const [first = '', ...rest] = group.split('.');
  return [first, ...rest, ...(name === undefined ? [] : [name])];
}

/** Setting to leave out for an unknown key of regen; undefined if it may mean a required setting. */
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

/** Settings to leave out for these problems; undefined where a problem concerns more than an entry. */
export function settingsOfEntries(problems: readonly Problem[]): readonly SettingPath[] | undefined {
  const settings = problems.map((problem) => settingOf(problem));
  return settings.includes(undefined) ? undefined : settings.filter((one) => one !== undefined);
}

export const isLeftOut = (problem: Problem, leaving: readonly SettingPath[]): boolean => {
  const setting = settingOf(problem);
  return setting !== undefined && leaving.some((one) => one.join('\0') === setting.join('\0'));
};

/** Copy of the settings without these. */
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
