// What the static pods of OpenShift say to the containers whose places this program takes.
import { describe, expect, it } from 'vitest';
import { parseConfig } from '../../lib/config/load.ts';
import type { ConfigInput } from '../../lib/config/sources.ts';
import type { ConfigFlags } from '../../lib/config/flags.ts';
import { installedPresets } from '../../lib/inventory/preset.ts';

interface Given {
  readonly flags: ConfigFlags;
  readonly env?: Readonly<Record<string, string>>;
}

const input = ({ flags, env = {} }: Given): ConfigInput => ({
  flags,
  env,
  cwd: '/home/admin',
  presets: installedPresets,
});
const syncer: ConfigFlags = {
  mode: 'syncer',
  preset: 'openshift-kube-scheduler',
  kubeconfig: '/k',
  destinationDir: '/certs',
};
const regen: ConfigFlags = {
  mode: 'regen',
  preset: 'kubernetes',
  parameter: ['apiServerHostnames=a,b'],
  kubeconfig: '/k',
};

describe('env POD_NAMESPACE', () => {
  const env = { POD_NAMESPACE: 'elsewhere' };
  const namespaceOf = (given: Given): unknown => {
    const { artefacts } = parseConfig(input(given)).inventory;
    const { location } = artefacts.find(({ published }) => published !== undefined) ?? {};
    return location !== undefined && 'namespace' in location ? location.namespace : undefined;
  };

  it('is the default of --namespace where objects lie beside their pods, as for the cert-syncer of OpenShift', () => {
    expect(namespaceOf({ flags: syncer, env })).toBe('elsewhere');
    expect(namespaceOf({ flags: syncer })).toBe('openshift-kube-scheduler');
    expect(namespaceOf({ flags: { ...syncer, namespace: 'typed' }, env })).toBe('typed');
  });

  it('says nothing of other inventories, whose pods are in kube-system', () => {
    expect(namespaceOf({ flags: regen, env })).toBe('kube-cert-recovery');
  });

  it('is refused where it is none', () => {
    const parse = (): unknown => parseConfig(input({ flags: syncer, env: { POD_NAMESPACE: 'A.b' } }));
    expect(parse).toThrow('env POD_NAMESPACE: must be a namespace');
  });
});

describe('--caches-synced-file', () => {
  it("is the syncer's, and a path from the working directory", () => {
    const { modes } = parseConfig(input({ flags: { ...syncer, cachesSyncedFile: 'synced' } }));
    expect(modes).toMatchObject([{ cachesSyncedFile: '/home/admin/synced' }]);
    const parse = (): unknown => parseConfig(input({ flags: { ...regen, cachesSyncedFile: '/synced' } }));
    expect(parse).toThrow('--caches-synced-file: must be left out without mode syncer');
  });
});
