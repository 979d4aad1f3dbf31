import { describe, expect, it } from 'vitest';
import { renderStatus } from '../../lib/status/print.ts';
import type { StatusFormat } from '../../lib/status/structured.ts';
import type { StatusReport, StatusRow } from '../../lib/status/report.ts';
import type { WebhookFinding } from '../../lib/webhooks/intercepting.ts';
import { parseYaml } from '../../lib/yaml.ts';

const at = new Date('2026-06-01T00:00:00Z');
const base = {
  location: 'Secret "n/x"',
  state: 'OK',
  isForeign: false,
  action: 'keep',
  reason: 'Healthy',
  message: 'valid',
  recheckAt: at,
} as const;
const leaf: StatusRow = {
  ...base,
  artefact: 'kubelet-client',
  kind: 'target',
  issuer: 'kubelet-signer',
  notBefore: new Date('2025-06-01T00:00:00Z'),
  notAfter: new Date('2026-05-31T23:00:00Z'),
  residualMs: -3_600_000,
  state: 'EXPIRED',
  action: 'renew',
  reason: 'Expired',
  message: 'it expired at 2026-05-31T23:00:00.000Z',
  onDisk: 'same',
  inUse: { state: 'unproven', message: 'not served' },
};
const signer: StatusRow = {
  ...base,
  artefact: 'kubelet-signer',
  kind: 'signer',
  notAfter: new Date('2035-06-02T00:00:00Z'),
  residualMs: 9 * 365 * 86_400_000 + 86_400_000,
};
const bundle: StatusRow = {
  ...base,
  artefact: 'kubelet-ca',
  kind: 'caBundle',
  state: 'MISSING',
  action: 'renew',
  reason: 'Absent',
};
const key: StatusRow = { ...base, artefact: 'service-account-key', kind: 'keyPair', isForeign: true };
const status: StatusReport = {
  inventory: 'kubernetes',
  at,
  class: 'recovering',
  problems: [],
  rows: [signer, bundle, leaf, key],
  recheckAt: at,
};

const webhook: WebhookFinding = {
  configuration: 'ValidatingWebhookConfiguration "policy"',
  webhook: 'policy.example.com',
  blocks: true,
  namespaces: ['n'],
  exemption: { namespaceSelector: { matchLabels: { exempt: 'no' } } },
};

const rendered = (format: StatusFormat, webhooks: StatusReport['webhooks']): string =>
  renderStatus({ ...status, ...(webhooks && { webhooks }) }, { output: format });

describe('renderStatus() with what is known of admission webhooks', () => {
  it('names each one that could stand in the way, and the exemption', () => {
    const seen = { seen: true, findings: [webhook] } as const;
    expect(rendered('table', seen)).toContain(
      'Admission webhooks that could stand in the way of recovery:\n' +
        '  ValidatingWebhookConfiguration "policy": webhook "policy.example.com" intercepts these objects and stops ' +
        'recovery when its backend is down; add to it: {"namespaceSelector":{"matchLabels":{"exempt":"no"}}}\n',
    );
    expect(JSON.parse(rendered('json', seen))).toMatchObject({
      admissionWebhooks: { seen: true, findings: [webhook] },
    });
  });

  it('says in one line that they could not be seen', () => {
    const unseen = { seen: false, message: 'Cannot list: 403' } as const;
    expect(rendered('table', unseen)).toContain('\nAdmission webhooks were not looked at: Cannot list: 403\n');
    expect(JSON.parse(rendered('json', unseen))).toMatchObject({
      admissionWebhooks: { seen: false, message: 'Cannot list: 403' },
    });
  });

  it.each([undefined, { seen: true, findings: [] } as const])('is silent when there is nothing to say: %j', (none) => {
    expect(rendered('table', none)).not.toContain('webhook');
  });
});

describe('renderStatus() as a table', () => {
  const lines = renderStatus(status, { output: 'table' }).split('\n');
  const cells = (start: string): string[] =>
    lines.find((line) => line.startsWith(start))?.split(/ {3,}/) ?? ['no such line'];

  it('has the columns of kubeadm, then ours', () => {
    expect(cells('CERTIFICATE ')).toEqual([
      'CERTIFICATE',
      'EXPIRES',
      'RESIDUAL TIME',
      'CERTIFICATE AUTHORITY',
      'EXTERNALLY MANAGED',
      'STATUS',
      'REASON',
      'ON DISK',
      'IN USE',
    ]);
    expect(cells('kubelet-client')).toEqual([
      'kubelet-client',
      'May 31, 2026 23:00 UTC',
      '<invalid>',
      'kubelet-signer',
      'no',
      'EXPIRED',
      'Expired',
      'yes',
      'not proven',
    ]);
  });

  it('lists authorities in a second table and marks what is missing', () => {
    expect(lines.indexOf('')).toBeGreaterThan(0);
    expect(cells('kubelet-signer')).toContain('9y');
    expect(cells('!MISSING! kubelet-ca')).toContain('Absent');
    expect(cells('service-account-key')).toContain('yes');
  });

  it('leaves out an optional object that is absent', () => {
    const option: StatusRow = { ...key, artefact: 'user-serving-cert', kind: 'opaque', state: 'MISSING' };
    const shown = renderStatus({ ...status, rows: [option, key] }, { output: 'table' });
    expect(shown).not.toContain('user-serving-cert');
    expect(shown).toContain('service-account-key');
  });

  it('ends with what will be done', () => {
    expect(lines).toContain('  kubelet-client: it expired at 2026-05-31T23:00:00.000Z');
  });

  it('leaves out disk and use where nobody asked', () => {
    const { onDisk: _disk, inUse: _use, ...row } = leaf;
    expect(renderStatus({ ...status, rows: [row] }, { output: 'table' })).not.toContain('ON DISK');
  });
});

describe('renderStatus() as JSON and YAML', () => {
  it('uses the keys of kubeadm', () => {
    const value = JSON.parse(renderStatus(status, { output: 'json' })) as Record<string, unknown>;
    expect(value).toMatchObject({
      kind: 'CertificateExpirationInfo',
      status: 'recovering',
      certificates: [
        {
          name: 'kubelet-client',
          expirationDate: '2026-05-31T23:00:00.000Z',
          residualTime: -3600,
          caName: 'kubelet-signer',
          externallyManaged: false,
          missing: false,
          state: 'EXPIRED',
        },
      ],
      certificateAuthorities: [{ name: 'kubelet-signer' }, { name: 'kubelet-ca', missing: true }],
      objects: [{ name: 'service-account-key', externallyManaged: true }],
    });
    expect(parseYaml(renderStatus(status, { output: 'yaml' }))).toEqual(value);
  });
});
