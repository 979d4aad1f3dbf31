import { describe, expect, test } from 'vitest';
import { createMetrics, noMetrics } from '../lib/metrics.ts';

const labels = { artefact: 'kube-apiserver-serving', location: 'Secret "ns/serving"' };
const dates = { notBefore: new Date('2026-01-01T00:00:00Z'), notAfter: new Date('2027-01-01T00:00:00.500Z') };

async function lines(metrics: Awaited<ReturnType<typeof createMetrics>>): Promise<string[]> {
  return (await metrics.render()).split('\n').filter((line) => !line.startsWith('#') && line !== '');
}

describe('createMetrics()', () => {
  test('counters of the modes begin at 0, and the version is a label', async () => {
    expect(await lines(await createMetrics({ version: '1.2.3', modes: ['regen'] }))).toEqual([
      'kube_cert_recovery_writes_total{mode="regen",result="written"} 0',
      'kube_cert_recovery_writes_total{mode="regen",result="conflict"} 0',
      'kube_cert_recovery_writes_total{mode="regen",result="failed"} 0',
      'kube_cert_recovery_build_info{version="1.2.3"} 1',
    ]);
  });

  test('dates of certificates come and go', async () => {
    const metrics = await createMetrics({ version: '1', modes: [] });
    metrics.certificate(labels, dates);
    const sample = String.raw`{artefact="kube-apiserver-serving",location="Secret \"ns/serving\""}`;
    expect(await lines(metrics)).toEqual([
      `x509_cert_not_before${sample} 1767225600`,
      `x509_cert_not_after${sample} 1798761600.5`,
      'kube_cert_recovery_build_info{version="1"} 1',
    ]);
    metrics.certificate(labels, undefined);
    expect(await lines(metrics)).toEqual(['kube_cert_recovery_build_info{version="1"} 1']);
  });

  test('writes and failures are counted by mode', async () => {
    const metrics = await createMetrics({ version: '1', modes: [] });
    metrics.wrote('regen', 'written');
    metrics.wrote('regen', 'written');
    metrics.wrote('syncer', 'failed');
    metrics.failed('syncer', 'WriteFailed');
    expect(await lines(metrics)).toEqual([
      'kube_cert_recovery_writes_total{mode="regen",result="written"} 2',
      'kube_cert_recovery_writes_total{mode="syncer",result="failed"} 1',
      'kube_cert_recovery_failures_total{mode="syncer",code="WriteFailed"} 1',
      'kube_cert_recovery_build_info{version="1"} 1',
    ]);
  });

  test('requests are counted by why they are left, and the time to an approval is measured where the approver runs', async () => {
    const metrics = await createMetrics({ version: '1', modes: ['approver'] });
    const requests = async () => (await lines(metrics)).filter((line) => line.startsWith('kube_cert_recovery_request'));
    const client = { signer: 'kubelet-client', reason: 'NodeAlive' };
    const serving = { signer: 'kubelet-serving', reason: 'NodeAlive' };
    metrics.pending([client, { ...client, reason: 'Undecided' }]);
    metrics.pending([client, serving, serving]);
    metrics.approved('kubelet-client', 4);
    expect(await requests()).toEqual(
      expect.arrayContaining([
        'kube_cert_recovery_requests_pending{signer="kubelet-client",reason="NodeAlive"} 1',
        'kube_cert_recovery_requests_pending{signer="kubelet-serving",reason="NodeAlive"} 2',
        'kube_cert_recovery_request_seconds_bucket{le="2",signer="kubelet-client"} 0',
        'kube_cert_recovery_request_seconds_bucket{le="5",signer="kubelet-client"} 1',
        'kube_cert_recovery_request_seconds_count{signer="kubelet-client"} 1',
      ]),
    );
    expect((await requests()).join()).not.toContain('Undecided');
    const without = await createMetrics({ version: '1', modes: ['regen'] });
    without.approved('kubelet-client', 4);
    expect((await lines(without)).join()).not.toContain('kube_cert_recovery_request');
  });

  test('two of them share nothing', async () => {
    const [one, two] = [
      await createMetrics({ version: '1', modes: [] }),
      await createMetrics({ version: '2', modes: [] }),
    ];
    one.failed('regen', 'SignFailed');
    expect(await two.render()).not.toContain('SignFailed');
  });
});

describe('noMetrics', () => {
  test('takes everything and shows nothing', async () => {
    noMetrics.certificate(labels, dates);
    noMetrics.wrote('regen', 'written');
    noMetrics.failed('regen', 'SignFailed');
    expect(await noMetrics.render()).toBe('');
  });
});
