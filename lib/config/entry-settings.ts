// Settings that concern one entry of the inventory, or only what is done beside a repair: its source, where it is delivered,
// its life, when something is renewed ahead of time. A wrong one is a problem like all others; but a run that repairs leaves it
// out and repairs everything else, because a kubelet may wait for that. Pure.
import type { Problem } from '../problems.ts';
import { isMapping } from '../yaml.ts';

/** The keys of a setting in the file: `['regen', 'sources', 'apiserver']`. */
export type SettingPath = readonly [string, ...string[]];

/** Matches the beginning of a path as people read it (pathText). The last part is the name of an entry. */
const ofEntry = /^(regen\.sources|regen\.deliveries|lives)(?:\.([A-Za-z_][\w-]*)|\[("(?:[^"\\]|\\.)*")\])?(?=[.[]|$)/;
const ofMachine = /^regen\.machine(?=[.[]|$)/;
/** One of them alone says nothing: a renewal at another time than the one that was meant is none that was asked for. */
const aheadFields = ['renewBefore', 'caRenewBefore', 'window', 'warnOnly'] as const;
const ofAhead = new RegExp(`^regen\\.(?:${aheadFields.join('|')})$`);

const ahead: SettingPath = ['regen', 'renewBefore'];

function settingOf({ path }: Problem): SettingPath | undefined {
  if (ofAhead.test(path)) return ahead;
  if (ofMachine.test(path)) return ['regen', 'machine'];
  const [whole, group = '', plain, quoted] = ofEntry.exec(path) ?? [];
  if (whole === undefined) return undefined;
  const name = quoted === undefined ? plain : (JSON.parse(quoted) as string);
  const [first = '', ...rest] = group.split('.');
  return [first, ...rest, ...(name === undefined ? [] : [name])];
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
