import { describe, expect, it } from 'vitest';
import {
  changesOf,
  settingLines,
  tokenFileIn,
  tokenFlags,
  withInstalled,
  workerDirectory,
} from '../../lib/install/installed-flags.ts';
import { defaultDirectory, hostLayout, workerTokenFile } from '../../lib/install/layout.ts';

const installed = (...flags: readonly string[]): readonly string[] => [
  '/opt/kube-cert-recovery',
  '--mode=regen',
  '--once',
  '--preset=kubeadm',
  ...flags,
  '--restart',
];
const renewing = installed('--renew-before=30d', '--window=Sat/02:00-05:00', '--warn-only');

describe('withInstalled()', () => {
  it.each([
    ['nothing typed', {}, { renewBefore: '30d', window: 'Sat/02:00-05:00', warnOnly: true }],
    [
      'another window',
      { window: 'Sun/02:00-05:00' },
      { renewBefore: '30d', window: 'Sun/02:00-05:00', warnOnly: true },
    ],
    ['no window', { window: 'none' }, { renewBefore: '30d', warnOnly: true }],
    ['a threshold to renew by', { renewBefore: '60d' }, { renewBefore: '60d', window: 'Sat/02:00-05:00' }],
    ['no renewal', { renewBefore: 'none' }, {}],
  ])('with %s has what the units were told besides', (_name, typed, wanted) => {
    expect(withInstalled(typed, { words: renewing })).toEqual({ preset: 'kubeadm', ...wanted });
  });

  it('keeps every flag of the units that is not typed, those that repeat with all their values', () => {
    const directories = ['--directory=pkiDir=/a', '--directory=kubeletDir=/b'];
    const words = installed(...directories, '--ca-renewal=Report', '--log-level=debug', '--api-server-address=[::1]:1');
    expect(withInstalled({ dryRun: true }, { words })).toEqual({
      preset: 'kubeadm',
      dryRun: true,
      directory: ['pkiDir=/a', 'kubeletDir=/b'],
      caRenewal: 'Report',
      logLevel: 'debug',
      apiServerAddress: '[::1]:1',
    });
    expect(withInstalled({ directory: ['pkiDir=/c'] }, { words }).directory).toEqual(['pkiDir=/c']);
    const measured = { words: installed('--metrics-file=/a.prom') };
    expect(withInstalled({}, measured)).toEqual({ preset: 'kubeadm', metricsFile: '/a.prom' });
    expect(withInstalled({ metricsFile: 'none' }, measured)).toEqual({ preset: 'kubeadm' });
  });

  it('takes no directory of another inventory over, and no setting that a file now says', () => {
    const words = installed('--directory=pkiDir=/a', '--renew-before=30d', '--log-level=debug');
    expect(withInstalled({ preset: 'etcdadm' }, { words })).toEqual({
      preset: 'etcdadm',
      renewBefore: '30d',
      logLevel: 'debug',
    });
    const isInFile = (field: string): boolean => field === 'regen.renewBefore';
    expect(withInstalled({ config: '/own.yaml' }, { words, isInFile })).toEqual({
      config: '/own.yaml',
      logLevel: 'debug',
    });
    const file = ['/opt/program', '--config=/own.yaml', '--renew-before=30d'];
    expect(withInstalled({ config: '/own.yaml' }, { words: file, isInFile })).toEqual({
      config: '/own.yaml',
      renewBefore: '30d',
    });
  });

  it('leaves what is typed as it is where there are no units', () => {
    expect(withInstalled({ preset: 'kubeadm', restart: true }, { words: [] })).toEqual({
      preset: 'kubeadm',
      restart: true,
    });
  });
});

describe('changesOf() and settingLines()', () => {
  const program = '/opt/kube-cert-recovery';
  it.each([
    [
      'taken away',
      renewing,
      [program, '--preset=kubeadm'],
      'was 30d in Sat/02:00-05:00, only said (--warn-only), now off',
    ],
    ['given', installed(), [program, '--preset=kubeadm', '--renew-before=30d'], 'was off, now 30d'],
    ['kept', installed('--renew-before=30d'), [program, '--preset=kubeadm', '--renew-before=30d'], '30d'],
    ['of a first run', [], [program, '--preset=kubeadm'], 'off'],
    ['said by a file', [], [program, '--config=/own.yaml'], 'as /own.yaml says'],
  ])('tells of renewal before expiry that is %s', (_name, before, now, told) => {
    const line = `Renewal before expiry: ${told}`;
    expect(settingLines(before, now)).toEqual([line]);
    // To a program only what differs.
    expect(changesOf(before, now)).toEqual(told.startsWith('was ') ? [line] : []);
  });

  it('tells of each other flag and of the program', () => {
    const now = ['/opt/next/kube-cert-recovery', '--config=/own.yaml'];
    expect(changesOf(installed('--directory=pkiDir=/a'), now)).toEqual([
      'Renewal before expiry: was off, now as /own.yaml says',
      '--config: was not given, now /own.yaml',
      '--preset: was kubeadm, now not given',
      '--directory: was pkiDir=/a, now not given',
      'Program: was /opt/kube-cert-recovery, now /opt/next/kube-cert-recovery',
    ]);
  });
});

describe('the token of a worker', () => {
  it('is named by its units where it is in another place, and by them alone', () => {
    expect(tokenFileIn(['/opt/tool', 'renew-worker', ...tokenFlags('/srv/token')])).toBe('/srv/token');
    expect(tokenFileIn(['/opt/tool', 'renew-worker', ...tokenFlags(undefined)])).toBeUndefined();
  });

  it('is where a later run of init host finds it', () => {
    const file = workerTokenFile(hostLayout('/srv/own'));
    expect(workerDirectory(['/opt/tool', 'renew-worker', ...tokenFlags(file)])).toBe('/srv/own');
    expect(workerDirectory(['/opt/tool', 'renew-worker'])).toBe(defaultDirectory);
  });
});
