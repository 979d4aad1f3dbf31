// The files of an adopted machine below a directory: manifests as kubeadm writes them, in short, with what `init adopt`
// adds, and every file that is named there. No cluster has them; what a real one does is tested in test/e2e.
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { podAddition } from '../../../lib/adopt/pod-files.ts';
import { type AdoptionRecord, writeRecord } from '../../../lib/adopt/record.ts';
import { podManifest } from '../../../lib/adopt/static-pods-apply.ts';
import { addTo } from '../../../lib/adopt/static-pods.ts';
import { staticPods } from '../../../lib/components.ts';
import { flagArguments } from '../../../lib/install/component-flags.ts';
import { loadPreset } from '../../../lib/inventory/preset.ts';
import { resolve } from '../../../lib/inventory/resolve.ts';
import { toYaml } from '../../../lib/yaml.ts';

const directories = (root: string) => ({
  kubernetesDir: join(root, 'kubernetes'),
  pkiDir: join(root, 'kubernetes/pki'),
  directory: join(root, 'own'),
});

const resolved = resolve(loadPreset('kubernetes'), { parameters: { apiServerHostnames: ['api.example.com'] } });

/** Flags that kubeadm gives each component, those that concern an adoption. */
const flags: Readonly<Record<string, readonly string[]>> = {
  'kube-apiserver': ['advertise-address=192.0.2.10', 'secure-port=6443'],
  'kube-controller-manager': ['leader-elect=true'],
  'kube-scheduler': ['leader-elect=true'],
};

export function kubeadmManifest(pod: string, root: string): string {
  const kubeconfig = pod === 'kube-scheduler' ? [`kubeconfig=${join(root, 'kubernetes/scheduler.conf')}`] : [];
  return toYaml({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: pod, namespace: 'kube-system' },
    spec: {
      containers: [
        {
          name: pod,
          command: [pod, ...[...(flags[pod] ?? []), ...kubeconfig].map((flag) => `--${flag}`)],
          volumeMounts: [{ name: 'pki', mountPath: '/etc/kubernetes/pki', readOnly: true }],
        },
      ],
      volumes: [{ name: 'pki', hostPath: { path: '/etc/kubernetes/pki' } }],
    },
  });
}

export function recordIn(root: string): AdoptionRecord {
  const { directory, ...found } = directories(root);
  const adding = { resolved, directory, image: 'example.com/recovery:1', kubeletPki: join(root, 'kubelet/pki') };
  return { ...found, nodeName: 'node1', additions: staticPods.map((pod) => podAddition(pod, adding)) };
}

/** Writes all of it. */
export async function adoptedMachine(root: string): Promise<void> {
  const { kubernetesDir, directory } = directories(root);
  const record = recordIn(root);
  await mkdir(join(kubernetesDir, 'manifests'), { recursive: true });
  await mkdir(join(root, 'kubelet/pki'), { recursive: true });
  for (const addition of record.additions) {
    const path = join(kubernetesDir, 'manifests', `${addition.pod}.yaml`);
    await writeFile(
      path,
      toYaml(addTo(podManifest(kubeadmManifest(addition.pod, root), addition.pod, path), addition)),
    );
    const named = flagArguments(addition.flags).flatMap(
      (flag) => flag.match(new RegExp(`${directory}[^,:]*`, 'g')) ?? [],
    );
    for (const file of [...named, addition.layout.configFile]) {
      await mkdir(dirname(file), { recursive: true });
      await writeFile(file, '');
    }
  }
  await writeRecord(directory, record);
}
