// Settings of a component: flags of its command line, variables in place of flags, fields of its configuration. Pure.
import { posix } from 'node:path';
import { flagsIn } from '../../command-flags.ts';
import type { ComponentName } from '../../components.ts';
import { componentMapping, isMapping } from '../../yaml.ts';
import { configurationFields, fileFlags } from '../file-flags.ts';

/** All values of each flag in their order, by its name without dashes. */
export type ValuesByFlag = ReadonlyMap<string, readonly string[]>;

/** A directory or a file of the host in a container; `hostPath` is undefined for a volume that lies on no host. */
export interface Mount {
  readonly at: string;
  readonly hostPath: string | undefined;
}

/** The directories that map a path of a component to a path of this host. */
export interface PathContext {
  /** Mounts of its container. */
  readonly mounts: readonly Mount[];
  /** The directory that relative paths begin at; undefined where it is unknown here. */
  readonly workingDirectory?: string | undefined;
}

export interface ComponentSettings extends PathContext {
  readonly values: ValuesByFlag;
  /** The manifest, the unit or the process that starts it. */
  readonly source: string;
  /** Whether another program starts it, so that its flags are not known. */
  readonly isHidden?: boolean;
}

/** The command line of a component, and how it was found. */
export interface ComponentCommand extends PathContext {
  readonly words: readonly string[];
  readonly variables: ReadonlyMap<string, string>;
  readonly source: string;
}

/** Returns values of the flags among these words. */
export function valuesIn(words: readonly string[]): ValuesByFlag {
  const values = new Map<string, string[]>();
  for (const { name, value = '' } of flagsIn(words)) {
    const known = values.get(name);
    if (known === undefined) values.set(name, [value]);
    else known.push(value);
  }
  return values;
}

/** Returns variables that replace flags: ETCD_CERT_FILE for --cert-file, and etcdctl's (etcd: pkg/flags, FlagToEnv). */
export function valuesOfVariables(component: ComponentName, variables: ReadonlyMap<string, string>): ValuesByFlag {
  if (component !== 'etcd') return new Map();
  return new Map(
    [...variables].flatMap(([name, value]): [string, readonly string[]][] => {
      const [, prefix, rest] = /^(ETCD|ETCDCTL)_(\w+)$/.exec(name) ?? [];
      if (rest === undefined || value === '') return [];
      const flag = rest.toLowerCase().replaceAll('_', '-');
      return [[prefix === 'ETCD' ? flag : `etcdctl-${flag}`, [value]]];
    }),
  );
}

/** Merges two sources of flags: values of the first beat values of the second. */
export const firstOfBoth = (first: ValuesByFlag, second: ValuesByFlag): ValuesByFlag => new Map([...second, ...first]);

/** Adds the values of a configuration that a flag names. `documents`: its texts, a later one beats an earlier. */
export function withConfiguration(
  component: ComponentName,
  values: ValuesByFlag,
  { flag, file, documents }: { readonly flag: string; readonly file: string; readonly documents: readonly string[] },
): ValuesByFlag {
  const known = configurationFields[component]?.[flag];
  if (known === undefined) return values;
  const found = new Map<string, readonly string[]>();
  for (const text of documents) {
    const document = componentMapping(text);
    const here = new Map<string, readonly string[]>();
    for (const [path, name] of Object.entries(known.fields)) {
      const texts = fieldsAt(document, path).flatMap((value) =>
        typeof value === 'string' && value !== '' ? value : [],
      );
      if (texts.length > 0) here.set(name, [...(here.get(name) ?? []), ...texts]);
    }
    for (const [name, texts] of here)
      found.set(
        name,
        texts.map((value) => (Object.hasOwn(fileFlags[component], name) ? besideConfiguration(file, value) : value)),
      );
  }
  if (known.order === 'fieldsAlone') return found;
  const unread = known.order === 'fieldsInstead' ? new Set(Object.values(known.fields)) : new Set<string>();
  return firstOfBoth(new Map([...values].filter(([name]) => !unread.has(name))), found);
}

/** Resolves a path next to the configuration (cmd/kubelet/app: kubeletConfigFlagPrecedence, resolveRelativePaths). */
const besideConfiguration = (file: string, path: string): string =>
  posix.isAbsolute(path) ? path : posix.join(posix.dirname(file), path);

function fieldsAt(value: unknown, path: string): readonly unknown[] {
  const [step = '', ...rest] = path.split('.');
  const name = step.replace(/\[\]$/, '');
  const field = isMapping(value) ? value[name] : undefined;
  const items = step.endsWith('[]') ? (Array.isArray(field) ? (field as readonly unknown[]) : []) : [field];
  return rest.length === 0 ? items : items.flatMap((item) => fieldsAt(item, rest.join('.')));
}

/** Returns the path on this host of a component's path; undefined where none is given, and where it is unknown. */
export const hostPathOf = (path: string | undefined, around: PathContext): string | undefined =>
  hostPlaceOf(path, around)?.path;

/** `unknown`: why the place on this host is unknown, as the last part of a sentence. Undefined without a path. */
export type HostPlace = { readonly path: string; readonly unknown?: never } | Unknown;
interface Unknown {
  readonly path?: never;
  readonly unknown: string;
  /** The volume is deleted together with its pod. */
  readonly isInPod?: true;
}

export function hostPlaceOf(
  path: string | undefined,
  { mounts, workingDirectory }: PathContext,
): HostPlace | undefined {
  // An empty value means none (pflag).
  if (path === undefined || path === '') return undefined;
  if (path.includes('$')) return { unknown: 'has a variable whose value is not known here' };
  // systemd.unit(5), "Specifiers".
  if (/%[A-Za-z]/.test(path)) return { unknown: 'has a specifier of systemd whose value is not known here' };
  if (!posix.isAbsolute(path) && workingDirectory === undefined)
    return { unknown: 'is a relative path, and the working directory is not known here' };
  const inside = posix.resolve(workingDirectory ?? '/', path);
  const above = mounts.filter(({ at }) => inside === at || inside.startsWith(`${at}/`));
  const [nearest] = above.toSorted((one, other) => other.at.length - one.at.length);
  if (nearest === undefined) return { path: inside };
  if (nearest.hostPath === undefined)
    return { unknown: 'lies in a volume of the pod that is no directory of this host', isInPod: true };
  return { path: posix.join(nearest.hostPath, inside.slice(nearest.at.length)) };
}
