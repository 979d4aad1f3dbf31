// Messages tell an administrator what to write into the configuration file: the file must take it.
import { describe, expect, it } from 'vitest';
import { parseConfig } from '../../lib/config/load.ts';
import { installedPresets } from '../../lib/inventory/preset.ts';
import { judgeClock, type ClockInput } from '../../lib/plan/clock-rules.ts';
import type { ArtefactFacts } from '../../lib/plan/facts.ts';
import { toYaml } from '../../lib/yaml.ts';
import { certificate, chain, present } from '../support/facts.ts';

const clock = { builtAt: new Date('2026-01-01T00:00:00Z'), synchronised: false };
const now = new Date('2026-06-01T00:00:00Z');
const early = (print: string): ArtefactFacts => present(certificate(print, [10, 20]));

/** `(regen.x: true)` of a message as what it says. */
function advice(message: string): unknown {
  const [, path = '', value = ''] = /\(([\w.]+): (\w+)\)/.exec(message) ?? [];
  return path.split('.').reduceRight<unknown>((inner, key) => ({ [key]: inner }), JSON.parse(value));
}

describe('judgeClock()', () => {
  const rows: readonly (readonly [string, Partial<ClockInput>])[] = [
    ['a clock long after the build', { now: new Date('2040-01-01T00:00:00Z') }],
    [
      'certificates from the future',
      {
        facts: new Map([
          ['signer', early('a')],
          ['target', early('b')],
        ]),
      },
    ],
  ];
  it.each(rows)('advises what the configuration takes, for %s', (_what, input) => {
    const verdict = judgeClock({ resolved: chain, facts: new Map(), clock, now, ...input });
    const settings = {
      apiVersion: 'kube-cert-recovery/v1alpha1',
      kind: 'Configuration',
      modes: ['regen'],
      preset: 'kubernetes',
      kubeconfig: '/k',
      parameters: { apiServerHostnames: ['a'] },
      ...(advice(verdict?.message ?? '') as object),
    };
    const file = { path: '/c.yaml', text: toYaml(settings) };
    const { modes } = parseConfig({ flags: {}, file, env: {}, cwd: '/', presets: installedPresets });
    expect(modes).toMatchObject([{ mode: 'regen', clockSynchronised: true }]);
  });
});
