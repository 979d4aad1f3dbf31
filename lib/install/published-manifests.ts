// The manifests that come with the project, so that administrators can read what `init` would apply: one file for each
// preset whose truth is in the API. Pure but for the presets themselves.
import { loadPreset } from '../inventory/preset.ts';
import { allDirectories } from '../inventory/resolve.ts';
import { renderHost } from './host.ts';
import { toYaml } from '../yaml.ts';
import { defaultNamespace, installManifests } from './rbac.ts';

const presets = ['kubernetes'] as const;

/** Text by file name. */
export function manifestsYaml(): Readonly<Record<string, string>> {
  const files = presets.map((preset) => {
    const manifests = installManifests({ artefacts: loadPreset(preset).artefacts, namespace: defaultNamespace });
    const head = `# Generated from the preset "${preset}": what "kube-cert-recovery init" applies besides the certificates.\n`;
    return [`rbac-${preset}.yaml`, head + manifests.map((manifest) => toYaml(manifest)).join('---\n')];
  });
  return Object.fromEntries(files) as Record<string, string>;
}

/** The units of `init host` on a machine of kubeadm, by file name. */
export function publishedUnits(): Readonly<Record<string, string>> {
  const directories = Object.values(allDirectories(loadPreset('kubeadm'), {}));
  const writable = directories.filter((path) => !directories.some((other) => path.startsWith(`${other}/`)));
  const executable = '/usr/local/bin/kube-cert-recovery';
  const files = renderHost({ executable, flags: ['--preset=kubeadm'], writable, unitDirectory: 'systemd' });
  return Object.fromEntries(files.map(({ path, content }) => [path, content]));
}
