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
