import { describe, expect, it } from 'vitest';
import { exitOfNode } from '../../cmd/exit-codes.ts';
import { systemClock } from '../../lib/clock.ts';
import { type RecoveryError, RecoveryError as Failure } from '../../lib/errors.ts';
import type { AdoptionStatus } from '../../lib/status/adoption-report.ts';
import { renderNode } from '../../lib/status/print.ts';
import type { StatusReport, StatusRow } from '../../lib/status/report.ts';
import { runNodeStatus } from '../../lib/status/status.ts';
import { verdictOf } from '../../lib/status/verdict.ts';
import { isWell } from '../../lib/status/well.ts';
import { former, machine, now, tell } from './node.ts';

const ready = (pod: string) => ({ pod, state: 'ready', message: 'runs and is ready' }) as const;
const pods = [ready('kube-apiserver'), ready('kube-controller-manager'), ready('kube-scheduler')];
const row: StatusRow = {
  artefact: 'service-account-key',
  kind: 'keyPair',
  location: 'Secret "a/b"',
  state: 'OK',
  isForeign: false,
  action: 'keep',
  reason: 'Healthy',
  message: '',
  recheckAt: now,
};
const objects = (change: Partial<StatusRow> = {}, more: Partial<StatusReport> = {}): StatusReport => ({
  inventory: 'kubernetes',
  at: now,
  class: 'healthy',
  problems: [],
  rows: [{ ...row, ...change }],
  recheckAt: now,
  ...more,
});

describe('status of an adopted machine', () => {
  it.each<readonly [string, AdoptionStatus, number, string]>([
    ['that is well', { pods, objects: objects() }, 0, 'Everything is as it should be.'],
    [
      'whose container has no image',
      {
        pods: [...pods.slice(1), { pod: 'kube-scheduler', state: 'wrong', message: 'does not run: ImagePullBackOff' }],
        objects: objects(),
      },
      3,
      'To do:\n  does not run: ImagePullBackOff',
    ],
    [
      'whose container is not ready',
      { pods: [{ pod: 'kube-apiserver', state: 'waiting', message: 'answers 503' }], objects: objects() },
      3,
      '\n1 containers not ready.\nARMED: yes: CAs valid until May 29, 2036 00:00 UTC. It repairs itself within a minute',
    ],
    [
      'without a required Secret',
      {
        pods,
        objects: objects(
          { state: 'MISSING', action: 'blocked', reason: 'KeyPairAbsent' as StatusRow['reason'] },
          { class: 'stuck', problems: ['service-account-key: it is absent'] },
        ),
      },
      3,
      '  service-account-key: it is absent',
    ],
    [
      'whose files are not what is in the API',
      { pods, objects: objects({ onDisk: 'missing' }, { class: 'recovering' }) },
      3,
      'its files are not on this machine',
    ],
    [
      'whose API does not answer',
      {
        pods: pods.map(({ pod }) => ({ pod, state: 'unknown', message: 'x' }) as const),
        problem: 'the API cannot be asked',
      },
      1,
      'To do:\n  objects and containers of this adopted machine are not known: the API cannot be asked',
    ],
  ])('%s', (_, adopted, exit, text) => {
    const files = tell();
    const status = tell({}, { adopted });
    expect(exitOfNode(files)).toBe(0);
    expect(exitOfNode(status), renderNode(status, { output: 'table' })).toBe(exit);
    expect(renderNode(status, { output: 'table' })).toContain(text);
    if (exit !== 0) expect(renderNode(status, { output: 'table' })).not.toContain('Everything is as it should be');
    expect(JSON.parse(renderNode(status, { output: 'json' }))).toMatchObject({ adopted: { containers: adopted.pods } });
  });
});

it('does not call well what is not on disk, because a restart comes by itself on a later day', () => {
  const told = (adopted: AdoptionStatus) => tell({}, { adopted, former: [former] });
  expect(exitOfNode(told({ pods, objects: objects() }))).toBe(0);
  const status = told({ pods, objects: objects({ onDisk: 'different' }, { class: 'recovering' }) });
  expect([exitOfNode(status), isWell(status)]).toEqual([3, false]);
  expect(verdictOf(status).lines[0]).toBe('1 not loaded, 1 not on disk.');
});

it('names with ARMED what keeps a repair from its pods', () => {
  const gone = { pod: 'kube-apiserver', state: 'wrong', message: 'kube-apiserver: it has no image' } as const;
  const finding = {
    configuration: 'ValidatingWebhookConfiguration "policy"',
    webhook: 'a',
    blocks: true,
    namespaces: [],
  };
  const webhooks = { seen: true, findings: [{ ...finding, exemption: { namespaceSelector: {} } }] } as const;
  const { reasons } = tell({}, { adopted: { pods: [gone, ...pods.slice(1)], objects: objects({}, { webhooks }) } });
  expect(reasons).toEqual([
    expect.stringMatching(/^CAs valid until /),
    'no container of ours runs in kube-apiserver',
    'webhooks that can refuse a repair: 1 (see the notes)',
  ]);
});

describe('status', () => {
  it('does not call well what it could not look at', () => {
    const silent = (component: string) =>
      ({ component, address: '127.0.0.1:1', artefact: 'apiserver', state: 'unreachable', message: '' }) as const;
    const status = tell({}, { served: [silent('kube-apiserver'), silent('etcd'), silent('etcd')] });
    expect(exitOfNode(status)).toBe(0);
    expect(renderNode(status, { output: 'table' })).toContain(
      'Every certificate on disk is as it should be. kube-apiserver, etcd do not answer, so what is in use was not looked at.',
    );
  });

  it('promises no repair where nothing would carry it out', () => {
    const [expired, armed] = [{ isArmed: false }, {}].map((more) => tell({ apiserver: null }, more));
    expect(renderNode(armed ?? expect.unreachable(), { output: 'table' })).toContain(
      'It repairs itself within a minute',
    );
    const text = renderNode(expired ?? expect.unreachable(), { output: 'table' });
    expect(text).toContain('Nothing here is known to repair it.');
    expect(text).toMatch(/^apiserver +MISSING +reissued once armed /m);
  });

  it('of a day to come tells by its exit code whether the machine comes back by itself', () => {
    const time = new Date(now.getTime() + 400 * 86_400_000);
    const off = (isArmed: boolean) => tell({}, { time, isForecast: true, isArmed });
    expect(exitOfNode(off(true))).toBe(4);
    expect(exitOfNode(off(false))).toBe(3);
    expect(renderNode(off(false), { output: 'table' })).toContain(
      'this node would not come back by itself, because it is not armed: ',
    );
  });

  it('asked for by somebody else than root says one sentence, and nothing of modes', async () => {
    const denied = new Failure('ReadFailed', 'chmod', {
      details: { path: '/etc/kubernetes/pki/ca.key', system: 'EACCES' },
    });
    const run = (isRoot: boolean) =>
      runNodeStatus({
        resolved: machine(),
        store: { read: () => Promise.reject(denied), write: () => Promise.reject(denied) },
        policy: { kind: 'OnlyWhenExpired', graceMs: 60_000, settleMs: 1000 },
        clockFacts: { builtAt: now, synchronised: true },
        clock: systemClock,
        at: now,
        isRoot,
        signal: new AbortController().signal,
      });
    const err = (await run(false).catch((failure: unknown) => failure)) as RecoveryError;
    expect(err.message).toBe(
      'Cannot look at this machine: its keys and kubeconfigs are readable by root only; run it as root',
    );
    expect((await run(true)).class).toBe('stuck');
  });
});
