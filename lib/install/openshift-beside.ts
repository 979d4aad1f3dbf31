// Static pod next to the operators of an OpenShift control plane: regen of the three presets, which acts only on
// expired certificates, and the approver. And the MachineConfig that installs it on the control-plane nodes. Pure.
import { podOfMachine } from './approver-pod.ts';
import { clockOfMachine, hostPath, ownContainer } from './own-container.ts';

const components = ['kube-apiserver', 'kube-controller-manager', 'kube-scheduler'] as const;
const podName = 'kube-cert-recovery';
const firstPort = 11447;
const kubeletPki = '/var/lib/kubelet/pki';
/** SELinux enforces on every node. */
const seLinux = { type: 'spc_t', level: 's0' };

/** `directory`: holds the files that `init` and `init approver` have written on the node. */
export function besideOperatorsPod(image: string, directory: string): object {
  const own = hostPath('', `${directory}/approver`, { readOnly: true });
  const kubelet = hostPath('kubelet', kubeletPki, { readOnly: true });
  // Each container sees its own credential.
  const recovering = components.map((component, at) => {
    const healthPort = firstPort + at;
    const credential = hostPath(component, `${directory}/${component}/credentials/regen`, { readOnly: true });
    const args = [
      '--mode=regen',
      '--locations=api',
      `--preset=openshift-${component}`,
      `--namespace=openshift-${component}`,
      `--kubeconfig=${credential.mount['mountPath'] as string}/kubeconfig`,
      `--health-probe-bind-address=127.0.0.1:${healthPort}`,
    ];
    const volumeMounts = [credential.mount, clockOfMachine.mount];
    return {
      credential,
      container: ownContainer({ name: `regen-${component}`, image, args, healthPort, volumeMounts, seLinux }),
    };
  });
  const mounted = [...recovering.map(({ credential }) => credential), own, kubelet, clockOfMachine];
  const approver = ownContainer({
    name: 'approver',
    image,
    args: ['--mode=approver', `--config=${directory}/approver/config.yaml`],
    healthPort: 11446,
    volumeMounts: [own.mount, kubelet.mount, clockOfMachine.mount],
    seLinux,
  });
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: podName, namespace: 'kube-system' },
    spec: {
      ...podOfMachine,
      containers: [...recovering.map(({ container }) => container), approver],
      volumes: mounted.map(({ volume }) => volume),
    },
  };
}

/** `pod`: its manifest as YAML. Ignition takes the content of files as data URLs (RFC 2397). */
export function besideOperatorsMachineConfig(pod: string): object {
  const source = `data:;base64,${Buffer.from(pod).toString('base64')}`;
  const path = `/etc/kubernetes/manifests/${podName}.yaml`;
  return {
    apiVersion: 'machineconfiguration.openshift.io/v1',
    kind: 'MachineConfig',
    metadata: {
      name: '99-master-kube-cert-recovery',
      labels: { 'machineconfiguration.openshift.io/role': 'master' },
    },
    spec: {
      config: {
        ignition: { version: '3.2.0' },
        storage: { files: [{ path, mode: 0o600, overwrite: true, contents: { source } }] },
      },
    },
  };
}
