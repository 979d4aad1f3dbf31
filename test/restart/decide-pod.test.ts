import { describe, expect, it } from 'vitest';
import {
  inputsHash,
  judgeRestart,
  secondsOfChange,
  type PodSituation,
  type RestartVerdict,
  type WrittenInput,
} from '../../lib/restart/decide.ts';

const old = { pid: 12, started: 100_00 }; // 100 s after the boot
const next = { pid: 40, started: 5000_00 };
const situation: PodSituation = {
  component: 'kube-controller-manager',
  processes: [old],
  uptimeSeconds: 4000,
  writtenSeconds: 3990,
  hasShortBackOff: false,
  manifest: undefined,
  hash: 'of its inputs',
};
/** A restart by a signal alone. */
const signalled = (why: unknown = expect.any(String)): Partial<RestartVerdict> => ({
  kind: 'restart',
  due: [old],
  means: [{ by: 'signal', processes: [old], why: why as string }],
});
const manifest = '/manifests/kube-controller-manager.yaml';

describe('judgeRestart()', () => {
  it.each<[string, Partial<PodSituation>, Partial<RestartVerdict>]>([
    ['signals a process that ran long', {}, signalled()],
    ['signals it also where a manifest is known', { manifest }, signalled()],
    [
      'rewrites the manifest of one that ran 10 minutes',
      { uptimeSeconds: 700, writtenSeconds: 690, manifest },
      {
        kind: 'restart',
        due: [old],
        means: [
          { by: 'manifest', path: manifest, hash: 'of its inputs' },
          { by: 'signal', processes: [old], why: expect.stringContaining('the kubelet holds back') as string },
        ],
      },
    ],
    ['signals one that ran a second more', { uptimeSeconds: 701, writtenSeconds: 690, manifest }, signalled()],
    [
      'signals a young one where the back-off is short',
      { uptimeSeconds: 160, writtenSeconds: 150, hasShortBackOff: true, manifest },
      signalled('SIGTERM to process 12, which ran 60 s'),
    ],
    [
      'signals a young one without a manifest, later than not at all',
      { uptimeSeconds: 160, writtenSeconds: 150 },
      signalled(expect.stringMatching(/^SIGTERM to process 12, which ran 60 s: the kubelet holds back/)),
    ],
    ['leaves one alone that started since', { writtenSeconds: 99 }, { kind: 'none' }],
    ['counts one that started at that moment as older', { writtenSeconds: 100 }, signalled()],
    ['ends only the older of two', { processes: [old, next], uptimeSeconds: 5010, writtenSeconds: 4990 }, signalled()],
    ['needs nothing where nothing is known of the files', { writtenSeconds: -Infinity }, { kind: 'none' }],
    ['cannot where no process is seen', { processes: [] }, { kind: 'cannot', reason: 'ProcessNotVisible' }],
    ['cannot without the uptime', { uptimeSeconds: undefined }, { kind: 'cannot', reason: 'UptimeUnknown' }],
    ['cannot with an uptime that is another one', { uptimeSeconds: 98 }, { kind: 'cannot', reason: 'UptimeUnknown' }],
    ['cannot restart etcd', { component: 'etcd' }, { kind: 'cannot', reason: 'RestartNeeded' }],
    ['cannot restart the kubelet', { component: 'kubelet', manifest }, { kind: 'cannot', reason: 'RestartNeeded' }],
  ])('%s', (_title, given, wanted) => {
    expect(judgeRestart({ ...situation, ...given })).toEqual(expect.objectContaining(wanted));
  });
});

describe('secondsOfChange()', () => {
  const now = new Date('2026-11-22T08:00:00Z');
  const ago = (seconds: number): Date => new Date(now.getTime() - seconds * 1000);
  const written: WrittenInput = {
    since: 'changed',
    changedAt: ago(2),
    now,
    uptimeSeconds: 1000,
    observedSinceSeconds: 400,
  };
  it.each<[string, Partial<WrittenInput>, number]>([
    ['is the uptime less the age', {}, 998],
    ['of a found file, too', { since: 'found', changedAt: ago(700) }, 300],
    ['is before the boot for a file that is older', { since: 'found', changedAt: ago(1001) }, -1],
    ['is now where the clock was set back after a change', { changedAt: ago(-50) }, 1000],
    ['is the start of the observer where it was set forward', { changedAt: ago(1e6) }, 400],
    ['restarts nobody for a found file of the future', { since: 'found', changedAt: ago(-1) }, -Infinity],
  ])('%s', (_title, given, wanted) => {
    expect(secondsOfChange({ ...written, ...given })).toBe(wanted);
  });
});

it('inputsHash() is that of the inputs, in whatever order they came', () => {
  const inputs: [string, string][] = [
    ['a', '1'],
    ['b', '2'],
  ];
  const hash = inputsHash(new Map(inputs));
  expect(hash).toMatch(/^[0-9a-f]{64}$/);
  expect(inputsHash(new Map(inputs.toReversed()))).toBe(hash);
  expect(inputsHash(new Map([...inputs, ['c', '3']]))).not.toBe(hash);
  expect(inputsHash(new Map([['a', '1b2']]))).not.toBe(hash);
});
