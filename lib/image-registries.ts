// Conditions under which names of image registries, and credentials for registries, become files of a node. Pure.
import { isMapping } from './yaml.ts';

/** Whether it is JSON with credentials for a registry at least: a Secret that has lost all of them takes none away. */
export function isRegistryAuths(bytes: Uint8Array): boolean {
  try {
    const value: unknown = JSON.parse(Buffer.from(bytes).toString('utf8'));
    return isMapping(value) && isMapping(value['auths']) && Object.keys(value['auths']).length > 0;
  } catch {
    return false; // the error would quote it
  }
}

/** A host, and a port: a single name in a directory, never a way out of it. */
const registryPattern = /^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?::\d{1,5})?$/;
const longestName = 253 + ':65535'.length;

/**
 * The directory of a registry, of its key: no key of a ConfigMap may have the colon of a port, for which it has `..`.
 * Undefined for every other text.
 */
export function registryOf(key: string): string | undefined {
  const name = key.replaceAll('..', ':');
  return name.length <= longestName && registryPattern.test(name) ? name : undefined;
}
