// A setting of one entry that is wrong: one problem with its path and its line, as all others; and a run leaves out that entry's
// setting and nothing else.
import { describe, expect, it } from 'vitest';
import type { ConfigFlags } from '../../lib/config/flags.ts';
import { parseConfig, parseRunConfig, parseToolConfig } from '../../lib/config/load.ts';
import type { RegenConfig } from '../../lib/config/mode-settings.ts';
import type { ConfigInput } from '../../lib/config/sources.ts';
import { errorText, isCode } from '../../lib/errors.ts';
import { installedPresets } from '../../lib/inventory/preset.ts';

const day = 86_400_000;
const head = `apiVersion: kube-cert-recovery/v1alpha1
kind: Configuration
preset: kubeadm
modes: [regen]
once: true
`;

function input(text: string, flags: ConfigFlags = {}): ConfigInput {
  const file = { path: '/etc/recovery.yaml', text: `${head}${text}` };
  return { flags, file, env: {}, cwd: '/', hostName: 'node-1', presets: installedPresets };
}

function refusal(work: () => unknown): string {
  try {
    work();
  } catch (err) {
    expect(isCode(err, 'ConfigInvalid'), errorText(err)).toBe(true);
    return errorText(err);
  }
  return expect.unreachable();
}

const good = 'scheduler.conf: { pemPair: { certFile: /a.crt, keyFile: /a.key } }';
const place = '{ kubeconfig: /k, namespace: n, name: s }';

/** Each on line 6 and those after it, with the words of its problems. */
const wrong: readonly (readonly [name: string, text: string, problems: readonly string[]])[] = [
  [
    'a relative path',
    `regen:\n  sources:\n    apiserver:\n      pemPair: { certFile: x.crt, keyFile: /x.key }\n    ${good}\n`,
    ['line 9: regen.sources.apiserver.pemPair.certFile: must be an absolute path'],
  ],
  [
    'nothing that is named',
    `regen:\n  sources:\n    apiserver: { secret: {} }\n    ${good}\n`,
    ['kubeconfig', 'namespace', 'name'].map((key) => `line 8: regen.sources.apiserver.secret.${key}: is required`),
  ],
  [
    'no place at all',
    `regen:\n  sources:\n    apiserver: {}\n    ${good}\n`,
    ['line 8: regen.sources.apiserver: must have exactly one of'],
  ],
  [
    'two places',
    `regen:\n  sources:\n    apiserver: { command: [/p], secret: ${place} }\n    ${good}\n`,
    ['line 8: regen.sources.apiserver: must have exactly one of'],
  ],
  [
    'an unknown key',
    `regen:\n  sources:\n    apiserver: { comand: [/p] }\n    ${good}\n`,
    ['line 8: regen.sources.apiserver.comand: unknown key (did you mean "command"?)'],
  ],
  [
    'text in its place',
    `regen:\n  sources:\n    apiserver: nonsense\n    ${good}\n`,
    ['line 8: regen.sources.apiserver: must be a mapping'],
  ],
  [
    'a command without a path',
    `regen:\n  sources:\n    apiserver: { command: [get, it] }\n    ${good}\n`,
    ['line 8: regen.sources.apiserver.command[0]: must be an absolute path'],
  ],
  [
    'a name that is no entry',
    `regen:\n  sources:\n    api-server.conf: { command: [/p] }\n    ${good}\n`,
    ['line 8: regen.sources["api-server.conf"]: must be a target in files of this host'],
  ],
  [
    'a delivery without a name',
    `regen:\n  deliveries:\n    apiserver: { secret: { kubeconfig: /k, namespace: n } }\n  sources: { ${good} }\n`,
    ['line 8: regen.deliveries.apiserver.secret.name: is required'],
  ],
  [
    'a Machine without a kubeconfig',
    `regen:\n  machine: { namespace: n, name: m }\n  sources: { ${good} }\n`,
    ['line 7: regen.machine.kubeconfig: is required'],
  ],
  [
    'a life that is too short',
    `lives:\n  admin.conf: { validity: 1s }\n  apiserver: { validity: 90d }\nregen: { sources: { ${good} } }\n`,
    ['line 7: lives["admin.conf"].validity: must be at least'],
  ],
  [
    'a life of nothing',
    `lives:\n  admin: { validity: 90d }\n  apiserver: { validity: 90d }\nregen: { sources: { ${good} } }\n`,
    ['line 7: lives.admin: must be a signer or a target'],
  ],
  [
    'a life that is no duration',
    `lives:\n  admin.conf: { validity: long }\n  apiserver: { validity: 90d }\nregen: { sources: { ${good} } }\n`,
    ['line 7: lives["admin.conf"].validity: must be'],
  ],
];

const regenOf = ({ config }: ReturnType<typeof parseRunConfig>): RegenConfig => {
  const [mode] = config.modes;
  return mode?.mode === 'regen' ? mode : expect.unreachable();
};

describe.each(wrong)('a setting of one entry with %s', (_, text, problems) => {
  it('is refused by all that only looks: every problem with file, line and path', () => {
    const looks = [
      () => parseConfig(input(text)),
      () => parseToolConfig(input(text)),
      () => parseRunConfig(input(text, { dryRun: true })),
    ];
    for (const look of looks) {
      const said = refusal(look);
      for (const problem of problems) expect(said).toContain(`\n  /etc/recovery.yaml ${problem}`);
      expect(said.split('\n')).toHaveLength(1 + problems.length);
      expect(said).not.toMatch(/"code"|"path"/);
    }
  });

  it('is left out by a run, and nothing else', () => {
    const read = parseRunConfig(input(text));
    expect(read.leftOut).toHaveLength(problems.length);
    const { sources, deliveries, machine } = regenOf(read);
    expect(sources).toEqual({ 'scheduler.conf': { pemPair: { certFile: '/a.crt', keyFile: '/a.key' } } });
    expect([deliveries, machine]).toEqual([{}, undefined]);
    const lives = Object.keys(read.config.lives);
    expect(lives).toEqual(text.includes('lives:') ? ['apiserver'] : []);
    const validity = read.config.inventory.artefacts.flatMap((one) => (one.name === 'apiserver' ? [one] : []));
    expect(validity).toMatchObject([{ validity: text.includes('lives:') ? 90 * day : 365 * day }]);
  });
});

describe('when something is renewed ahead of time', () => {
  it.each([
    ['a window', 'window: 25:00-26:00', {}],
    ['a window, where a flag asks for it', 'window: 25:00-26:00', { renewBefore: '30d' }],
    ['a threshold', 'renewBefore: soon, window: "02:00-05:00"', {}],
    ['a threshold of CAs', 'caRenewBefore: soon', { renewBefore: '30d' }],
    ['whether it is only reported', 'renewBefore: 30d, warnOnly: "yes"', {}],
  ] as const)('%s that is wrong: nothing is, until it is right', (_, text, flags) => {
    const whole = `regen: { ${text} }\nlives: { apiserver: { validity: 90d, renewBefore: 45d } }\n`;
    expect(refusal(() => parseConfig(input(whole, flags)))).toMatch(/line 6: regen\.\w+: must be/);
    const read = parseRunConfig(input(whole, flags));
    expect(read.leftOut).toHaveLength(1);
    expect(regenOf(read).policy.ahead).toBeUndefined();
    expect(read.config.inventory.artefacts.find(({ name }) => name === 'apiserver')).toMatchObject({
      validity: 90 * day,
    });
  });
});

const files = 'certFile: /a, keyFile: /b, clientCaFile: /c';

describe('a setting without which a repair does nothing that was not asked for', () => {
  it.each([
    ['an unknown key', 'lives: { apiserver: { validity: 90d } }', 'lives'],
    ['an unknown key with a space', '"my key": 1', '["my key"]'],
    ['a misspelt one', 'sorces: {}', 'sorces'],
    ['a restart', 'restart: maybe', 'restart'],
    ['a signer that is none', 'waitForNodes: { none: [kubelet.conf] }', 'waitForNodes.none'],
    ['a node that is none', 'acceptLagging: ["A b"]', 'acceptLagging[0]'],
    ['a time of warnings', 'warnBefore: 30days', 'warnBefore'],
    ['a file of metrics that no collector reads', 'metricsFile: /x.txt', 'metricsFile'],
    ['one among the manifests', 'metricsFile: /etc/kubernetes/manifests/x.prom', 'metricsFile'],
    ['a program without a path', 'onRenewed: after-renewal', 'onRenewed'],
  ])('%s is left out by a run, and the rest stays', (_, text, key) => {
    const whole = `regen: { ${text}, backupDir: /backups, renewBefore: 30d }\n`;
    expect(refusal(() => parseConfig(input(whole)))).toContain(`regen${key.startsWith('[') ? '' : '.'}${key}: `);
    expect(refusal(() => parseRunConfig(input(whole, { dryRun: true })))).toContain('1 problem');
    const read = parseRunConfig(input(whole));
    expect(read.leftOut).toHaveLength(1);
    const { backupDir, restart, policy, warnBefore, metricsFile, onRenewed } = regenOf(read);
    expect([backupDir, restart, policy.ahead?.beforeMs]).toEqual(['/backups', false, 30 * day]);
    expect([warnBefore, metricsFile, onRenewed]).toEqual([30 * day, undefined, undefined]);
  });

  it.each([
    ['without its files', 'metrics: { bindAddress: "127.0.0.1:9793" }', 3],
    ['with an unknown key', `metrics: { bindAddress: "127.0.0.1:9793", ${files}, cert: /a }`, 1],
    ['of text', 'metrics: "on"', 1],
  ])('metrics over TLS %s are left out, and the rest stays', (_, text, count) => {
    const whole = `${text}\nregen: { backupDir: /backups }\n`;
    expect(refusal(() => parseConfig(input(whole)))).toContain('line 6: metrics');
    const read = parseRunConfig(input(whole));
    expect(read.leftOut).toHaveLength(count);
    expect([read.config.metrics, regenOf(read).backupDir]).toEqual([undefined, '/backups']);
  });

  it('a key that may be meant for a renewal ahead of time: nothing is, until it is right', () => {
    const read = parseRunConfig(input('regen: { renewBefor: 30d, window: "02:00-05:00" }\n'));
    expect(read.leftOut.map(({ path }) => path)).toContain('regen.renewBefor');
    expect(regenOf(read).policy.ahead).toBeUndefined();
  });
});

describe('what concerns more than one entry is refused by a run, too', () => {
  it.each([
    ['a directory', 'regen: { backupDir: here }'],
    ['a name of the host', 'parameters: { nodeName: ["a b"] }'],
    ['accepted CAs', 'regen: { acceptCa: ["SHA256:12"] }'],
    ['what becomes of a CA', 'regen: { caRenewal: report }'],
    ['a key that may be meant for a directory', 'regen: { backupdir: /backups }'],
    ['a part of such a key', 'regen: { backup: /backups }'],
    ['more than such a key', 'regen: { backupDirectory: /backups }'],
    ['a key that may be meant for accepted CAs', 'regen: { acceptCas: [] }'],
    ['an unknown key elsewhere', 'lifes: {}'],
    ['what is wrong beside an entry', 'regen: { sources: { apiserver: {} }, locations: some }'],
  ])('%s', (_, text) => {
    expect(refusal(() => parseRunConfig(input(text)))).toContain('Cannot use the configuration');
  });

  it('and a flag, which somebody has just typed', () => {
    expect(refusal(() => parseRunConfig(input('', { renewBefore: 'soon' })))).toContain('--renew-before: must be');
  });
});

it('of several entries each is left out', () => {
  const text = `regen:\n  sources: { apiserver: {}, etcd-peer: nonsense, ${good} }\n  machine: { name: m }\n`;
  const read = parseRunConfig(input(text));
  expect(Object.keys(regenOf(read).sources)).toEqual(['scheduler.conf']);
  expect(read.leftOut).toHaveLength(4);
});
