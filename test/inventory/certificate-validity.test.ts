// The life that kubeadm's configuration in the API gives to certificates: how it is read, and whom it concerns.
import { describe, expect, it } from 'vitest';
import { parseToolConfig } from '../../lib/config/load.ts';
import {
  certificateValidity,
  parseGoDuration,
  withCertificateValidity,
} from '../../lib/inventory/discover/certificate-validity.ts';
import type { ResolvedTarget } from '../../lib/inventory/model.ts';
import { installedPresets, loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { kubeadmCertificates } from '../support/kubeadm-names.ts';

const hour = 3_600_000;
const day = 24 * hour;

describe('parseGoDuration()', () => {
  it.each<[string, number | undefined]>([
    ['8760h0m0s', 8760 * hour],
    ['2160h', 90 * day],
    ['1h30m', 1.5 * hour],
    ['1.5h', 1.5 * hour],
    ['.5h', 0.5 * hour],
    ['3m', 180_000],
    ['1500ms', 1500],
    ['0s', undefined],
    ['-1h', undefined],
    ['30d', undefined], // kubeadm does not read it either
    ['1h 30m', undefined],
    ['', undefined],
    ['1e9h', undefined],
    ['99999999999999999999h', undefined],
    ['2562047h', 2_562_047 * hour],
    ['2562048h', undefined], // more than 64 bits of nanoseconds
  ])('%s', (text, ms) => {
    expect(parseGoDuration(text)).toBe(ms);
  });
});

describe('certificateValidity()', () => {
  it.each<[string, unknown, number | undefined]>([
    ['of the document', 'kind: ClusterConfiguration\ncertificateValidityPeriod: 480h0m0s\n', 20 * day],
    ['is an hour at least', 'certificateValidityPeriod: 90s\n', hour],
    ['is not that of CAs', 'caCertificateValidityPeriod: 480h0m0s\n', undefined],
    ['that is a number', 'certificateValidityPeriod: 480\n', undefined],
    ['of broken YAML', 'certificateValidityPeriod: 480h\n  x: [', undefined],
    ['of a list', '- certificateValidityPeriod: 480h\n', undefined],
    ['of no text', undefined, undefined],
  ])('%s', (_, document, ms) => {
    expect(certificateValidity(document)).toBe(ms);
  });
});

const resolved = (text: string) => {
  const file = {
    path: '/c',
    text: `apiVersion: kube-cert-recovery/v1alpha1\nkind: Configuration\npreset: kubeadm\n${text}`,
  };
  const { inventory, lives } = parseToolConfig({ flags: {}, file, env: {}, cwd: '/', presets: installedPresets });
  return { lives, resolved: resolve(inventory, { parameters: { nodeName: ['n'] } }) };
};
const rowsOf = (text: string, validity: number | undefined): ReadonlyMap<string, ResolvedTarget> => {
  const { lives, resolved: before } = resolved(text);
  const { artefacts } = withCertificateValidity(before, validity, lives);
  return new Map(artefacts.flatMap((row) => (row.kind === 'target' ? [[row.name, row] as const] : [])));
};

describe('withCertificateValidity()', () => {
  it('concerns what kubeadm renews, and nothing else', () => {
    const before = resolve(loadPreset('kubeadm'), { parameters: { nodeName: ['n'] } });
    const after = withCertificateValidity(before, 90 * day, {});
    const changed = after.artefacts.filter((row, index) => row !== before.artefacts[index]);
    expect(new Set(changed.map(({ name }) => name))).toEqual(new Set(kubeadmCertificates));
    for (const row of changed) expect(row).toMatchObject({ validity: 90 * day, refresh: 72 * day });
  });

  it('changes nothing where the cluster says nothing', () => {
    const { resolved: before } = resolved('');
    expect(withCertificateValidity(before, undefined, {})).toBe(before);
  });

  it('leaves a life that was set here, and keeps a threshold of its own', () => {
    const lives = 'lives: { apiserver: { validity: 365d }, etcd-peer: { renewBefore: 30d } }\n';
    const rows = rowsOf(lives, 90 * day);
    expect(rows.get('apiserver')).toMatchObject({ validity: 365 * day });
    expect(rows.get('etcd-peer')).toMatchObject({ validity: 90 * day, refresh: 60 * day });
    // A renewal that would gain nothing is none.
    expect(rowsOf(lives, 20 * day).get('etcd-peer')).toMatchObject({ validity: 20 * day, refresh: 2 * day });
  });
});
