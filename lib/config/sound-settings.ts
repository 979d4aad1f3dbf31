// The part of given settings that is right, where something else in them is wrong: a second look at the rest then finds what
// else is wrong, and does not take for missing what is there. Pure.
import { type GivenSettings, settingsSchema } from './schema.ts';

/** Always settings that the schema takes: what cannot be without a wrong part goes with it. */
export function soundSettings(value: object): GivenSettings {
  const sound = structuredClone(value);
  for (;;) {
    // One at a time: several may be of one part, which is gone after the first.
    const [issue] = settingsSchema.safeParse(sound).error?.issues ?? [];
    if (issue === undefined) return sound;
    const wrong = issue.code === 'unrecognized_keys' ? issue.keys.map((key) => [...issue.path, key]) : [issue.path];
    for (const path of wrong) if (!removeWrong(sound, path)) return {};
  }
}

/** A list is right as a whole, and a mapping that lacks a field is wrong itself. False: nothing would be left. */
function removeWrong(from: object, path: readonly PropertyKey[]): boolean {
  const [key = '', ...rest] = path;
  if (path.length === 0 || !Object.hasOwn(from, key)) return false;
  const inner: unknown = Reflect.get(from, key);
  const isDeeper = typeof inner === 'object' && inner !== null && !Array.isArray(inner);
  return (isDeeper && removeWrong(inner, rest)) || Reflect.deleteProperty(from, key);
}
