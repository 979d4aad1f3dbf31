import { describe, expect, it } from 'vitest';
import { describeRequest, parseAnswer } from '../../lib/kube/answer.ts';
import type { KubeRequest } from '../../lib/kube/kube.ts';

const signal = new AbortController().signal;
const secret = '/api/v1/namespaces/n/secrets/a';
const csr = '/apis/certificates.k8s.io/v1/certificatesigningrequests';

function parse(path: string, text: string, method: KubeRequest['method'] = 'GET'): unknown {
  const request: KubeRequest = { method, path, signal };
  return parseAnswer(request, { ...describeRequest(method, path), server: 'https://127.0.0.1:6443' }, text);
}
const object = (kind: string, metadata: object = {}): string => JSON.stringify({ kind, apiVersion: 'v1', metadata });

describe('describeRequest()', () => {
  it.each([
    ['GET', '/api/v1/namespaces/a/secrets/b', 'get Secret "a/b"'],
    ['GET', '/api/v1/namespaces/a/configmaps?fieldSelector=metadata.name%3Db', 'list ConfigMap "a/b"'],
    ['GET', '/api/v1/namespaces/a/secrets?fieldSelector=metadata.name%3Db&watch=true', 'watch Secret "a/b"'],
    ['PUT', '/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l', 'update Lease "kube-system/l"'],
    ['PATCH', '/api/v1/namespaces/a/secrets/b?fieldManager=x', 'apply Secret "a/b"'],
    ['POST', '/apis/events.k8s.io/v1/namespaces/a/events', 'create Event "a"'],
    ['GET', '/api/v1/namespaces/a', 'get Namespace "a"'],
    [
      'PUT',
      '/apis/certificates.k8s.io/v1/certificatesigningrequests/c/approval',
      'update CertificateSigningRequest/approval "c"',
    ],
    ['GET', '/readyz', 'get "/readyz"'],
  ])('%s %s is %s', (method, path, text) => {
    const asked = describeRequest(method, path);
    expect(`${asked.verb} ${asked.object}`).toBe(text);
  });
});

describe('parseAnswer() takes', () => {
  it.each<[string, string, string, KubeRequest['method']?]>([
    ['an object', secret, object('Secret', { namespace: 'n', name: 'a' })],
    ['a cluster-scoped object', `${csr}/a`, object('CertificateSigningRequest', { name: 'a' })],
    ['the approval of one', `${csr}/a/approval`, object('CertificateSigningRequest', { name: 'a' }), 'PUT'],
    ['a list', '/api/v1/namespaces/n/secrets?fieldSelector=metadata.name%3Da', object('SecretList')],
    ['a new object', '/apis/events.k8s.io/v1/namespaces/n/events', object('Event', { namespace: 'n' }), 'POST'],
    ['a Status of a deletion', secret, object('Status'), 'DELETE'],
    ['the object of a deletion that waits', secret, object('Secret', { namespace: 'n', name: 'a' }), 'DELETE'],
    ['a token', '/api/v1/namespaces/n/serviceaccounts/s/token', object('TokenRequest'), 'POST'],
    ['an object of a kind that is not known here', '/apis/x.io/v1/things/a', object('Thing', { name: 'a' })],
    ['what is no resource', '/version', '{"major":"1"}'],
    ['discovery', '/apis/apps/v1', object('APIResourceList')],
  ])('%s', (_, path, text, method) => {
    expect(parse(path, text, method)).toEqual(JSON.parse(text));
  });
});

it('parseAnswer() takes rows in place of a list, or a whole one, where that was asked for', () => {
  const path = '/api/v1/namespaces/n/secrets?fieldSelector=metadata.name%3Da';
  const request = { method: 'GET', path, objects: 'versions', signal: AbortSignal.timeout(1000) } as const;
  const attempt = { ...describeRequest('GET', path), server: 'https://api' };
  for (const text of [object('Table'), object('SecretList')]) {
    expect(parseAnswer(request, attempt, text)).toEqual(JSON.parse(text));
  }
  expect(() => parseAnswer(request, attempt, object('ConfigMapList'))).toThrow('ConfigMapList');
  expect(() => parse(path, object('Table'))).toThrow('Table');
});

describe('parseAnswer() refuses, as KubeWrongAnswer of a server that is away,', () => {
  it.each<[string, string, string, KubeRequest['method']?]>([
    ['a page', secret, '<html>maintenance</html>'],
    ['nothing', secret, ''],
    ['JSON that is no object', secret, 'null'],
    ['an object without kind', secret, '{}'],
    ['another kind', secret, object('ConfigMap', { namespace: 'n', name: 'a' })],
    ['a Status', secret, object('Status')],
    ['a Status to what is not known here', '/apis/x.io/v1/things/a', object('Status')],
    ['another name', secret, object('Secret', { namespace: 'n', name: 'b' })],
    ['another namespace', secret, object('Secret', { namespace: 'm', name: 'a' })],
    ['an object for a list', '/api/v1/namespaces/n/secrets', object('Secret', { namespace: 'n', name: 'a' })],
    ['a list of another kind', '/api/v1/namespaces/n/secrets', object('ConfigMapList')],
    ['a write that came back as something else', secret, object('SecretList'), 'PUT'],
    ['a kind that is no name', secret, object('<script>')],
  ])('%s', (_, path, text, method) => {
    const details = expect.objectContaining({ away: true }) as object;
    const caught = ((): unknown => {
      try {
        return parse(path, text, method);
      } catch (err) {
        return err;
      }
    })();
    expect(caught).toMatchObject({ code: 'KubeWrongAnswer', details });
    expect((caught as Error).message).not.toContain('<');
  });
});
