import { describe, expect, it } from 'vitest';
import type { ServedCertificate } from '../../lib/status/node-report.ts';
import { renderNode } from '../../lib/status/print.ts';
import { parseYaml } from '../../lib/yaml.ts';
import { at, ca, present } from '../support/facts.ts';
import { leaf, now, tell, withoutKey } from './node.ts';

const lines = (...rows: readonly string[]): string => `${rows.join('\n')}\n`;
const pad = (text: string): string => text.replaceAll('|', '');
const expired = { apiserver: present(leaf('apiserver', 'ca', -1)) };
const sight: ServedCertificate = {
  component: 'kube-apiserver',
  address: '10.0.0.1:6443',
  artefact: 'apiserver',
  state: 'different',
  notAfter: at(-1),
  message: 'Another certificate is served; stop its container',
};

describe('the table', () => {
  it('begins with those of `kubeadm certs check-expiration`, byte for byte', () => {
    const text = renderNode(
      tell({ 'admin.conf': null, ca: withoutKey('ca'), 'etcd-peer': present(leaf('p', 'etcd-ca', -1)) }),
      { output: 'table' },
    );
    const kubeadm = lines(
      'CERTIFICATE                EXPIRES                  RESIDUAL TIME   CERTIFICATE AUTHORITY   EXTERNALLY MANAGED',
      pad('!MISSING! admin.conf                                                                        |'),
      pad('apiserver                  Mar 28, 2027 00:00 UTC   300d            ca                      yes     |'),
      pad('apiserver-etcd-client      Mar 28, 2027 00:00 UTC   300d            etcd-ca                 no      |'),
      pad('apiserver-kubelet-client   Mar 28, 2027 00:00 UTC   300d            ca                      yes     |'),
      pad('controller-manager.conf    Mar 28, 2027 00:00 UTC   300d            ca                      yes     |'),
      pad('etcd-healthcheck-client    Mar 28, 2027 00:00 UTC   300d            etcd-ca                 no      |'),
      pad('etcd-peer                  May 31, 2026 00:00 UTC   <invalid>       etcd-ca                 no      |'),
      pad('etcd-server                Mar 28, 2027 00:00 UTC   300d            etcd-ca                 no      |'),
      pad('front-proxy-client         Mar 28, 2027 00:00 UTC   300d            front-proxy-ca          no      |'),
      pad('scheduler.conf             Mar 28, 2027 00:00 UTC   300d            ca                      yes     |'),
      pad('super-admin.conf           Mar 28, 2027 00:00 UTC   300d            ca                      yes     |'),
      '',
      'CERTIFICATE AUTHORITY   EXPIRES                  RESIDUAL TIME   EXTERNALLY MANAGED',
      pad('ca                      May 29, 2036 00:00 UTC   10y             yes     |'),
      pad('etcd-ca                 May 29, 2036 00:00 UTC   10y             no      |'),
      pad('front-proxy-ca          May 29, 2036 00:00 UTC   10y             no      |'),
      '',
    );
    expect(text.slice(0, kubeadm.length)).toBe(kubeadm);
  });

  it('keeps its columns where everything is missing', () => {
    const all = Object.fromEntries(['ca', 'etcd-ca', 'front-proxy-ca'].map((name) => [name, null]));
    expect(renderNode(tell(all), { output: 'table' })).toContain(
      lines(
        'CERTIFICATE AUTHORITY      EXPIRES   RESIDUAL TIME   EXTERNALLY MANAGED',
        pad('!MISSING! ca                                         |'),
        pad('!MISSING! etcd-ca                                    |'),
        pad('!MISSING! front-proxy-ca                             |'),
      ),
    );
  });

  it('goes on with the certificates that kubeadm leaves out, and says when all is well', () => {
    const text = renderNode(tell(), { output: 'table' });
    expect(text.split('\n\n').at(2)).toContain('NODE CERTIFICATE');
    expect(text).toMatch(/^kubelet-server +Mar 28, 2027 00:00 UTC +300d +self-signed +no +$/m);
    expect(text).toMatch(/^kubelet\.conf +Mar 28, 2027 00:00 UTC +300d +ca +no +$/m);
    const last = 'kube-cert-recovery development (commit unknown, built 2026-11-01T00:00:00Z)';
    const armed = 'ARMED: yes: CAs valid until May 29, 2036 00:00 UTC.';
    expect(text.endsWith(`\n\n${last}\n\nEverything is as it should be.\n${armed}\nNothing to do.\n`)).toBe(true);
    expect(text).not.toContain('WHAT WILL BE DONE');
  });

  it('says what is wrong, what will be done, and why', () => {
    const text = renderNode(tell(expired), { output: 'table' });
    expect(text).toContain('CERTIFICATE   STATE     WHAT WILL BE DONE   WHY\n');
    expect(text).toContain('apiserver     EXPIRED   reissued            it expired at 2026-05-31T00:00:00.000Z\n');
  });

  it('says what only a person can bring', () => {
    const text = renderNode(tell({ ...expired, ca: withoutKey('ca') }), { output: 'table' });
    expect(text).toMatch(/^apiserver +EXPIRED +nothing: bring a new one by hand +it expired at/m);
    expect(text.split('it expired at')).toHaveLength(2);
  });

  it('says where a kubeconfig knows another CA, also where that is left alone', () => {
    const other = { ...present(leaf('scheduler.conf', 'ca')), authorities: ['another'] };
    expect(renderNode(tell({ 'scheduler.conf': other }), { output: 'table' })).toMatch(
      /^scheduler\.conf +BROKEN +given the new CA +it does not know its server by the certificate of ca$/m,
    );
    const foreign = tell({ 'scheduler.conf': { ...other, authorityIsForeign: true } });
    expect(renderNode(foreign, { output: 'table' })).toMatch(
      /^scheduler\.conf +OTHER CA +nothing now +.* knows its server by another CA than the own certificate of ca$/m,
    );
    expect(foreign.class).toBe('healthy');
  });

  it('shows what is served, and what to restart', () => {
    const etcd: ServedCertificate = { ...sight, component: 'etcd', address: '127.0.0.1:2379', artefact: 'etcd-server' };
    const { notAfter: _, ...silent } = etcd;
    const text = renderNode(tell({}, { served: [sight, { ...silent, state: 'unreachable' }] }), { output: 'table' });
    expect(text).toContain(
      lines(
        'SERVED BY        ADDRESS          CERTIFICATE   EXPIRES                  SERVED',
        'kube-apiserver   10.0.0.1:6443    apiserver     May 31, 2026 00:00 UTC   different',
        'etcd             127.0.0.1:2379   etcd-server                            -',
      ),
    );
    expect(text).toMatch(
      /^apiserver +NOT SERVED +restart kube-apiserver +Another certificate is served; stop its container$/m,
    );
    expect(text).not.toMatch(/^etcd-server +NOT SERVED/m);
  });
});

describe('a forecast', () => {
  const off = (days: number, changes = {}): string =>
    renderNode(tell(changes, { time: at(days), isForecast: true }), { output: 'table' });

  it('says that the node would come back by itself', () => {
    expect(off(100)).toContain('\nOff until Sep 09, 2026 00:00 UTC, this node would find every certificate valid.\n');
    expect(off(4000)).toContain('\nOff until May 14, 2037 00:00 UTC, this node would come back by itself: ');
    expect(off(400)).toContain('\nOff until Jul 06, 2027 00:00 UTC, this node would come back by itself: 1');
  });

  it('says what would stop it', () => {
    const byOthers = present(ca('ca', [-1, 3650], { signedBy: ['above'] }));
    const answer = /\nOff until .*, this node would not come back by itself: 1/;
    expect(off(4000, { ca: byOthers })).toMatch(answer);
    expect(off(400, { ca: withoutKey('ca') })).toContain('would not come back by itself:');
  });
});

describe.each(['json', 'yaml'] as const)('%s', (format) => {
  const read = (text: string): Record<string, unknown> =>
    (format === 'json' ? JSON.parse(text) : parseYaml(text)) as Record<string, unknown>;
  const told = tell({ ...expired, 'admin.conf': null }, { time: new Date(now.getTime() + 999), served: [sight] });
  const info = read(renderNode(told, { output: format }));

  it('has the keys of kubeadm', () => {
    expect(info).toMatchObject({ kind: 'CertificateExpirationInfo', apiVersion: 'output.kubeadm.k8s.io/v1alpha3' });
    const [missing, leafEntry] = info['certificates'] as Record<string, unknown>[];
    expect(missing).toMatchObject({
      name: 'admin.conf',
      expirationDate: null,
      residualTime: 0,
      externallyManaged: false,
      missing: true,
    });
    expect(missing).not.toHaveProperty('caName');
    expect(leafEntry).toMatchObject({
      name: 'apiserver',
      expirationDate: '2026-05-31T00:00:00Z',
      residualTime: -86_400,
      externallyManaged: false,
      caName: 'ca',
      missing: false,
    });
    const [authority] = info['certificateAuthorities'] as Record<string, unknown>[];
    expect(authority).toMatchObject({ name: 'ca', expirationDate: '2036-05-29T00:00:00Z', missing: false });
    expect(authority).not.toHaveProperty('caName');
  });

  it('has keys of its own beside them', () => {
    expect(info).toMatchObject({
      inventory: 'kubeadm',
      status: 'recovering',
      problems: [],
      at: '2026-06-01T00:00:00Z',
    });
    expect(info['certificates']).toContainEqual(
      expect.objectContaining({
        name: 'apiserver',
        state: 'EXPIRED',
        action: 'renew',
        reason: 'Expired',
        byHand: false,
      }),
    );
    expect(info['nodeCertificates']).toContainEqual(
      expect.objectContaining({ name: 'kubelet.conf', authority: 'same' }),
    );
    expect(info['served']).toEqual([
      {
        component: 'kube-apiserver',
        address: '10.0.0.1:6443',
        name: 'apiserver',
        state: 'different',
        expirationDate: '2026-05-31T00:00:00Z',
        message: sight.message,
      },
    ]);
  });
});
