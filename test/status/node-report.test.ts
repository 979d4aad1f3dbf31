import { describe, expect, it } from 'vitest';
import { exitOfNode } from '../../cmd/exit-codes.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import type { ArtefactFacts } from '../../lib/plan/facts.ts';
import { localServers } from '../../lib/status/local-servers.ts';
import { nodeRows, type NodeStatus, type ServedCertificate } from '../../lib/status/node-report.ts';
import type { StatusRow } from '../../lib/status/report.ts';
import { otherName, renamedPreset } from '../support/renamed-preset.ts';
import { at, present } from '../support/facts.ts';
import { authority, leaf, machine, tell, withoutKey } from './node.ts';
import { kubeadmAuthorities, kubeadmCertificates } from '../support/kubeadm-names.ts';

const rowOf = (status: NodeStatus, name: string): StatusRow => {
  const row = nodeRows(status).find(({ artefact }) => artefact === name);
  if (row === undefined) throw new Error(`no row ${name}`);
  return row;
};
const names = (rows: readonly StatusRow[]): string[] => rows.map(({ artefact }) => artefact);
const external = {
  ca: withoutKey('ca'),
  'etcd-ca': withoutKey('etcd-ca'),
  'front-proxy-ca': withoutKey('front-proxy-ca'),
};

describe('an inventory with other names', () => {
  const resolved = resolve(renamedPreset('kubeadm'), { parameters: { nodeName: ['node1'] } });

  it('has the same tables', () => {
    const [status, other] = [tell(), tell({}, { resolved })];
    for (const group of ['certificates', 'authorities', 'own'] as const) {
      expect(names(other[group])).toEqual(names(status[group]).map(otherName));
      expect(other[group].map(({ state }) => state)).toEqual(status[group].map(({ state }) => state));
    }
  });

  it('has the same note on a kubeconfig of people that is absent', () => {
    const [note = ''] = tell({ [otherName('admin.conf')]: null }, { resolved }).notes;
    expect(note.replaceAll(otherName('admin.conf'), 'admin.conf')).toBe(tell({ 'admin.conf': null }).notes[0]);
  });

  it('has the same servers', () => {
    const withNames = localServers(machine()).map((server) => ({
      ...server,
      artefacts: server.artefacts.map(otherName),
      client: server.client && otherName(server.client),
    }));
    expect(localServers(resolved)).toEqual(withNames);
  });
});

describe('the self-signed certificate of a kubelet that has a signed one', () => {
  it('is not told, whatever its end: nobody reads it', () => {
    const ended = { 'kubelet-server': present(leaf('kubelet-server', undefined, -1)) };
    expect(names(nodeRows(tell(ended)))).not.toContain('kubelet-server');
    expect(exitOfNode(tell(ended))).toBe(0);
    const alone = tell({ ...ended, 'kubelet-server-current': null });
    expect(rowOf(alone, 'kubelet-server')).toMatchObject({ state: 'EXPIRED', action: 'renew' });
  });
});

describe('a kubeconfig with credentials of others', () => {
  it('is no fault: nothing is said to be done, and nothing of an end', () => {
    const foreign: ArtefactFacts = {
      state: 'broken',
      problem: 'foreign',
      version: '1',
      message: 'its user has a plugin',
    };
    const status = tell({ 'admin.conf': foreign });
    expect(status).toMatchObject({ class: 'healthy', problems: [] });
    const row = rowOf(status, 'admin.conf');
    expect(row).toMatchObject({ state: 'OK', action: 'keep', reason: 'NotOurs', byHand: false });
    expect(row).not.toHaveProperty('notAfter');
  });
});

describe('the rows of a kubeadm machine', () => {
  it('are those of kubeadm, sorted, and apart from them what kubeadm leaves out', () => {
    const status = tell();
    expect(names(status.certificates)).toEqual(kubeadmCertificates);
    expect(names(status.authorities)).toEqual(kubeadmAuthorities);
    expect(names(status.own)).toEqual([
      'kubelet-server',
      'kubelet-server-current',
      'kubelet.conf',
      'service-account-key',
    ]);
    expect(nodeRows(status).filter(({ state }) => state !== 'OK')).toEqual([]);
    expect([status.class, exitOfNode(status)]).toEqual(['healthy', 0]);
  });

  it('leave etcd out where it runs elsewhere, as kubeadm does', () => {
    const status = tell({}, { resolved: machine({ etcd: 'external' }) });
    expect(status.certificates).toHaveLength(7);
    expect(names(status.authorities)).toEqual(['ca', 'front-proxy-ca']);
  });

  it('say in a note that a deleted admin.conf is absent, without a problem, and of others nothing', () => {
    const status = tell({ 'admin.conf': null, 'super-admin.conf': null });
    expect(rowOf(status, 'admin.conf')).toMatchObject({ state: 'MISSING', byHand: false, action: 'keep' });
    expect(status.notes).toEqual([
      expect.stringContaining('admin.conf is absent, and stays so: nothing of the control'),
    ]);
    expect(exitOfNode(status)).toBe(0);
    expect(tell({ 'super-admin.conf': null }).notes).toEqual([]);
  });

  it('tell of a kubelet that waits for the approval of its serving certificate', () => {
    const { notes, own } = tell({ 'kubelet-server': null, 'kubelet-server-current': null });
    expect(notes).toEqual([expect.stringContaining('its request waits for approval')]);
    expect(names(own)).not.toContain('kubelet-server');
    for (const one of ['kubelet-server', 'kubelet-server-current']) expect(tell({ [one]: null }).notes).toEqual([]);
  });

  it('hold what is optional and absent only where kubeadm lists it', () => {
    const status = tell({ 'super-admin.conf': null, 'kubelet-server-current': null, 'kubelet.conf': null });
    expect(rowOf(status, 'super-admin.conf')).toMatchObject({ state: 'MISSING', byHand: false });
    expect(names(status.own)).toEqual(['kubelet-server', 'kubelet.conf', 'service-account-key']);
    expect(rowOf(status, 'kubelet.conf')).toMatchObject({ state: 'MISSING', action: 'renew' });
  });

  it('call missing what has its key alone', () => {
    const halfPair = { state: 'broken', problem: 'unreadable', version: '1', message: 'no entry "tls.crt"' } as const;
    expect(rowOf(tell({ apiserver: halfPair }), 'apiserver')).toMatchObject({ state: 'BROKEN' });
    const status = tell({ apiserver: halfPair }, { keyOnly: ['apiserver'] });
    expect(rowOf(status, 'apiserver')).toMatchObject({ state: 'MISSING', isForeign: false });
  });
});

describe('an expired leaf', () => {
  const gone = { apiserver: present(leaf('apiserver', 'ca', -1)) };

  it('is reissued where its CA has its key: exit 3', () => {
    const status = tell(gone);
    expect(rowOf(status, 'apiserver')).toMatchObject({ state: 'EXPIRED', action: 'renew', byHand: false });
    expect([status.class, exitOfNode(status)]).toEqual(['recovering', 3]);
  });

  it('must be brought by hand where its CA has none: exit 5', () => {
    const status = tell({ ...gone, ...external });
    expect(rowOf(status, 'apiserver')).toMatchObject({ state: 'EXPIRED', isForeign: true, byHand: true });
    expect(exitOfNode(status)).toBe(5);
  });
});

describe('an external CA', () => {
  it('is as it should be while everything is valid', () => {
    const status = tell(external);
    expect(rowOf(status, 'ca')).toMatchObject({ state: 'OK', isForeign: true, byHand: false, notAfter: at(3650) });
    expect(rowOf(status, 'scheduler.conf')).toMatchObject({ state: 'OK', isForeign: true });
    expect(rowOf(status, 'kubelet-server')).toMatchObject({ state: 'OK', isForeign: false });
    expect([status.class, exitOfNode(status)]).toEqual(['healthy', 0]);
  });

  it.each([
    ['broken', { state: 'broken', problem: 'unreadable', version: '1', message: 'no PEM' }],
    ['absent', null],
  ] as const)('leaves a certificate that is %s to a person', (_, fact) => {
    const status = tell({ ...external, 'scheduler.conf': fact });
    expect(exitOfNode(status)).toBe(5);
    // As kubeadm: what is absent is managed by nobody.
    expect(rowOf(status, 'scheduler.conf').isForeign).toBe(fact !== null);
  });

  it('leaves an optional certificate that is absent alone', () => {
    expect(exitOfNode(tell({ ...external, 'super-admin.conf': null }))).toBe(0);
  });
});

describe('a CA that has expired', () => {
  it('is renewed with its own key: exit 3', () => {
    const status = tell({ ca: present(authority('ca', -1)) });
    expect(rowOf(status, 'ca')).toMatchObject({ state: 'EXPIRED', action: 'renew' });
    expect([status.class, exitOfNode(status)]).toEqual(['recovering', 3]);
  });

  it('must be brought by hand where another CA has signed it: exit 5', () => {
    const status = tell({ ca: present({ ...authority('ca', -1), signedBy: ['above'] }) });
    expect(rowOf(status, 'ca')).toMatchObject({ state: 'EXPIRED', byHand: true });
    expect([status.class, exitOfNode(status)]).toEqual(['stuck', 5]);
  });
});

describe('a CA that is ours', () => {
  it('is reissued when it has expired', () => {
    const { artefacts, ...rest } = machine();
    const owned = artefacts.map((row) => (row.kind === 'signer' ? { ...row, owned: true } : row));
    const status = tell({ ca: present(authority('ca', -1)) }, { resolved: { ...rest, artefacts: owned } });
    expect(rowOf(status, 'ca')).toMatchObject({ state: 'EXPIRED', action: 'renew', byHand: false });
  });
});

describe('what ends soon', () => {
  it('is announced in the last fifth of its declared life, whatever its NotBefore says: exit 4', () => {
    const old = (until: number) => ({ ...leaf('admin.conf', 'ca', until), notBefore: at(-1500) });
    const status = (until: number) => tell({ 'admin.conf': { ...present(old(until)), authorities: ['ca'] } });
    expect(rowOf(status(74), 'admin.conf').state).toBe('OK');
    expect(rowOf(status(72), 'admin.conf').state).toBe('EXPIRING');
    expect(exitOfNode(status(72))).toBe(4);
  });

  it('is what the kubelet rotates by itself only when the kubelet is late: past nine tenths of its life', () => {
    const rotated = (until: number, time = at(0)) =>
      tell({ 'kubelet.conf': { ...present(leaf('kubelet.conf', 'ca', until)), authorities: ['ca'] } }, { time });
    expect([rowOf(rotated(37), 'kubelet.conf').state, exitOfNode(rotated(37))]).toEqual(['OK', 0]);
    expect([rowOf(rotated(36), 'kubelet.conf').state, exitOfNode(rotated(36))]).toEqual(['EXPIRING', 4]);
  });

  it('is said of another day in words and exit code alike', () => {
    const { 'kubelet.conf': _, ...rest } = { 'kubelet.conf': null };
    const forecast = (days: number) => tell(rest, { time: at(days), isForecast: true, isArmed: true });
    expect([forecast(299).class, exitOfNode(forecast(299))]).toEqual(['healthy', 0]);
    expect([forecast(301).class, exitOfNode(forecast(301))]).toEqual(['recovering', 4]);
  });

  it('is a CA once a leaf made now would outlive it', () => {
    expect(rowOf(tell({ ca: present({ ...authority('ca', 366), notBefore: at(-3000) }) }), 'ca').state).toBe('OK');
    expect(rowOf(tell({ ca: present({ ...authority('ca', 364), notBefore: at(-3000) }) }), 'ca').state).toBe(
      'EXPIRING',
    );
  });
});

describe('a kubeconfig', () => {
  const as = (commonName: string, ...organizations: readonly string[]) => ({
    ...present({ ...leaf('controller-manager.conf', 'ca'), commonName, organizations }),
    authorities: ['ca'],
  });

  it("of a component with an administrator's identity works, and a note says so", () => {
    const status = tell({ 'controller-manager.conf': as('kubernetes-admin', 'kubeadm:cluster-admins') });
    expect([status.class, exitOfNode(status)]).toEqual(['healthy', 0]);
    expect(status.notes).toEqual([
      'controller-manager.conf is that of "kubernetes-admin" (kubeadm:cluster-admins) and not of ' +
        '"system:kube-controller-manager": its component works with the rights of that user, and a renewal keeps them',
    ]);
  });

  it('of a component with its own identity needs none', () => {
    expect(tell({ 'controller-manager.conf': as('system:kube-controller-manager') }).notes).toEqual([]);
    expect(tell({ 'admin.conf': as('jane', 'admins') }).notes).toEqual([]);
  });

  it('is compared with the first certificate of its issuer', () => {
    expect(rowOf(tell(), 'scheduler.conf').authority).toBe('same');
    expect(rowOf(tell(), 'apiserver').authority).toBeUndefined();
    const other = { ...present(leaf('scheduler.conf', 'ca')), authorities: ['another'] };
    const status = tell({ 'scheduler.conf': other });
    expect(rowOf(status, 'scheduler.conf').authority).toBe('different');
    expect([status.class, exitOfNode(status)]).toEqual(['recovering', 3]);
  });
});

describe('what cannot be read', () => {
  it('exits with 1, whatever else is wrong', () => {
    const status = tell({
      ...external,
      apiserver: { state: 'unavailable', message: 'EACCES' },
      'scheduler.conf': null,
    });
    expect(rowOf(status, 'apiserver')).toMatchObject({ state: 'UNKNOWN' });
    expect(exitOfNode(status)).toBe(1);
  });
});

describe('what is served', () => {
  const sight: ServedCertificate = {
    component: 'etcd',
    address: '127.0.0.1:2379',
    artefact: 'etcd-server',
    state: 'different',
    message: 'another',
  };

  it('counts where it differs from the disk, and not where nobody answers', () => {
    expect(exitOfNode(tell({}, { served: [sight] }))).toBe(3);
    expect(exitOfNode(tell({}, { served: [{ ...sight, state: 'unreachable' }] }))).toBe(0);
  });
});
