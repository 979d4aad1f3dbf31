// The manifests that come with the project, so that administrators can read what `init`, `init adopt` and `init host`
// apply and write, and can add the containers by hand. Pure but for the presets themselves.
import { format } from 'prettier';
import { podAddition } from '../lib/adopt/pod-files.ts';
import { kubeadmPatches, type PodAddition } from '../lib/adopt/static-pods.ts';
import { type StaticPod, staticPods } from '../lib/components.ts';
import { defaultNamespace } from '../lib/install/accounts.ts';
import { manifestsDirectories, renderHost } from '../lib/install/host.ts';
import { approverDeployment, approverStaticPod } from '../lib/install/approver-pod.ts';
import { defaultDirectory } from '../lib/install/layout.ts';
import { besideOperatorsMachineConfig, besideOperatorsPod } from '../lib/install/openshift-beside.ts';
import { copiedProgram, programPlaces } from '../lib/install/program-copy.ts';
import { approverInstallManifests, installManifests, podSyncers, type RbacOptions } from '../lib/install/rbac.ts';
import { allDirectories, isFile } from '../lib/inventory/places.ts';
import { loadPreset } from '../lib/inventory/preset.ts';
import { resolve } from '../lib/inventory/resolve.ts';
import { kubeletSignerNames } from '../lib/well-known.ts';
import { toYaml } from '../lib/yaml.ts';
import { daemonSetManifests } from './daemonset.ts';
import { monitoring } from './monitoring.ts';
import { openshiftContainers } from './openshift-containers.ts';

const preset = 'kubernetes';
const [repository, version] = ['example.com/kube-cert-recovery', '0.1.0'];
const image = `${repository}:${version}`;
const inventory = loadPreset(preset);
const inApi = { ...inventory, artefacts: inventory.artefacts.filter(({ location }) => !isFile(location)) };
/** Whatever the names are, rights, flags and mounts are the same. */
const resolved = resolve(inApi, { parameters: { apiServerHostnames: ['localhost'] } });

/** Text by path below manifests/. */
export async function publishedManifests(): Promise<Readonly<Record<string, string>>> {
  const own = { ...rbac(), ...patches(), ...openshift(), ...besideOperators(), ...approver(), ...monitoring() };
  const published = { ...own, ...daemonSet() };
  const formatted = Object.entries(published).map(async ([name, text]) => {
    if (name.includes('/templates/')) return [name, text] as const; // of Helm: no YAML
    return [
      name,
      await format(text, { parser: name.endsWith('.json') ? 'json' : 'yaml', singleQuote: true, printWidth: 120 }),
    ] as const;
  });
  return { ...Object.fromEntries(await Promise.all(formatted)), ...units() };
}

const daemonSet = (): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(daemonSetManifests(repository, version)).map(([name, text]) => [`daemonset/${name}`, text]),
  );

/** One process for all components (`init`), and one container in each static pod (`init adopt`). */
function rbac(): Readonly<Record<string, string>> {
  const text = (command: string, options: Omit<RbacOptions, 'namespace'>): string =>
    `# Generated from the preset "${preset}": what "kube-cert-recovery ${command}" applies besides the certificates.\n` +
    installManifests({ ...options, namespace: defaultNamespace })
      .map((manifest) => toYaml(manifest))
      .join('---\n');
  const adopted = { artefacts: inApi.artefacts, syncers: podSyncers(resolved), approver: true };
  return {
    [`rbac-${preset}.yaml`]: text('init', { artefacts: inventory.artefacts }),
    [`rbac-${preset}-adopted.yaml`]: text('init adopt', adopted),
  };
}

/** What the published patches add to a static pod: all as `init adopt` does, but for the image and SELinux. */
export function publishedAddition(pod: StaticPod): PodAddition {
  return podAddition(pod, { resolved, directory: defaultDirectory, image, kubeletPki: '/var/lib/kubelet/pki' });
}

function patches(): Readonly<Record<string, string>> {
  const named = staticPods.flatMap((pod) => {
    const addition = publishedAddition(pod);
    return Object.entries(kubeadmPatches(addition)).map(([name, patch]) => {
      const about = name.includes('+json') ? flagsText : containerText;
      return [`kubeadm-patches/${name}`, `${about(addition)}${toYaml(patch)}`] as const;
    });
  });
  return Object.fromEntries(named);
}

const flagsText = ({ pod, layout }: PodAddition): string => `\
# The flags by which ${pod} reads what the container beside it writes. A patch for
# "kubeadm ... --patches DIRECTORY", together with ${pod}1+strategic.yaml.
# The files below ${layout.directory} are written by
# "kube-cert-recovery init adopt".
`;

const containerText = ({ pod, layout, kubeletPki }: PodAddition): string => `\
# The container that "kube-cert-recovery init adopt" adds to the static pod ${pod},
# and what both mount. A patch for "kubeadm ... --patches DIRECTORY", together with ${pod}0+json.yaml.
#
# The files below ${layout.directory} are written by "init adopt".
# It also writes these patches, with the values of its node, to ${defaultDirectory}/patches.
# Here these are placeholders:
#
#   ${image}: the image
${kubeletPki === undefined ? '' : `#   ${kubeletPki}: where the kubelet keeps its certificates, which mode approver reads\n`}#
# Where SELinux enforces, add to the securityContext: seLinuxOptions: { type: spc_t, level: s0 }
`;

/** The approver on its own. */
function approver(): Readonly<Record<string, string>> {
  const directory = `${defaultDirectory}/approver`;
  const pod = {
    image,
    directory,
    config: '',
    configFile: `${directory}/config.yaml`,
    kubeletPki: '/var/lib/kubelet/pki',
  };
  const deployed = [
    ...approverInstallManifests(defaultNamespace, {
      token: false,
      grant: { signers: kubeletSignerNames, addresses: [] },
    }),
    ...approverDeployment({ image, namespace: defaultNamespace, approver: {} }),
  ];
  return {
    'approver/static-pod.yaml': `\
# The static pod that "kube-cert-recovery init approver" writes to /etc/kubernetes/manifests. It also makes its
# identity, its rights, and the files below ${directory}.
# ${image} is a placeholder for the image. See docs/approver.md.
${toYaml(approverStaticPod(pod))}`,
    'approver/deployment.yaml': `\
# Mode approver in any cluster: its identity, its rights, its configuration, and a Deployment of two replicas.
# The NetworkPolicy lets nobody but the node itself, which probes them, reach the replicas. To have metrics scraped, set
# "metrics:" in the configuration (docs/monitoring.md) and add your Prometheus to the ingress. It bounds no egress: the
# ports of the API server behind its Service, of DNS and of kubelets are the cluster's own.
# ${image} is a placeholder for the image. See docs/approver.md.
${deployed.map((manifest) => toYaml(manifest)).join('---\n')}`,
  };
}

function besideOperators(): Readonly<Record<string, string>> {
  const pod = toYaml(besideOperatorsPod(image, defaultDirectory));
  const about = `\
# ${image} is a placeholder for the image. See docs/openshift.md#beside-the-operators.
`;
  return {
    'openshift/beside-operators.yaml': `\
# A static pod beside OpenShift's operators: it makes what has expired anew, and approves kubelets' requests.
${about}${pod}`,
    'openshift/machine-config.yaml': `\
# The MachineConfig that brings beside-operators.yaml to each control-plane node, as
# "kube-cert-recovery init openshift --image=${image}" prints it: run that with your image.
# In this file it stands where no editor finds it (base64).
${toYaml(besideOperatorsMachineConfig(pod))}`,
  };
}

function openshift(): Readonly<Record<string, string>> {
  const files = Object.entries(openshiftContainers(image)).map(([component, containers]) => {
    const names = containers.map(({ name }) => name).join(' and ');
    const about = `\
# In the static pod of ${component} on OpenShift, in place of the containers
# ${names}.
# Image and arguments take the place of the operator's image, command and arguments; the rest is as the operator has it.
# ${image} is a placeholder for the image. See docs/openshift.md.
`;
    return [`openshift/${component}.yaml`, `${about}${toYaml(containers)}`] as const;
  });
  return Object.fromEntries(files);
}

/** The units of `init host` on a machine of kubeadm. */
function units(): Readonly<Record<string, string>> {
  const declared = allDirectories(loadPreset('kubeadm'), {});
  const directories = Object.values(declared);
  const writable = directories.filter((path) => !directories.some((other) => path.startsWith(`${other}/`)));
  const executable = copiedProgram(programPlaces);
  const options = { executable, flags: ['--preset=kubeadm'], writable, manifests: manifestsDirectories(declared) };
  const files = renderHost({ ...options, unitDirectory: 'systemd' });
  return Object.fromEntries(files.map(({ path, content }) => [path, content]));
}
