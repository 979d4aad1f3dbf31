import { describe, expect, it } from 'vitest';
import { parseConfig, parseToolConfig } from '../../lib/config/load.ts';
import type { ConfigInput } from '../../lib/config/sources.ts';
import type { ConfigFlags } from '../../lib/config/flags.ts';
import { RecoveryError } from '../../lib/errors.ts';
import { installedPresets } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';

const head = 'apiVersion: kube-cert-recovery/v1alpha1\nkind: Configuration\n';
const file = (...lines: readonly string[]): string => head + lines.map((line) => `${line}\n`).join('');

interface Given {
  readonly flags?: ConfigFlags;
  readonly text?: string;
  readonly env?: Readonly<Record<string, string>>;
}

function input({ flags = {}, text, env = {} }: Given): ConfigInput {
  const source = text === undefined ? {} : { file: { path: '/etc/recovery.yaml', text } };
  return { flags, ...source, env, cwd: '/home/admin', presets: installedPresets };
}

function problemsOf(parse: () => unknown): string[] {
  try {
    parse();
  } catch (err) {
    expect(err).toBeInstanceOf(RecoveryError);
    expect(err).toMatchObject({ code: 'ConfigInvalid' });
    const [headline = '', ...lines] = (err as Error).message.split('\n');
    expect(headline).toMatch(/^Cannot use the configuration: /);
    return lines.map((line) => line.trim());
  }
  return [];
}

const syncer: ConfigFlags = {
  mode: 'syncer',
  preset: 'openshift-kube-scheduler',
  kubeconfig: '/k',
  destinationDir: '/certs',
};
const regen: ConfigFlags = {
  mode: 'regen',
  preset: 'kubernetes',
  parameter: ['apiServerHostnames=a,b'],
  kubeconfig: '/k',
};

describe('parseConfig() of a kubeadm machine', () => {
  const flags: ConfigFlags = { mode: 'regen', preset: 'kubeadm', once: true };

  it('needs neither a kubeconfig nor anything else', () => {
    const { modes, environment, inventory } = parseConfig(input({ flags }));
    expect(modes).toEqual([expect.objectContaining({ mode: 'regen', locations: 'all' })]);
    expect(modes[0]?.kubeconfig).toBeUndefined();
    expect(environment).toEqual({ parameters: {}, directories: {} });
    expect(inventory.discover).toBe('kubeadm');
  });

  it('misses nothing that may be found on the machine, and refuses what is given wrongly', () => {
    const own = (discover: string): string => `apiVersion: kube-cert-recovery/v1alpha1
kind: Configuration
modes: [regen]
parameters: { node: [a_b] }
inventory:
${discover}  parameters: { node: { description: this node }, more: { description: more } }
  artefacts:
    - kind: signer
      name: ca
      location: { pemPair: { certFile: /ca.crt, keyFile: /ca.key } }
      validity: 2d
      refresh: 1d
    - kind: target
      name: serving
      location: { pemPair: { certFile: /a.crt, keyFile: /a.key } }
      issuer: ca
      usage: serving
      hostnames: [parameter: node, parameter: more]
      validity: 2d
      refresh: 1d
`;
    const wrong = expect.stringContaining('parameters.node[0]: must be a DNS name or an IP address') as unknown;
    expect(problemsOf(() => parseConfig(input({ text: own('  discover: kubeadm\n') })))).toEqual([wrong]);
    expect(problemsOf(() => parseConfig(input({ text: own('') })))).toEqual(
      expect.arrayContaining([wrong, expect.stringContaining('parameters.more: is required') as unknown]),
    );
  });
});

describe('parseConfig()', () => {
  it('gives a syncer its own fields and nothing that regen needs', () => {
    expect(parseConfig(input({ flags: syncer }))).toMatchObject({
      inventory: { name: 'openshift-kube-scheduler' },
      recoveryServerName: 'localhost-recovery',
      log: { level: 'info' },
      once: false,
      dryRun: false,
      identity: {},
    });
    const { modes } = parseConfig(input({ flags: syncer }));
    expect(modes).toEqual([{ mode: 'syncer', kubeconfig: '/k', destinationDir: '/certs' }]);
  });

  it('gives regen its policy, with defaults', () => {
    const { modes, environment } = parseConfig(input({ flags: regen }));
    expect(modes).toEqual([
      {
        mode: 'regen',
        locations: 'all',
        restart: false,
        kubeconfig: '/k',
        backupDir: '/var/lib/kube-cert-recovery/backups',
        lockDir: '/run/kube-cert-recovery',
        sources: {},
        deliveries: {},
        clockSynchronised: 'auto',
        warnBefore: 30 * 86_400_000,
        policy: { kind: 'BeforeExpiry', graceMs: 0, settleMs: 1000, caRenewal: 'SameKey' },
      },
    ]);
    expect(environment).toEqual({ parameters: { apiServerHostnames: ['a', 'b'] }, directories: {} });
  });

  it('reads every field of the file', () => {
    const text = file(
      'modes: [regen, syncer]',
      'preset: kubernetes',
      'namespace: mine',
      'parameters: { apiServerHostnames: [api.example.com], serviceIP: [10.43.0.1] }',
      'directories: { pkiDir: /srv/pki }',
      'kubeconfig: /etc/kubeconfig',
      'regen: { kubeconfig: /etc/regen, backupDir: /b, lockDir: /l, clockSynchronised: true, caRenewal: Report }',
      'syncer: { kubeconfig: /etc/syncer, destinationDir: /certs }',
      'policy: { kind: BeforeExpiry, grace: 2m, settle: 3s }',
      'keyAlgorithm: ecdsaP384',
      'tlsServerNameOverride: override',
      'recoveryServerName: recovery',
      'apiServerAddress: "[::1]:6443"',
      'healthProbeBindAddress: ":8081"',
      'log: { level: debug, format: text }',
      'once: true',
      'dryRun: true',
    );
    const { inventory, ...config } = parseConfig(input({ text, env: { POD_NAME: 'p' } }));
    expect(config).toEqual({
      modes: [
        {
          mode: 'regen',
          locations: 'all',
          restart: false,
          kubeconfig: '/etc/regen',
          backupDir: '/b',
          warnBefore: 30 * 86_400_000,
          lockDir: '/l',
          sources: {},
          deliveries: {},
          clockSynchronised: true,
          policy: { kind: 'BeforeExpiry', graceMs: 120_000, settleMs: 3000, caRenewal: 'Report' },
          keyAlgorithm: { name: 'ECDSA', curve: 'P-384' },
        },
        { mode: 'syncer', kubeconfig: '/etc/syncer', destinationDir: '/certs' },
      ],
      environment: {
        parameters: { apiServerHostnames: ['api.example.com'], serviceIP: ['10.43.0.1'] },
        directories: { pkiDir: '/srv/pki' },
      },
      tlsServerNameOverride: 'override',
      lives: {},
      namespace: 'mine',
      recoveryServerName: 'recovery',
      apiServerAddress: { host: '::1', port: 6443 },
      healthProbeBindAddress: { host: '', port: 8081 },
      log: { level: 'debug', format: 'text' },
      once: true,
      dryRun: true,
      identity: { podName: 'p' },
    });
    expect(inventory.artefacts[0]?.location).toMatchObject({ namespace: 'mine' });
  });

  it('lets flags beat the file, field by field', () => {
    const text = file(
      'modes: [regen]',
      'preset: kubernetes',
      'namespace: mine',
      'parameters: { apiServerHostnames: [file], serviceIP: [10.43.0.1] }',
      'log: { level: debug, format: text }',
    );
    const flags: ConfigFlags = {
      ...syncer,
      namespace: 'theirs',
      logLevel: 'warn',
      healthProbeBindAddress: '0',
    };
    const wrongParameters = problemsOf(() => parseConfig(input({ flags, text })));
    expect(wrongParameters).toHaveLength(2); // the preset of the flag declares none of the file's parameters
    const config = parseConfig(
      input({ flags: { ...flags, preset: 'kubernetes', parameter: ['serviceIP=10.0.0.1'] }, text }),
    );
    expect(config).toMatchObject({
      modes: [{ mode: 'syncer' }],
      environment: { parameters: { apiServerHostnames: ['file'], serviceIP: ['10.0.0.1'] } },
      log: { level: 'warn', format: 'text' },
    });
    expect(config.healthProbeBindAddress).toBeUndefined();
    expect(config.inventory.artefacts[0]?.location).toMatchObject({ namespace: 'theirs' });
  });

  it('sees relative paths of the command line from the working directory', () => {
    const { modes } = parseConfig(input({ flags: { ...syncer, kubeconfig: 'k', destinationDir: '../certs' } }));
    expect(modes).toEqual([{ mode: 'syncer', kubeconfig: '/home/admin/k', destinationDir: '/home/certs' }]);
  });

  it('takes components for the syncer, several times and with commas, and from the file', () => {
    const syncing = { mode: 'syncer', preset: 'kubernetes', kubeconfig: '/k', destinationDir: '/d' };
    const wanted = ['kube-apiserver', 'kubelet', 'admin'];
    const typed = parseConfig(input({ flags: { ...syncing, component: ['kube-apiserver,kubelet', 'admin'] } }));
    expect(typed.modes).toEqual([expect.objectContaining({ components: wanted })]);
    const text = file(`syncer: { components: [${wanted.join(', ')}] }`);
    expect(parseConfig(input({ flags: syncing, text })).modes).toEqual([
      expect.objectContaining({ components: wanted }),
    ]);
  });

  it.each([
    ['2', 'info'],
    ['4', 'debug'],
    ['error', 'error'],
  ])('takes -v %s for %s', (logLevel, level) => {
    expect(parseConfig(input({ flags: { ...syncer, logLevel } })).log.level).toBe(level);
  });

  it('does not ask a syncer for parameters, and does ask regen', () => {
    const both: ConfigFlags = { ...syncer, preset: 'kubernetes' };
    const { inventory, environment } = parseConfig(input({ flags: both }));
    expect(resolve(inventory, environment).artefacts).toHaveLength(inventory.artefacts.length);
    const problems = problemsOf(() => parseConfig(input({ flags: { ...both, mode: 'syncer,regen' } })));
    expect(problems).toEqual([expect.stringMatching(/^parameters\.apiServerHostnames: is required: /)]);
  });

  it('asks for no kubeconfig where everything lies on this host', () => {
    const text = file(
      'modes: [regen]',
      'inventory:',
      '  artefacts:',
      '    - { kind: signer, name: s, location: { pemPair: { certFile: /a.crt, keyFile: /a.key } }, validity: 2d, refresh: 1d }',
    );
    expect(parseConfig(input({ text })).modes).toMatchObject([{ mode: 'regen' }]);
  });
});

describe('credentials', () => {
  const both: ConfigFlags = { ...regen, mode: 'regen,syncer', destinationDir: '/certs' };
  const { kubeconfig: _, ...none } = both;
  const kubeconfigs = (given: Given): unknown => parseConfig(input(given)).modes.map(({ kubeconfig }) => kubeconfig);

  it.each<readonly [title: string, given: Given, regenHas: string, syncerHas: string]>([
    ['--kubeconfig is for both', { flags: both }, '/k', '/k'],
    ['--kubeconfig beats KUBECONFIG', { flags: both, env: { KUBECONFIG: '/env' } }, '/k', '/k'],
    ['KUBECONFIG is for both', { flags: none, env: { KUBECONFIG: '/env' } }, '/env', '/env'],
    [
      'kubeconfig of the file beats KUBECONFIG',
      { flags: none, text: file('kubeconfig: /f'), env: { KUBECONFIG: '/env' } },
      '/f',
      '/f',
    ],
    ['--kubeconfig beats that of the file', { flags: both, text: file('kubeconfig: /f') }, '/k', '/k'],
    ['the mode that has its own keeps it', { flags: both, text: file('regen: { kubeconfig: /r }') }, '/r', '/k'],
    [
      '--regen-kubeconfig beats that of the file',
      { flags: { ...both, regenKubeconfig: '/rf' }, text: file('regen: { kubeconfig: /r }') },
      '/rf',
      '/k',
    ],
    ['--syncer-kubeconfig', { flags: { ...both, syncerKubeconfig: '/s' } }, '/k', '/s'],
    [
      'a broken KUBECONFIG does not matter where nobody needs it',
      { flags: both, env: { KUBECONFIG: 'a:b' } },
      '/k',
      '/k',
    ],
  ])('%s', (_title, given, regenHas, syncerHas) => {
    expect(kubeconfigs(given)).toEqual([regenHas, syncerHas]);
  });
});

const bad: readonly (readonly [title: string, given: Given, problems: readonly string[]])[] = [
  [
    'nothing at all',
    {},
    [
      '--mode: is required: regen, syncer, approver, or several',
      '--preset: is required: one of eks-anywhere, eks-anywhere-bottlerocket, etcdadm, kubeadm, kubeadm-worker, kubernetes, ',
    ],
  ],
  [
    'an unknown mode',
    { flags: { ...syncer, mode: 'syncr' } },
    ['--mode: must be one of regen, syncer, approver, got "syncr" (did you mean "syncer"?)'],
  ],
  ['an empty mode', { flags: { ...syncer, mode: '' } }, ['--mode: must be a list of at least 1, got []']],
  [
    'an unknown preset',
    { flags: { ...syncer, preset: 'talos' } },
    [
      '--preset: must be a known preset, got "talos" (known: eks-anywhere, eks-anywhere-bottlerocket, etcdadm, kubeadm, kubeadm-worker, kubernetes, ',
    ],
  ],
  [
    'a daemon for a machine that obtains its certificates',
    { flags: { mode: 'regen', preset: 'kubeadm-worker' } },
    ['--once: is required, or --restart: kubeadm-worker obtains certificates from the cluster, which single runs do'],
  ],
  ['a preset that is a path', { flags: { ...syncer, preset: '../x' } }, ['--preset: must be a Kubernetes object name']],
  [
    'a syncer without a place to write',
    { flags: { mode: 'syncer', preset: 'kubernetes', kubeconfig: '/k' } },
    ['--destination-dir: is required in mode syncer'],
  ],
  [
    'no credential',
    { flags: { mode: 'regen,syncer', preset: 'kubernetes', parameter: ['apiServerHostnames='], destinationDir: '/d' } },
    ['--kubeconfig: is required in mode regen', '--kubeconfig: is required in mode syncer'],
  ],
  [
    'KUBECONFIG of several files',
    { flags: { mode: 'syncer', preset: 'kubernetes', destinationDir: '/d' }, env: { KUBECONFIG: '/a:/b' } },
    ['env KUBECONFIG: must be the absolute path of one file, got "/a:/b"'],
  ],
  [
    'a credential that nobody would use',
    { flags: { ...syncer, syncerKubeconfig: '/s' } },
    ['--kubeconfig: must be left out: every mode has a credential of its own'],
  ],
  [
    'a credential that the file makes useless',
    { flags: syncer, text: file('syncer: { kubeconfig: /s }') },
    [
      '--kubeconfig: must be left out: every mode has a credential of its own (syncer.kubeconfig of the file, which --syncer-kubeconfig replaces)',
    ],
  ],
  [
    'flags of a mode that does not run',
    { flags: { ...regen, destinationDir: '/d', component: ['kubelet'], syncerKubeconfig: '/s' } },
    [
      '--destination-dir: must be left out without mode syncer',
      '--component: must be left out without mode syncer',
      '--syncer-kubeconfig: must be left out without mode syncer',
    ],
  ],
  [
    'a component that reads nothing of the inventory',
    { flags: { ...syncer, preset: 'kubernetes', destinationDir: '/d', component: ['kube-shceduler'] } },
    [
      '--component: must name components that read artefacts of the inventory (admin, etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet), got "kube-shceduler" (did you mean "kube-scheduler"?)',
    ],
  ],
  [
    'a component where the inventory names no reader',
    {
      flags: { mode: 'syncer', kubeconfig: '/k', destinationDir: '/d', component: ['kube-scheduler'] },
      text: file(
        'inventory: { artefacts: [{ kind: opaque, name: a, location: { secret: a, namespace: n }, published: required }] }',
      ),
    },
    ['--component: must be left out: the inventory does not say who reads what'],
  ],
  [
    '--regen-kubeconfig without regen',
    { flags: { ...syncer, regenKubeconfig: '/s' } },
    ['--regen-kubeconfig: must be left out without mode regen'],
  ],
  [
    '--preset beside an inventory in the file',
    {
      flags: syncer,
      text: file('inventory:', '  artefacts: [{ kind: opaque, name: a, location: { secret: a, namespace: b } }]'),
    },
    ['--preset: must be left out: /etc/recovery.yaml has an inventory of its own'],
  ],
  [
    'preset beside an inventory in the file',
    {
      flags: { ...syncer, preset: undefined as never },
      text: file(
        'preset: kubernetes',
        'inventory:',
        '  artefacts: [{ kind: opaque, name: a, location: { secret: a, namespace: b } }]',
      ),
    },
    ['preset: must be left out: it has an inventory of its own'],
  ],
  ['a namespace that is none', { flags: { ...syncer, namespace: 'A.b' } }, ['--namespace: must be a namespace']],
  [
    'parameters that are no assignments',
    { flags: { ...regen, parameter: ['a', '=b', 'serviceIP=10.0.0.1', 'serviceIP=10.0.0.2'] } },
    [
      '--parameter: must be name=value[,value...], got "a"',
      '--parameter: must be name=value[,value...], got "=b"',
      '--parameter: must give "serviceIP" once',
      'parameters.apiServerHostnames: is required',
    ],
  ],
  [
    'an undeclared parameter',
    { flags: { ...regen, parameter: ['apiServerHostnames=a', 'serviceIp=10.0.0.1'] } },
    ['parameters.serviceIp: must be declared by the inventory (did you mean "serviceIP"?)'],
  ],
  [
    'a parameter that is no host name',
    { flags: { ...regen, parameter: ['apiServerHostnames=a_b'] } },
    ['parameters.apiServerHostnames[0]: must be a DNS name or an IP address, got "a_b"'],
  ],
  [
    'a port out of range',
    { flags: { ...syncer, healthProbeBindAddress: ':65536' } },
    ['--health-probe-bind-address: must be an address such as "127.0.0.1:8081"'],
  ],
  [
    'an address without a host',
    { flags: { ...syncer, apiServerAddress: ':6443' } },
    ['--api-server-address: must be an address such as "127.0.0.1:6443", got ":6443"'],
  ],
  [
    'a log level out of range',
    { flags: { ...syncer, logLevel: '11' } },
    ['--log-level: must be one of debug, info, warn, error, got "11"'],
  ],
  [
    'a log format',
    { flags: { ...syncer, logFormat: 'jsn' } },
    ['--log-format: must be one of json, text, got "jsn" (did you mean "json"?)'],
  ],
  [
    'a grace out of range',
    { flags: syncer, text: file('policy: { grace: 25h }') },
    ['/etc/recovery.yaml line 3: policy.grace: must be a duration of at most 24h, got "25h"'],
  ],
  [
    'a policy kind',
    { flags: syncer, text: file('policy: { kind: Always }') },
    ['policy.kind: must be one of OnlyWhenExpired, BeforeExpiry, got "Always"'],
  ],
  [
    'a key algorithm',
    { flags: syncer, text: file('keyAlgorithm: rsa1024') },
    ['keyAlgorithm: must be one of rsa2048, rsa4096, ecdsaP256, ecdsaP384, got "rsa1024"'],
  ],
  [
    'a relative path in the file',
    { flags: syncer, text: file('syncer: { destinationDir: certs }') },
    ['syncer.destinationDir: must be an absolute path without "..", got "certs"'],
  ],
  [
    'another kind of file',
    { flags: syncer, text: head.replace('Configuration', 'Inventory') },
    ['line 2: kind: must be "Configuration", got "Inventory"'],
  ],
  ['an empty file', { flags: syncer, text: '' }, ['/etc/recovery.yaml: must be a mapping, got null']],
  ['broken YAML', { flags: syncer, text: `${head}log: {level: info\n` }, ['/etc/recovery.yaml line 4: ']],
];

describe('parseConfig() refuses', () => {
  it.each(bad)('%s', (_title, { flags = {}, ...rest }, problems) => {
    const given = Object.fromEntries(Object.entries(flags).filter(([, value]) => value !== undefined)) as ConfigFlags;
    const found = problemsOf(() => parseConfig(input({ flags: given, ...rest })));
    expect(found).toEqual(problems.map((problem) => expect.stringContaining(problem) as string));
  });

  it('all that is wrong with flags, file, environment and inventory, at once', () => {
    const text = file(
      'mods: [regen]',
      'log: { lvl: info }',
      'inventory:',
      '  artefact: []',
      '  artefacts:',
      '    - { kind: signer, name: s, location: { secret: s }, validity: 1d, refresh: 2d }',
    );
    const flags: ConfigFlags = { mode: 'regn', logFormat: 'xml' };
    expect(problemsOf(() => parseConfig(input({ flags, text, env: { KUBECONFIG: 'a' } })))).toEqual([
      '--mode: must be one of regen, syncer, approver, got "regn" (did you mean "regen"?)',
      '--log-format: must be one of json, text, got "xml"',
      '/etc/recovery.yaml line 3: mods: unknown key (did you mean "modes"?)',
      '/etc/recovery.yaml line 4: log.lvl: unknown key (did you mean "level"?)',
      '/etc/recovery.yaml line 6: inventory.artefact: unknown key (did you mean "artefacts"?)',
      '/etc/recovery.yaml line 8: inventory.artefacts[s].location.namespace: is required: the namespace of the object, here or for the whole inventory',
      'env KUBECONFIG: must be the absolute path of one file, got "a"',
    ]);
  });
});

describe('parseToolConfig()', () => {
  it('tells what the command itself found wrong with the rest', () => {
    const found = { path: '--at', kind: 'invalid' as const, message: 'must be a date' };
    const problems = problemsOf(() =>
      parseToolConfig({ ...input({ flags: { logFormat: 'xml' } }), problems: [found] }),
    );
    expect(problems.map((line) => line.split(':')[0])).toEqual(['--at', '--log-format', '--preset']);
  });
});
