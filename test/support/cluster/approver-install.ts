// The approver's identities and rights on a control plane, the tokens of these identities, and requests with such a token.
import { systemClock } from '../../../lib/clock.ts';
import { tokenSecretName } from '../../../lib/install/accounts.ts';
import { applyManifest } from '../../../lib/install/apply.ts';
import type { Manifest } from '../../../lib/install/apply.ts';
import { installManifests, type RbacOptions } from '../../../lib/install/rbac.ts';
import { openConnection } from '../../../lib/kube/connection.ts';
import { eventually } from '../eventually.ts';
import { apiRequest, type ApiRequest, type ApiResponse } from './api-client.ts';
import type { ControlPlane } from './control-plane.ts';

export const approverNamespace = 'kube-cert-recovery';

interface ApproverInstall {
  readonly approver?: RbacOptions['approver'] & {};
  /** Which manifests are applied. Default: all. */
  readonly isWanted?: (manifest: Manifest) => boolean;
}

export async function installApprover(
  { recoveryKubeconfig: kubeconfigFile }: ControlPlane,
  { approver = true, isWanted = () => true }: ApproverInstall = {},
): Promise<void> {
  const connection = await openConnection({ kubeconfigFile, clock: systemClock, userAgent: 'test' });
  const { signal } = new AbortController();
  const manifests = installManifests({ artefacts: [], namespace: approverNamespace, approver });
  for (const manifest of manifests.filter(isWanted)) await applyManifest({ connection, signal }, manifest);
  await connection.close();
}

/** Waits until kube-controller-manager has made it. */
export const accountToken = (
  controlPlane: ControlPlane,
  account: Parameters<typeof tokenSecretName>[0],
): Promise<string> =>
  eventually(async () => {
    const secret = `/api/v1/namespaces/${approverNamespace}/secrets/${tokenSecretName(account)}`;
    const { data } = (await controlPlane.admin(secret)).body as { data: { token: string } };
    return Buffer.from(data.token, 'base64').toString();
  });

export const requestAs = (
  { port, recoveryCa: caFile }: ControlPlane,
  token: string,
  path: string,
  request: ApiRequest = {},
): Promise<ApiResponse> => apiRequest({ port, caFile, serverName: 'localhost-recovery', token }, path, request);
