// Whether a machine is a control plane of kubeadm, by files that no other machine has. The mere name of a file is no
// sign: services read their environment from /etc/kubernetes/scheduler.conf, and an empty file is no evidence. Zeros
// are: a power loss leaves them in place of written data. Pure.
import { otherThanKubeconfig } from '../../kubeconfig/kubeconfig-remains.ts';
import { otherThanPem } from '../../pki/pem-remains.ts';
import { isMapping, yamlMapping } from '../../yaml.ts';

/** Texts of files; undefined where a file is absent or cannot be read. */
interface Signs {
  readonly manifest: string | undefined;
  readonly 'apiserver.crt': string | undefined;
  readonly 'apiserver.key': string | undefined;
  readonly 'controller-manager.conf': string | undefined;
  readonly 'scheduler.conf': string | undefined;
}

export function isSignOfControlPlane(signs: Signs): boolean {
  const says = (text: string | undefined, other: (bytes: Buffer) => string | undefined): boolean =>
    text !== undefined && text.trim() !== '' && other(Buffer.from(text)) === undefined;
  return (
    says(signs.manifest, otherThanPod) ||
    says(signs['apiserver.crt'], (bytes) => otherThanPem(bytes, ['certificate'])) ||
    says(signs['apiserver.key'], (bytes) => otherThanPem(bytes, ['key'])) ||
    says(signs['controller-manager.conf'], otherThanKubeconfig) ||
    says(signs['scheduler.conf'], otherThanKubeconfig)
  );
}

/** Names the other document in the manifest's place; a torn manifest counts where it still names its component. */
function otherThanPod(bytes: Buffer): string | undefined {
  const text = bytes.toString().replaceAll(/^[ \t]*#.*$/gm, '');
  const value = yamlMapping(text);
  const isPod = isMapping(value) && value['kind'] === 'Pod';
  return isPod || text.includes('kube-apiserver') || /^\0+$/.test(text) ? undefined : 'another document';
}
