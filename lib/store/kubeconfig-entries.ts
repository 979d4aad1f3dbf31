// The entries of a kubeconfig with one cluster and one user, as those in a Secret have them. Pure.
import { parseYaml, yamlText } from '../yaml.ts';

export type KubeconfigFields = Readonly<Record<string, unknown>>;

export interface OnlyEntries {
  readonly cluster: KubeconfigFields | undefined;
  readonly user: KubeconfigFields | undefined;
}

/** The only cluster and the only user; undefined where there is none, or what is there is no kubeconfig. */
export function onlyEntries(bytes: Uint8Array): OnlyEntries {
  let config: KubeconfigFields | null;
  try {
    config = parseYaml(yamlText(bytes)) as KubeconfigFields | null;
  } catch {
    return { cluster: undefined, user: undefined };
  }
  return { cluster: first(config?.['clusters'], 'cluster'), user: first(config?.['users'], 'user') };
}

function first(list: unknown, of: keyof OnlyEntries): KubeconfigFields | undefined {
  const [entry] = Array.isArray(list) ? (list as readonly (KubeconfigFields | null)[]) : [];
  const value = entry?.[of];
  return typeof value === 'object' && value !== null ? (value as KubeconfigFields) : undefined;
}
