// Kubeconfigs that name files and embed nothing: a renewed certificate or token is picked up without a restart, and the
// kubeconfig itself holds no secret. Only the kubelet's bootstrap kubeconfig embeds its token, as kubeadm's does. Pure.
import { toYaml } from '../yaml.ts';

export interface KubeconfigContent {
  readonly server: string;
  /** Absolute path. */
  readonly certificateAuthority: string;
  readonly tlsServerName?: string;
  readonly user:
    | { readonly name: string; readonly certFile: string; readonly keyFile: string }
    | { readonly name: string; readonly tokenFile: string }
    | { readonly name: string; readonly token: string };
}

export function kubeconfigYaml({ server, certificateAuthority, tlsServerName, user }: KubeconfigContent): string {
  const { name: _name, ...credential } = user;
  const identity =
    'certFile' in credential
      ? { 'client-certificate': credential.certFile, 'client-key': credential.keyFile }
      : credential;
  return toYaml({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name: 'cluster',
        cluster: {
          server,
          'certificate-authority': certificateAuthority,
          ...(tlsServerName !== undefined && { 'tls-server-name': tlsServerName }),
        },
      },
    ],
    users: [{ name: user.name, user: identity }],
    contexts: [{ name: user.name, context: { cluster: 'cluster', user: user.name } }],
    'current-context': user.name,
  });
}
