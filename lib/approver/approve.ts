// The only write of the approver: the condition Approved, by PUT to the approval of one request. It carries the
// resourceVersion that was read, so that an approval or a denial by another client in between wins. Never a denial.
import { secondsText } from '../clock.ts';
import { isCode } from '../errors.ts';
import type { KubeConnection } from '../kube/kube.ts';
import { resourcePath, typeMeta } from '../kube/resources.ts';
import type { SigningRequest } from './request.ts';

/** Reason of the condition, by which this approver recognises its own approvals. */
const approvalReason = 'KubeCertRecovery';

export const isApprovedHere = ({ status }: SigningRequest): boolean =>
  status?.conditions?.some(({ type, reason }) => type === 'Approved' && reason === approvalReason) ?? false;

interface ApproveOptions {
  readonly connection: KubeConnection;
  readonly request: SigningRequest;
  /** The evidence, for a human reader. */
  readonly message: string;
  readonly now: Date;
  readonly signal: AbortSignal;
}

/** `conflict`: the request has changed since it was read, or is gone. Throws when the API refuses. */
export async function approve(options: ApproveOptions): Promise<'approved' | 'conflict'> {
  const { connection, request, message, now, signal } = options;
  const { name } = request.metadata;
  const at = secondsText(now);
  const condition = {
    type: 'Approved',
    status: 'True',
    reason: approvalReason,
    message,
    lastUpdateTime: at,
    lastTransitionTime: at,
  };
  const conditions = [...(request.status?.conditions ?? []), condition];
  // Objects of a list come without their kind.
  const body = { ...typeMeta('CertificateSigningRequest'), ...request, status: { ...request.status, conditions } };
  try {
    await connection.request({
      method: 'PUT',
      path: `${resourcePath('CertificateSigningRequest', { name })}/approval`,
      body,
      signal,
    });
    return 'approved';
  } catch (err) {
    if (isCode(err, 'KubeConflict', 'KubeNotFound')) return 'conflict';
    throw err;
  }
}
