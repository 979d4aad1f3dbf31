import { describe, expect, it } from 'vitest';
import type { ErrorCode } from '../../lib/errors.ts';
import { networkError, statusError } from '../../lib/kube/api-error.ts';

const attempt = { verb: 'update', object: 'Secret "a/b"', server: 'https://127.0.0.1:6443 (localhost-recovery)' };
const status = (code: number, message = '', reason = ''): string =>
  JSON.stringify({ kind: 'Status', code, message, reason });

describe('statusError()', () => {
  it.each<[number, ErrorCode]>([
    [301, 'KubeUnavailable'],
    [400, 'KubeRejected'],
    [401, 'KubeUnauthorized'],
    [403, 'KubeForbidden'],
    [404, 'KubeNotFound'],
    [409, 'KubeConflict'],
    [410, 'WatchExpired'],
    [422, 'KubeRejected'],
    [429, 'KubeUnavailable'],
    [500, 'KubeUnavailable'],
    [503, 'KubeUnavailable'],
    [504, 'KubeUnavailable'],
  ])('%i is %s, with verb, object and status', (code, expected) => {
    const err = statusError(attempt, code, status(code, 'free text', 'SomeReason'));
    expect(err.code).toBe(expected);
    expect(err.message).toBe(`Cannot update Secret "a/b": the API server answered ${code} SomeReason`);
  });

  it.each([
    [
      'a webhook that does not answer',
      500,
      'Internal error occurred: failed calling webhook "deny.example.com": failed to call webhook: Post "https://x": dial',
      'admission webhook "deny.example.com" does not answer; exempt',
    ],
    [
      'a webhook that says no',
      403,
      'admission webhook "w.example" denied the request: k',
      'webhook "w.example" denied',
    ],
    [
      'a policy that says no',
      422,
      `secrets "b" is forbidden: ValidatingAdmissionPolicy 'p.example' with binding 'q' denied request: k`,
      'ValidatingAdmissionPolicy "p.example" denied',
    ],
  ])('%s is KubeRejected and is named', (_, code, message, text) => {
    const err = statusError(attempt, code, status(code, message));
    expect(err.code).toBe('KubeRejected');
    expect(err.message).toContain(text);
  });

  // The messages are those of Kubernetes 1.35; test/integration/refusals.test.ts provokes them.
  it.each<[ErrorCode, number, string, string]>([
    [
      'KubeRejected',
      403,
      'secrets "b" is forbidden: exceeded quota: few, requested: secrets=1, used: secrets=1, limited: secrets=1',
      'the ResourceQuota "few" of its namespace is used up; raise it, or remove what else it counts',
    ],
    [
      'KubeRejected',
      403,
      'secrets "b" is forbidden: status unknown for quota: few, resources: secrets',
      'the ResourceQuota "few" of its namespace has not been counted yet; see that kube-controller-manager runs',
    ],
    [
      'KubeRejected',
      403,
      'secrets "b" is forbidden: unable to create new content in namespace a because it is being terminated',
      'namespace "a" is being deleted; create it again when it is gone',
    ],
    [
      'KubeRejected',
      422,
      'Secret "b" is invalid: data: Forbidden: field is immutable when `immutable` is set',
      'it is immutable; delete it, then it is created again',
    ],
    [
      'KubeRejected',
      403,
      'pods "b" is forbidden: violates PodSecurity "restricted:latest": privileged (LEAK)',
      'the Pod Security level "restricted:latest" of its namespace denies it; give the namespace a level that allows it',
    ],
    [
      'KubeConflict',
      409,
      'Operation cannot be fulfilled on secrets "b": the object has been modified; please apply your changes',
      'the API server answered 409 R, it has been changed since it was read; it is looked at again, else run this again',
    ],
    [
      'KubeConflict',
      409,
      'Apply failed with 1 conflict: conflict with "flux" using v1: .data.LEAK',
      'the API server answered 409 R, the field manager "flux" has written it too; see that it leaves the object alone',
    ],
    [
      'KubeForbidden',
      403,
      'certificatesigningrequests "b" is forbidden: user not permitted to approve requests with signerName "LEAK"',
      'the API server answered 403 R, the user lacks the permission to approve for this signer; grant it by the init that made this user',
    ],
    [
      'KubeForbidden',
      403,
      'secrets "b" is forbidden: LEAK',
      'the API server answered 403 R, an admission plugin of the API server denied it; its reason is in the log of kube-apiserver',
    ],
  ])('says %s for what is known of %i by its message: %s', (code, httpStatus, message, text) => {
    const err = statusError(attempt, httpStatus, status(httpStatus, message, 'R'));
    expect([err.code, err.message]).toEqual([code, `Cannot update Secret "a/b": ${text}`]);
  });

  it('shows the user that lacks a permission, the fields that are invalid and the state of etcd, and no other text', () => {
    const forbidden = status(
      403,
      'secrets "b" is forbidden: User "system:anonymous" cannot get resource LEAK',
      'Forbidden',
    );
    expect(statusError(attempt, 403, forbidden).message).toMatch(/403 Forbidden, user "system:anonymous" lacks/);
    const causes = [{ field: 'data[tls.crt]', reason: 'FieldValueRequired', message: 'LEAK' }];
    const invalid = JSON.stringify({ reason: 'Invalid', message: 'LEAK', details: { causes } });
    expect(statusError(attempt, 422, invalid).message).toMatch(/422 Invalid, data\[tls.crt\]: FieldValueRequired$/);
    expect(statusError(attempt, 500, status(500, 'etcdserver: request timed out')).message).toMatch(
      /request timed out$/,
    );
    for (const body of [forbidden, invalid, 'LEAK', '"LEAK"', 'null', '[]']) {
      expect(statusError(attempt, 403, body).message).not.toContain('LEAK');
    }
  });

  it('keeps Retry-After as milliseconds', () => {
    expect(statusError(attempt, 429, '', '3').details['retryAfterMs']).toBe(3000);
    expect(statusError(attempt, 429, '', 'soon').details['retryAfterMs']).toBeUndefined();
  });
});

const failed = (code: string): Error =>
  new TypeError('fetch failed', { cause: Object.assign(new Error('Authorization: Bearer LEAK'), { code }) });

describe('networkError()', () => {
  it.each([
    ['ECONNREFUSED', 'connection refused (ECONNREFUSED)'],
    ['EHOSTUNREACH', 'no route to the host (EHOSTUNREACH)'],
    ['CERT_HAS_EXPIRED', "the server's certificate, or a CA above it, has expired"],
    ['SELF_SIGNED_CERT_IN_CHAIN', "the server's certificate is not signed by a CA of the kubeconfig"],
    ['ERR_TLS_CERT_ALTNAME_INVALID', 'the server\'s certificate is not for the name "localhost-recovery"'],
    ['ERR_SSL_WRONG_VERSION_NUMBER', 'the TLS handshake failed (ERR_SSL_WRONG_VERSION_NUMBER)'],
    ['ERR_HTTP2_STREAM_ERROR', 'connection failed (ERR_HTTP2_STREAM_ERROR)'],
  ])('%s is KubeUnavailable with a plain sentence', (code, text) => {
    const err = networkError(attempt, failed(code));
    expect(err.code).toBe('KubeUnavailable');
    expect(err.message).toContain(`Cannot update Secret "a/b": ${text}`);
    expect(JSON.stringify([err.message, err.details])).not.toContain('LEAK');
    expect(err.cause).toBeUndefined();
  });

  it('ends for a cause that points at itself', () => {
    const loop = new Error('round');
    loop.cause = loop;
    expect(networkError(attempt, loop).message).toContain('connection failed');
  });
});
