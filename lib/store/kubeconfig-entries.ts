// The entries of a kubeconfig with one cluster and one user, as those in a Secret have them. Pure.
import { parseYaml } from '../yaml.ts';

export type KubeconfigFields = Readonly<Record<string, unknown>>;

/** Of the only cluster, or of the only user; undefined where there is none, or what is there is no kubeconfig. */
export function onlyEntry(bytes: Uint8Array, of: 'cluster' | 'user'): KubeconfigFields | undefined {
  try {
    const config = parseYaml(Buffer.from(bytes).toString('utf8')) as KubeconfigFields | null;
    const list = config?.[`${of}s`];
    const [entry] = Array.isArray(list) ? (list as readonly (KubeconfigFields | null)[]) : [];
    const value = entry?.[of];
    return typeof value === 'object' && value !== null ? (value as KubeconfigFields) : undefined;
  } catch {
    return undefined;
  }
}
