import { describe, expect, test } from 'vitest';
import { createMetrics, type MeasuredCertificate, noMetrics } from '../lib/metrics.ts';
import { FakeClock } from './support/fake-clock.ts';

const clock = new FakeClock(new Date('2026-06-01T00:00:00Z'));
const place = { secret_namespace: 'ns', secret_name: 'a"b' };
const certificate: MeasuredCertificate = {
  notBefore: new Date('2026-01-01T00:00:00Z'),
  notAfter: new Date('2027-01-01T00:00:00.500Z'),
  commonName: 'kube-apiserver',
  issuer: String.raw`O=x,CN=a\,b`,
  serial: 'ff00ff00ff00ff00ff',
};

const create = (...modes: readonly string[]) => createMetrics({ version: '1', clock, modes });

async function lines(metrics: Awaited<ReturnType<typeof createMetrics>>): Promise<string[]> {
  const isOfBuild = /^kube_cert_recovery_build_info/;
  return (await metrics.render()).split('\n').filter((line) => !/^(#|$)/.test(line) && !isOfBuild.test(line));
}

describe('createMetrics()', () => {
  test('counters of the modes begin at 0, and the version is a label', async () => {
    const metrics = await create('regen');
    expect(await lines(metrics)).toEqual([
      'kube_cert_recovery_writes_total{mode="regen",result="written"} 0',
      'kube_cert_recovery_writes_total{mode="regen",result="conflict"} 0',
      'kube_cert_recovery_writes_total{mode="regen",result="failed"} 0',
    ]);
    expect(await metrics.render()).toContain('kube_cert_recovery_build_info{version="1"} 1');
  });

  test('dates of certificates come and go, with the labels of x509-certificate-exporter', async () => {
    const metrics = await create();
    metrics.certificate('serving', place, certificate);
    const sample =
      String.raw`{artefact="serving",secret_namespace="ns",secret_name="a\"b",subject_CN="kube-apiserver",` +
      'issuer_CN="a,b",serial_number="4703991516010230251775"}';
    expect(BigInt('4703991516010230251775').toString(16)).toBe(certificate.serial);
    expect(await lines(metrics)).toEqual([
      `x509_cert_not_before${sample} 1767225600`,
      `x509_cert_not_after${sample} 1798761600.5`,
      `x509_cert_expired${sample} 0`,
    ]);
    metrics.certificate('serving', place, { ...certificate, notAfter: clock.now(), serial: '2' });
    expect(await lines(metrics)).toEqual(
      expect.arrayContaining([expect.stringMatching(/^x509_cert_expired.*serial_number="2"} 1$/)]),
    );
    expect(await lines(metrics)).toHaveLength(3);
    metrics.certificate('serving', place, undefined);
    expect(await lines(metrics)).toEqual([]);
  });

  test('a name of a megabyte is cut: the file of metrics stays one that can be read again', async () => {
    const metrics = await create();
    metrics.certificate(
      'ca',
      {},
      { ...certificate, commonName: 'a'.repeat(1_000_000), issuer: `CN=${'b'.repeat(1_000_000)}` },
    );
    expect((await metrics.render()).length).toBeLessThan(5000);
  });

  test('the last decision of each artefact is the one that shows', async () => {
    const metrics = await create();
    metrics.decided('serving', { action: 'renew', reason: 'Expired', outcome: '' });
    metrics.decided('serving', { action: 'keep', reason: 'Healthy', outcome: 'written' });
    expect(await lines(metrics)).toEqual([
      'kube_cert_recovery_artefact{artefact="serving",action="keep",reason="Healthy",outcome="written"} 1',
    ]);
  });

  test('a gauge that nobody has set does not show, and a function is called at each look', async () => {
    const metrics = await create();
    let age = 0;
    metrics.set('kube_cert_recovery_watch_age_seconds', () => (age += 1));
    expect(await lines(metrics)).toEqual(['kube_cert_recovery_watch_age_seconds 1']);
    expect(await lines(metrics)).toEqual(['kube_cert_recovery_watch_age_seconds 2']);
    metrics.queue('events', () => 3);
    expect(await lines(metrics)).toContain('kube_cert_recovery_queue{queue="events"} 3');
  });

  test('writes and failures are counted by mode, and go on in the next run', async () => {
    const [one, next] = [await create(), await create('regen')];
    one.wrote('regen', 'written');
    one.wrote('syncer', 'failed');
    one.failed('syncer', 'WriteFailed');
    one.set('kube_cert_recovery_last_success_timestamp_seconds', 5);
    one.set('kube_cert_recovery_last_look_timestamp_seconds', 6);
    one.set('kube_cert_recovery_units_loaded', 0);
    one.set('kube_cert_recovery_unproven', 7);
    next.wrote('regen', 'written');
    next.set('kube_cert_recovery_last_look_timestamp_seconds', 8);
    next.resume(JSON.parse(JSON.stringify(await one.totals())));
    expect(await lines(next)).toEqual([
      'kube_cert_recovery_writes_total{mode="regen",result="written"} 2',
      'kube_cert_recovery_writes_total{mode="regen",result="conflict"} 0',
      'kube_cert_recovery_writes_total{mode="regen",result="failed"} 0',
      'kube_cert_recovery_writes_total{mode="syncer",result="failed"} 1',
      'kube_cert_recovery_failures_total{mode="syncer",code="WriteFailed"} 1',
      'kube_cert_recovery_last_look_timestamp_seconds 8',
      'kube_cert_recovery_last_success_timestamp_seconds 5',
      'kube_cert_recovery_units_loaded 0',
    ]);
  });

  test('the time to an approval is measured where the approver runs', async () => {
    const metrics = await create('approver');
    metrics.approved('kubelet-client', 4);
    expect(await lines(metrics)).toEqual(
      expect.arrayContaining([
        'kube_cert_recovery_request_seconds_bucket{le="2",signer="kubelet-client"} 0',
        'kube_cert_recovery_request_seconds_bucket{le="5",signer="kubelet-client"} 1',
        'kube_cert_recovery_request_seconds_count{signer="kubelet-client"} 1',
      ]),
    );
    const without = await create('regen');
    without.approved('kubelet-client', 4);
    expect((await lines(without)).join()).not.toContain('kube_cert_recovery_request');
  });

  test('two of them share nothing', async () => {
    const [one, two] = [await create(), await create()];
    one.failed('regen', 'SignFailed');
    expect(await two.render()).not.toContain('SignFailed');
  });
});

describe('noMetrics', () => {
  test('takes everything and shows nothing', async () => {
    noMetrics.certificate('serving', place, certificate);
    noMetrics.wrote('regen', 'written');
    noMetrics.failed('regen', 'SignFailed');
    expect(await noMetrics.render()).toBe('');
  });
});
