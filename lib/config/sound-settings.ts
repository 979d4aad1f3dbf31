// Valid part of partly wrong settings: checking it afterwards finds further problems, and does not report present
// fields as missing. Pure.
import { type GivenSettings, settingsSchema } from './schema.ts';

/** Returns settings that the schema accepts: a field that needs a wrong part is removed with it. */
export function soundSettings(value: object): GivenSettings {
  const sound = structuredClone(value);
  for (;;) {
    // One at a time: several issues may concern one part, which is removed with the first.
    const [issue] = settingsSchema.safeParse(sound).error?.issues ?? [];
    if (issue === undefined) return sound;
    const wrong = issue.code === 'unrecognized_keys' ? issue.keys.map((key) => [...issue.path, key]) : [issue.path];
    for (const path of wrong) if (!removeWrong(sound, path)) return {};
  }
}

/** Removes a list as a whole, and with a missing field the mapping that lacks it. False: nothing would be left. */
function removeWrong(from: object, path: readonly PropertyKey[]): boolean {
  const [key = '', ...rest] = path;
  if (path.length === 0 || !Object.hasOwn(from, key)) return false;
  const inner: unknown = Reflect.get(from, key);
  const isDeeper = typeof inner === 'object' && inner !== null && !Array.isArray(inner);
  return (isDeeper && removeWrong(inner, rest)) || Reflect.deleteProperty(from, key);
}
