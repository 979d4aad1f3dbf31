// Renewal ahead of time as it is configured, by flags and in the file: what becomes of it, and what is refused.
import { describe, expect, it } from 'vitest';
import { jitterOf } from '../../lib/config/ahead-settings.ts';
import { parseConfig, parseToolConfig } from '../../lib/config/load.ts';
import type { ConfigInput } from '../../lib/config/sources.ts';
import { errorText } from '../../lib/errors.ts';
import { installedPresets } from '../../lib/inventory/preset.ts';
import { parseWindow } from '../../lib/plan/window.ts';

const day = 86_400_000;
const head = ['apiVersion: kube-cert-recovery/v1alpha1', 'kind: Configuration', 'preset: kubeadm', 'modes: [regen]'];

function input(flags: ConfigInput['flags'], ...lines: readonly string[]): ConfigInput {
  const file = { path: '/etc/recovery.yaml', text: [...head, ...lines].join('\n') };
  return { flags, file, env: {}, cwd: '/', hostName: 'node-1', presets: installedPresets };
}

function aheadOf(flags: ConfigInput['flags'], ...lines: readonly string[]) {
  const [mode] = parseConfig(input(flags, ...lines)).modes;
  const ahead = mode?.mode === 'regen' ? mode.policy.ahead : undefined;
  expect(parseToolConfig(input(flags, ...lines)).policy.ahead).toEqual(ahead);
  return ahead;
}

function problem(flags: ConfigInput['flags'], ...lines: readonly string[]): string {
  try {
    parseConfig(input(flags, ...lines));
    return '';
  } catch (err) {
    return errorText(err);
  }
}

describe('renewal ahead of time', () => {
  const plain = { beforeMs: 30 * day, signerBeforeMs: 365 * day, jitter: jitterOf('node-1'), warnOnly: false };

  it('is nothing without being asked for', () => {
    expect(aheadOf({})).toBeUndefined();
  });

  it('is asked for by flags, in the file, or by both: flags beat the file', () => {
    const window = 'Sat,Sun/02:00-05:00';
    expect(aheadOf({ renewBefore: '30d' })).toEqual(plain);
    const all = { ...plain, window: parseWindow(window), warnOnly: true };
    expect(aheadOf({ renewBefore: '30d', window, warnOnly: true })).toEqual(all);
    expect(aheadOf({}, `regen: { renewBefore: 30d, window: "${window}", warnOnly: true }`)).toEqual(all);
    expect(aheadOf({ window }, 'regen: { renewBefore: 30d, window: 01:00-02:00, caRenewBefore: 90d }')).toEqual({
      ...plain,
      window: parseWindow(window),
      signerBeforeMs: 90 * day,
    });
  });

  it('is spread by the name of the node, NODE_NAME before that of the host', () => {
    const named = { ...input({ renewBefore: '30d' }), env: { NODE_NAME: 'node-2' } };
    expect(parseToolConfig(named).policy.ahead?.jitter).toBe(jitterOf('node-2'));
    const shares = Array.from({ length: 1000 }, (_, at) => jitterOf(`node-${at}`)).toSorted((a, b) => a - b);
    expect(new Set(shares).size).toBe(1000);
    for (const [at, share] of shares.entries()) expect(Math.abs(share - at / 1000)).toBeLessThan(0.06);
  });

  it.each([
    ['a window without it', { window: '02:00-05:00' }, [], '--window: must be left out without --renew-before'],
    ['a warning without it', { warnOnly: true }, [], '--warn-only: must be left out without --renew-before'],
    ['a threshold of CAs without it', {}, ['regen: { caRenewBefore: 90d }'], 'regen.caRenewBefore: must be left out'],
    ['no window', { renewBefore: '30d', window: 'at night' }, [], '--window: must be "[DAYS/]HH:MM-HH:MM[ ZONE]"'],
    ['no duration', { renewBefore: 'a month', window: '02:00-05:00' }, [], '--renew-before: must be a duration'],
    ['a duration of nothing', { renewBefore: '0d' }, [], '--renew-before: must be a duration of more than 0s'],
    ['another mode', { renewBefore: '30d', mode: 'syncer' }, [], '--renew-before: must be left out without mode regen'],
  ] as const)('refuses %s', (_, flags, lines, wanted) => {
    const text = problem(flags, ...lines);
    expect(text).toContain(wanted);
    expect(text.split('--window').length).toBeLessThan(3);
    const told = text.split('\n');
    expect(new Set(told).size).toBe(told.length);
  });
});

describe('lives', () => {
  const livesOf = (name: string, ...lines: readonly string[]) => {
    const found = parseToolConfig(input({}, ...lines)).inventory.artefacts.find((one) => one.name === name);
    if (found?.kind !== 'target' && found?.kind !== 'signer') throw new Error('no such entry');
    const { validity, refresh, renewAhead } = found;
    return { validity: validity / day, refresh: refresh / day, renewAhead };
  };

  it('take the place of those of the inventory', () => {
    expect(livesOf('apiserver')).toEqual({ validity: 365, refresh: 292, renewAhead: undefined });
    const lives = 'lives: { apiserver: { validity: 100d }, etcd-peer: { validity: 90d, renewBefore: 45d } }';
    expect(livesOf('apiserver', lives)).toEqual({ validity: 100, refresh: 80, renewAhead: undefined });
    expect(livesOf('etcd-peer', lives)).toEqual({ validity: 90, refresh: 45, renewAhead: true });
    expect(livesOf('etcd-server', lives)).toEqual(livesOf('etcd-server'));
  });

  it('of one entry are enough to renew that ahead of time', () => {
    const ahead = aheadOf({ window: '02:00-05:00' }, 'lives: { apiserver: { renewBefore: 60d } }');
    expect(ahead).toMatchObject({ window: parseWindow('02:00-05:00') });
    expect(ahead?.beforeMs).toBeUndefined();
    expect(aheadOf({}, 'lives: { apiserver: { validity: 60d } }')).toBeUndefined();
  });

  it.each([
    [
      '{ apisrver: { validity: 60d } }',
      'lives.apisrver: must be a signer or a target of the inventory, got "apisrver"',
    ],
    ['{ apiserver: { validity: 59m } }', 'lives.apiserver.validity: must be at least 1h and at most 36500d, got 59m'],
    [
      '{ apiserver: { validity: 36501d } }',
      'lives.apiserver.validity: must be at least 1h and at most 36500d, got 36501d',
    ],
    ['{ apiserver: { renewBefore: 0s } }', 'lives.apiserver.renewBefore: must be more than 0s'],
    ['{ apiserver: { renewBefore: 350d } }', 'at most nine tenths of the validity 365d, got 350d'],
    ['{ apiserver: { validity: soon } }', 'lives.apiserver.validity: must be a duration'],
    ['{ apiserver: { life: 30d } }', 'lives.apiserver.life'],
    ['{ toString: { validity: 60d } }', 'lives.toString'],
  ])('%s is refused', (lives, wanted) => {
    expect(problem({}, `lives: ${lives}`)).toContain(wanted);
  });

  it('that end before a copy would follow are refused', () => {
    const text = problem({}, 'lives: { next-csr-signer: { validity: 4m } }').replace(/[^]*lives/, 'lives');
    expect(text).toContain('must be a signer or a target'); // not one of kubeadm
    const other = {
      ...input({}),
      file: {
        path: '/c',
        text: [
          ...head,
          'kubeconfig: /k',
          'parameters: { apiServerHostnames: [] }',
          'lives: { next-csr-signer: { validity: 4m } }',
        ]
          .join('\n')
          .replace('kubeadm', 'kubernetes'),
      },
    };
    expect(() => parseConfig(other)).toThrow(/lives.next-csr-signer: must be renewed later than after the 5m/);
  });
});
