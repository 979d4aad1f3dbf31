import { beforeAll, describe, expect, it } from 'vitest';
import { RecoveryError } from '../../lib/errors.ts';
import type { KubeRequest } from '../../lib/kube/kube.ts';
import type { ClusterInfo } from '../../lib/kube/cluster-info.ts';
import { renewWithOwnKey } from '../../lib/pki/own-key.ts';
import type { Certificate } from '../../lib/pki/certificate.ts';
import { updateClusterInfo, withRenewedAuthority } from '../../lib/run/publish-authority.ts';
import { type Authority, authority, day, now } from '../pki/authority.ts';
import { clusterInfoKubeconfig } from '../support/cluster/cluster-info.ts';

const dates = { commonName: 'kubernetes', notBefore: day(-3650), notAfter: day(-1), at: day(-3650) };
let old: Authority;
let own: Certificate;
let other: Authority;
beforeAll(async () => {
  [old, other] = [await authority(dates), await authority(dates)];
  own = renewWithOwnKey({ old: old.certificate, key: old.key, others: [], now });
});

const server = 'https://10.0.0.1:6443';
const published = (ca: string) => ({
  metadata: { name: 'cluster-info', namespace: 'kube-public', resourceVersion: '7', labels: { a: 'b' } },
  data: { kubeconfig: clusterInfoKubeconfig(server, ca), 'jws-kubeconfig-abcdef': 'x..y' },
});
const { signal } = new AbortController();

describe('withRenewedAuthority()', () => {
  it('changes the CA alone', () => {
    const before = published(old.certificate.pem);
    expect(withRenewedAuthority(before, own)).toEqual({
      ...before,
      data: { ...before.data, kubeconfig: clusterInfoKubeconfig(server, own.pem) },
    });
  });

  it('keeps a CA beside it, as while CAs are rolled over', () => {
    const kubeconfigOf = (ca: string) => withRenewedAuthority(published(ca), own)?.data?.['kubeconfig'];
    expect(kubeconfigOf(old.certificate.pem + other.certificate.pem)).toBe(
      clusterInfoKubeconfig(server, own.pem + other.certificate.pem),
    );
    expect(kubeconfigOf(old.certificate.pem + own.pem)).toBe(clusterInfoKubeconfig(server, own.pem));
  });

  it.each<readonly [string, () => ClusterInfo]>([
    ['its own', () => published(own.pem)],
    ['another CA of that name', () => published(other.certificate.pem)],
    ['no CA', () => published('')],
    ['no certificate', () => published('CA')],
    ['no kubeconfig', () => ({ data: {} })],
    ['no data', () => ({})],
    ['no YAML', () => ({ data: { kubeconfig: 'a: [' } })],
    ['no base64', () => ({ data: { kubeconfig: clusterInfoKubeconfig(server, '').replace('data: ', 'data: "%"') } })],
  ])('has nothing to do with %s', (_what, object) => {
    expect(withRenewedAuthority(object(), own)).toBeUndefined();
  });

  it('leaves the successor that another node has published', () => {
    const later = renewWithOwnKey({ old: own, key: old.key, others: [], now: day(4000) });
    expect(withRenewedAuthority(published(later.pem), own)).toBeUndefined();
  });
});

/** An API server's part: each answer in turn, the last one for ever. */
function asking(...answers: readonly (ClusterInfo | RecoveryError)[]) {
  const asked: KubeRequest[] = [];
  const request = async (one: KubeRequest): Promise<unknown> => {
    asked.push(one);
    const answer = answers[Math.min(asked.length, answers.length) - 1];
    if (answer instanceof RecoveryError) throw answer;
    return answer;
  };
  return { asked, connection: { request: request as never } };
}

describe('updateClusterInfo()', () => {
  const conflict = new RecoveryError('KubeConflict', 'changed');

  it('writes with the version that it has read, and looks again at a conflict', async () => {
    const first = published(old.certificate.pem);
    const second = { ...first, metadata: { ...first.metadata, resourceVersion: '8' } };
    const { asked, connection } = asking(first, conflict, second, {});
    expect(await updateClusterInfo({ connection, own, signal })).toBe('written');
    expect(asked.map(({ method }) => method)).toEqual(['GET', 'PUT', 'GET', 'PUT']);
    expect(asked[3]?.body).toMatchObject({ metadata: { resourceVersion: '8' } });
  });

  it('is done when another node was faster', async () => {
    const { asked, connection } = asking(published(old.certificate.pem), conflict, published(own.pem));
    expect(await updateClusterInfo({ connection, own, signal })).toBe('unchanged');
    expect(asked).toHaveLength(3);
  });

  it('gives up in the end', async () => {
    const object = published(old.certificate.pem);
    const always = Array.from({ length: 5 }, () => [object, conflict]).flat();
    const { asked, connection } = asking(...always);
    await expect(updateClusterInfo({ connection, own, signal })).rejects.toMatchObject({ code: 'KubeConflict' });
    expect(asked).toHaveLength(10);
  });

  it('is no error where there is none', async () => {
    const { connection } = asking(new RecoveryError('KubeNotFound', 'gone'));
    expect(await updateClusterInfo({ connection, own, signal })).toBe('absent');
  });
});
