// The manifests that come with the project, so that administrators can read what `init` would apply. Pure but for the
// presets themselves.
import { defaultNamespace } from '../lib/install/accounts.ts';
import { manifestsDirectories, renderHost } from '../lib/install/host.ts';
import { installManifests, podSyncers, type RbacOptions } from '../lib/install/rbac.ts';
import { isFile } from '../lib/inventory/places.ts';
import { loadPreset } from '../lib/inventory/preset.ts';
import { allDirectories, resolve } from '../lib/inventory/resolve.ts';
import { toYaml } from '../lib/yaml.ts';

const preset = 'kubernetes';

/** Text by file name: one process for all components (`init`), and one container in each static pod (`init adopt`). */
export function manifestsYaml(): Readonly<Record<string, string>> {
  const inventory = loadPreset(preset);
  const { artefacts } = inventory;
  const names = { apiServerHostnames: ['localhost'] }; // whatever they are, rights are the same
  const inApi = { ...inventory, artefacts: artefacts.filter(({ location }) => !isFile(location)) };
  const syncers = podSyncers(resolve(inApi, { parameters: names }));
  const text = (command: string, options: Omit<RbacOptions, 'namespace'>): string =>
    `# Generated from the preset "${preset}": what "kube-cert-recovery ${command}" applies besides the certificates.\n` +
    installManifests({ ...options, namespace: defaultNamespace })
      .map((manifest) => toYaml(manifest))
      .join('---\n');
  return {
    [`rbac-${preset}.yaml`]: text('init', { artefacts }),
    [`rbac-${preset}-adopted.yaml`]: text('init adopt', { artefacts: inApi.artefacts, syncers, approver: true }),
  };
}

/** The units of `init host` on a machine of kubeadm, by file name. */
export function publishedUnits(): Readonly<Record<string, string>> {
  const declared = allDirectories(loadPreset('kubeadm'), {});
  const directories = Object.values(declared);
  const writable = directories.filter((path) => !directories.some((other) => path.startsWith(`${other}/`)));
  const executable = '/usr/local/bin/kube-cert-recovery';
  const units = { executable, flags: ['--preset=kubeadm'], writable, manifests: manifestsDirectories(declared) };
  const files = renderHost({ ...units, unitDirectory: 'systemd' });
  return Object.fromEntries(files.map(({ path, content }) => [path, content]));
}
