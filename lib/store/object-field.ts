// Content in a field of an object without a namespace, whose kind only its cluster knows: only ever read. Go encodes
// bytes in base64 and text as it is; both are PEM once decoded.
import type { FieldLocation } from '../inventory/model.ts';
import { caBundleKey, registryAuthsKey } from '../inventory/content.ts';
import { fieldText } from '../inventory/places.ts';
import { getIfPresent, type GetRequest } from '../kube/objects.ts';
import { isMapping } from '../yaml.ts';
import type { Found } from './store.ts';

interface AnyObject {
  readonly metadata?: { readonly resourceVersion?: string; readonly annotations?: Readonly<Record<string, string>> };
}

export async function readField(location: FieldLocation, request: GetRequest): Promise<Found | undefined> {
  const object = await getIfPresent<AnyObject>(request, pathOf(location));
  if (object === undefined) return undefined;
  const { resourceVersion: version = '', annotations = {} } = object.metadata ?? {};
  const value = valueAt(object, location.path);
  const common = { version, annotations: { ...annotations } };
  if (value === undefined || value === null)
    return location.content === 'registryAuths' ? undefined : { ...common, entries: {} };
  const refused = (why: string) => ({ ...common, entries: {}, problem: `Cannot use ${fieldText(location)}: ${why}` });
  if (location.content === 'bundles')
    return Array.isArray(value) ? { ...common, entries: itemsOf(value) } : refused('it is no list');
  if (typeof value !== 'string') return refused('it is no text');
  const key = location.content === 'registryAuths' ? registryAuthsKey : caBundleKey;
  return { ...common, entries: { [key]: bytesOf(value) } };
}

const bytesOf = (value: string): Buffer => Buffer.from(value, value.includes('-----BEGIN') ? 'utf8' : 'base64');

/** Items {file, data}. What is no text counts as empty; of several with one name the last counts, as for the daemon. */
const itemsOf = (list: readonly unknown[]): Found['entries'] =>
  Object.fromEntries(list.filter(isMapping).map(({ file, data }) => [textOf(file), bytesOf(textOf(data))]));

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

export const fieldListPath = ({ apiVersion, resource }: FieldLocation): string =>
  `/${apiVersion.includes('/') ? 'apis' : 'api'}/${apiVersion}/${resource}`;

const pathOf = (location: FieldLocation): string => `${fieldListPath(location)}/${encodeURIComponent(location.name)}`;

function valueAt(object: object, path: string): unknown {
  let value: unknown = object;
  for (const name of path.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
    value = (value as Readonly<Record<string, unknown>>)[name];
  }
  return value;
}
