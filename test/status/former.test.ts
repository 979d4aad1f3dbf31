// What is said of processes that run with a former file, and of what a server has made for itself.
import { describe, expect, it } from 'vitest';
import { exitOfNode } from '../../cmd/exit-codes.ts';
import type { FormerFile } from '../../lib/restart/loaded.ts';
import type { ServedCertificate } from '../../lib/status/node-report.ts';
import { renderNode } from '../../lib/status/print.ts';
import { verdictOf } from '../../lib/status/verdict.ts';
import { isWell } from '../../lib/status/well.ts';
import { at } from '../support/facts.ts';
import { former, type Told, tell } from './node.ts';

const { until: _until, restartsAt: _restartsAt, ...undated } = former;
const unknown: FormerFile = { ...undated, state: 'unknown' };
const etcd: FormerFile = { ...former, component: 'etcd', isService: true, artefact: 'etcd-ca' };
const due: FormerFile = { ...former, restartsAt: at(-1) };
const kubelet: FormerFile = { ...unknown, component: 'kubelet', artefact: 'kubelet.conf' };

const row = (text: string): string => /^\S+ +NOT LOADED +(.*?) {2,}/m.exec(text)?.[1] ?? '';

describe('a process that runs with a former file', () => {
  it.each<[string, FormerFile, Told, string, 'recovering' | 'stuck', string]>([
    ['now', due, {}, 'kube-controller-manager restarted', 'recovering', 'kill 41'],
    ['by nobody here', former, { isArmed: false }, 'restart kube-controller-manager', 'recovering', 'kill 41'],
    ['by hand', unknown, {}, 'restart kube-controller-manager', 'stuck', 'kill 41'],
    ['by hand as a unit', kubelet, {}, 'restart kubelet', 'stuck', 'systemctl restart kubelet'],
    ['by hand as a service', etcd, {}, 'etcd restarted Jun 10, 2026 00:00 UTC', 'stuck', 'systemctl restart etcd'],
  ])('is restarted %s: exit 3', (_title, one, told, done, state, command) => {
    const status = tell({}, { former: [one], ...told });
    expect([status.class, exitOfNode(status)]).toEqual([state, 3]);
    const text = renderNode(status, { output: 'table' });
    expect(row(text)).toBe(done);
    expect(text).toContain(`Restart it: ${command}`);
    expect(text).not.toContain('Everything is as it should be');
  });

  it('is well until the day of its own restart, which the timer makes: exit 0', () => {
    const status = tell({}, { former: [former] });
    expect([status.class, exitOfNode(status), isWell(status), verdictOf(status).tone]).toEqual([
      'recovering',
      0,
      true,
      'good',
    ]);
    const text = renderNode(status, { output: 'table' });
    expect(row(text)).toBe('kube-controller-manager restarted Jun 10, 2026 00:00 UTC');
    expect(text).toContain('Restart it: kill 41');
    const authority: FormerFile = { ...former, artefact: 'ca', file: '/etc/kubernetes/pki/ca.crt' };
    for (const told of [
      { former: [former, due] },
      { former: [former, unknown] },
      { former: [former], isArmed: false },
      { former: [former, authority] },
      { former: [authority] },
    ])
      expect([exitOfNode(tell({}, told)), isWell(tell({}, told))]).toEqual([3, false]);
  });

  it.each<[string, readonly FormerFile[], string, string]>([
    [
      'later',
      [former, { ...former, artefact: 'scheduler.conf', process: { pid: 42, started: 1 } }],
      ' It restarts what has not loaded its file, the first Jun 10, 2026 00:00 UTC.',
      'Nothing to do. To load it today: kill 41; kill 42',
    ],
    [
      'now',
      [former, due],
      ' It repairs itself within a minute, at the latest before the kubelet starts again.',
      'Nothing to do.',
    ],
  ])('is announced in the last lines: restarted %s', (_title, all, armed, command) => {
    const { lines } = verdictOf(tell({}, { former: all }));
    expect(lines[0]).toBe('2 not loaded.');
    expect(lines[1]).toMatch(new RegExp(`${armed.replaceAll('.', String.raw`\.`)}$`));
    expect(lines[2]).toBe(command);
  });

  it('says what it has, and how long that is valid', () => {
    const { notLoaded } = JSON.parse(renderNode(tell({}, { former: [former] }), { output: 'json' })) as {
      notLoaded: unknown[];
    };
    expect(notLoaded).toEqual([
      {
        name: 'controller-manager.conf',
        component: 'kube-controller-manager',
        process: 41,
        location: '/etc/kubernetes/controller-manager.conf',
        state: 'former',
        changedAt: '2026-05-31T00:00:00Z',
        expirationDate: '2026-06-11T00:00:00Z',
        restartsAt: '2026-06-10T00:00:00Z',
        message:
          'controller-manager.conf: /etc/kubernetes/controller-manager.conf was written 2026-05-31T00:00:00.000Z, and ' +
          'kube-controller-manager (process 41) has not loaded it; what it has ends 2026-06-11T00:00:00.000Z. ' +
          'Restart it: kill 41',
      },
    ]);
  });
});

describe('a certificate that the API server has made for itself', () => {
  const own = (ends?: 'EXPIRING' | 'EXPIRED'): ServedCertificate => ({
    component: 'kube-apiserver',
    address: '192.0.2.1:6443',
    artefact: 'apiserver-loopback-client',
    state: 'inMemory',
    notAfter: at(20),
    message: 'it ends',
    ...(ends && { ends, restartsAt: at(10) }),
  });
  it.each<[ReturnType<typeof own>, string, number]>([
    [own(), 'healthy', 0],
    [own('EXPIRING'), 'healthy', 4],
    [own('EXPIRED'), 'recovering', 3],
  ])('%#: exit', (one, state, exit) => {
    const status = tell({}, { served: [one] });
    expect([status.class, exitOfNode(status)]).toEqual([state, exit]);
    const text = renderNode(status, { output: 'table' });
    expect(text).toMatch(/^kube-apiserver +192\.0\.2\.1:6443 +apiserver-loopback-client +Jun 21, .* UTC +in memory$/m);
    const { ends = 'none' } = one;
    const announced = new RegExp(`^apiserver-loopback-client +${ends} +kube-apiserver restarted Jun 11`, 'm');
    expect(announced.test(text)).toBe(ends !== 'none');
  });
});
