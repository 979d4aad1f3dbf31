// Holds the README and the reference against the code: no table lists what is not there, and nothing that is there is
// left out.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { exitCodes, exitOfError } from '../../cmd/exit-codes.ts';
import { systemClock } from '../../lib/clock.ts';
import { flagRows } from '../../lib/config/flags.ts';
import { jsonSchemas } from '../../lib/config/schema.ts';
import type { ConfigInput } from '../../lib/config/sources.ts';
import { parseConfig, parseToolConfig } from '../../lib/config/load.ts';
import { errorCodes, RecoveryError } from '../../lib/errors.ts';
import { defaultNamespace } from '../../lib/install/accounts.ts';
import { installManifests } from '../../lib/install/rbac.ts';
import { installedPresets, loadPreset } from '../../lib/inventory/preset.ts';
import { createMetrics, gauges } from '../../lib/metrics.ts';
import { renderStatus } from '../../lib/status/print.ts';
import type { StatusReport, StatusRow } from '../../lib/status/report.ts';
import { parseYaml } from '../../lib/yaml.ts';
import { withFlagTables } from '../../scripts/flags.ts';
import { blocks, codes, firstCode, firstCodes, page, root, section, tables, unionMembers } from './markdown.ts';

const readme = page('README.md');
const reference = page('docs/reference.md');
const sorted = (names: Iterable<string>): string[] => [...new Set(names)].toSorted();

function sources(directory: string): string {
  const files = readdirSync(join(root, directory), { recursive: true, encoding: 'utf8' });
  return files
    .filter((file) => file.endsWith('.ts'))
    .map((file) => readFileSync(join(root, directory, file), 'utf8'))
    .join('\n');
}
const code = sources('lib') + sources('cmd');

it('says for which control planes this is not', () => {
  const text = readme.replaceAll(/\s+/g, ' ');
  const sentence = /Not for: [^*]*/.exec(text)?.[0] ?? '';
  const others = ['k3s', 'RKE2', 'Talos', 'EKS', 'GKE', 'AKS', 'Docker Desktop', 'MicroK8s', 'k0s', 'kops', 'RKE1'];
  for (const name of [...others, 'kubeasz', 'Charmed Kubernetes', 'the hard way']) expect(sentence).toContain(name);
});

describe('exit codes', () => {
  const rows = (tables(section(readme, 'Exit codes'))[0] ?? []).reduce<string[][]>((all, row) => {
    const last = all.at(-1);
    if (row[0] === '' && last !== undefined)
      last.push(...row); // a row that goes on
    else all.push([...row]);
    return all;
  }, []);

  it('are those of cmd/exit-codes.ts, by number and name', () => {
    const documented = rows.map(([exit, name = '']) => [codes(name)[0], Number(exit)]);
    expect(Object.fromEntries(documented)).toEqual(exitCodes);
  });

  it('stand beside every error code that ends with them, and beside no other', () => {
    const documented = rows.flatMap(([exit, , , ...rest]) =>
      codes(rest.join(' '))
        .filter((name) => /^[A-Z]/.test(name))
        .map((name) => [name, Number(exit)]),
    );
    const wanted = errorCodes.map((name) => [name, exitOfError(new RecoveryError(name, ''))]);
    expect(Object.fromEntries(documented)).toEqual(Object.fromEntries(wanted));
    expect(documented).toHaveLength(wanted.length);
  });

  it('are listed nowhere else', () => {
    expect(`${readme}${reference}`.match(/^\| exit/gm)).toHaveLength(1);
  });
});

describe('log events', () => {
  const documented = tables(section(reference, 'Log events'))[0] ?? [];
  const declared = unionMembers(page('lib/log.ts'), 'LogEvent');

  it('are exactly those of lib/log.ts', () => {
    expect(documented.map(([event = '']) => codes(event)[0])).toHaveLength(declared.length);
    expect(sorted(firstCodes(section(reference, 'Log events')))).toEqual(sorted(declared));
  });

  it('are all written somewhere', () => {
    const elsewhere = code.replace(page('lib/log.ts'), '');
    expect(declared.filter((event) => !elsewhere.includes(`'${event}'`))).toEqual([]);
  });

  it('have the levels at which they are written', () => {
    const calls = [...code.matchAll(/\.(debug|info|warn|error)\(\s*'([a-z]+\.[a-zA-Z]+)'/gi)];
    for (const [, level = '', event = ''] of calls) {
      const row = documented.find(([name]) => name === `\`${event}\``);
      expect(row?.[1]?.split(', '), event).toContain(level);
    }
    expect(calls.length).toBeGreaterThan(30);
  });
});

it('Kubernetes Events are those of lib/kube/events.ts', () => {
  expect(sorted(firstCodes(section(reference, 'Kubernetes Events')))).toEqual(
    sorted(unionMembers(page('lib/kube/events.ts'), 'EventReason')),
  );
});

it('dependencies are those of package.json, each with one line', () => {
  const manifest = JSON.parse(page('package.json')) as Record<string, Record<string, string>>;
  const { dependencies, devDependencies, optionalDependencies } = manifest;
  const rows = tables(section(readme, 'Dependencies'))[0] ?? [];
  expect(rows.map(([name]) => firstCode(name)).toSorted()).toEqual(
    Object.keys({ ...dependencies, ...devDependencies }).toSorted(),
  );
  for (const [name, why = ''] of rows) expect(why.length, name).toBeGreaterThan(5);
  for (const name of Object.keys(optionalDependencies ?? {})) expect(section(readme, 'Dependencies')).toContain(name);
  expect(section(readme, 'Dependencies')).not.toMatch(/\d+\.\d+/); // a version here would be wrong soon
});

describe('flags', () => {
  it('are those of the table (run scripts/flags.ts)', async () => {
    expect(await withFlagTables(reference)).toBe(reference);
    expect(tables(section(reference, 'Flags')).flat()).toHaveLength(flagRows.length + 2);
  });
  it('stand beside fields that the file has', () => {
    const fields = flagRows.flatMap(({ field = [] }) => field);
    expect(fields.filter((field) => !schemaFields().includes(field))).toEqual([]);
    expect(fields.length).toBeGreaterThan(20);
  });
});

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
}

/** Every field of the configuration file by its path; maps and the inventory end there. */
function schemaFields(): string[] {
  const { properties = {} } = JSON.parse(jsonSchemas().config) as Schema;
  return Object.entries(properties).flatMap(([name, { properties: inner }]) =>
    inner === undefined || name === 'inventory'
      ? [name]
      : [name, ...Object.keys(inner).map((field) => `${name}.${field}`)],
  );
}

const input = (text: string): ConfigInput => ({
  flags: {},
  file: { path: '/etc/kubernetes/config.yaml', text },
  env: {},
  cwd: '/',
  presets: installedPresets,
});

describe('the configuration file', () => {
  const [example] = blocks(section(reference, 'Configuration file'));

  it('is one that the parser accepts, for modes and for commands', () => {
    expect(parseConfig(input(example?.text ?? '')).modes.map(({ mode }) => mode)).toEqual([
      'regen',
      'syncer',
      'approver',
    ]);
    expect(parseToolConfig(input(example?.text ?? '')).inventory.name).toBe('kubernetes');
  });

  it('has every field that there is', () => {
    const value = parseYaml(example?.text ?? '') as Readonly<Record<string, object>>;
    const groups = ['regen', 'syncer', 'approver', 'policy', 'log', 'metrics'];
    const present = Object.entries(value).flatMap(([name, group]) =>
      groups.includes(name) ? [name, ...Object.keys(group).map((field) => `${name}.${field}`)] : [name],
    );
    expect(present.toSorted()).toEqual(
      schemaFields()
        .filter((field) => field !== 'inventory') // in place of the preset
        .toSorted(),
    );
  });

  it('shows the defaults: without them the same is configured', () => {
    const short = (example?.text ?? '').replaceAll(
      /^ *(?:locations|restart: false|shortBackOff|backupDir|lockDir|warnBefore|clockSynchronised|kind: BeforeExpiry|grace|settle|level|once|dryRun|namespace|recoveryServerName|serviceIP|etcdHostnames|pkiDir|nodeCertificate|longestLife|requesters|expectedNodes|bootstrapNamespace|directories|policy)\b.*\n/gm,
      '',
    );
    expect(short.length).toBeLessThan((example?.text ?? '').length - 600);
    const { environment, namespace, ...all } = parseConfig(input(example?.text ?? ''));
    const { environment: fewer, namespace: none, ...defaults } = parseConfig(input(short));
    expect(defaults).toEqual(all);
    expect([namespace, none]).toEqual([defaultNamespace, undefined]);
    const { parameters, directories = {} } = loadPreset('kubernetes');
    for (const [name, { default: wanted }] of Object.entries({ ...parameters, ...directories })) {
      if (wanted === undefined) expect(fewer.parameters, name).toHaveProperty(name);
      else expect({ ...environment.parameters, ...environment.directories }[name], name).toEqual(wanted);
    }
  });
});

it('names the ServiceAccounts and Roles that init makes, and what is not granted by name', () => {
  const text = section(page('docs/api.md'), 'Credentials and RBAC');
  const manifests = installManifests({
    artefacts: loadPreset('kubernetes').artefacts,
    namespace: 'kube-cert-recovery',
  });
  const named = (kind: string): string[] => manifests.flatMap((one) => (one.kind === kind ? [one.metadata.name] : []));
  expect(sorted(firstCodes(text))).toEqual(sorted(named('ServiceAccount')));
  interface Rule {
    readonly resources: readonly string[];
    readonly resourceNames?: readonly string[];
    readonly verbs: readonly string[];
  }
  const rules = manifests.flatMap((manifest) => (manifest['rules'] as readonly Rule[] | undefined) ?? []);
  const unnamed = rules.filter(({ resourceNames = [] }) => resourceNames.length === 0);
  expect(sorted(unnamed.flatMap(({ resources, verbs }) => `${verbs.join()} ${resources.join()}`))).toEqual([
    'create events',
    'list apiservices',
    'list certificatesigningrequests',
  ]);
  expect(rules.flatMap(({ verbs }) => verbs)).not.toContain('delete');
});

describe('status', () => {
  const text = section(page('docs/status.md'), 'With certificates in the API');
  const date = new Date('2026-01-01T00:00:00Z');
  const row = {
    artefact: 'a',
    kind: 'target',
    location: 'Secret "n/a"',
    state: 'OK',
    notBefore: date,
    notAfter: date,
    residualMs: 1,
    issuer: 'b',
    isForeign: false,
    action: 'keep',
    reason: 'Healthy',
    message: '',
    recheckAt: date,
    onDisk: 'same',
    inUse: { state: 'proven', message: '' },
  } satisfies Required<
    Omit<StatusRow, 'authority' | 'byHand' | 'isAhead' | 'outlook' | 'readBy' | 'renewal' | 'renewsAt'>
  >; // these are said of a kubeadm machine only
  const report: StatusReport = {
    inventory: 'i',
    at: date,
    class: 'healthy',
    problems: [],
    rows: [row],
    webhooks: { seen: true, findings: [] },
    recheckAt: date,
  };
  const rows = tables(text)[0] ?? [];

  it('has the documented columns, in their order', () => {
    const [head = ''] = renderStatus(report, { output: 'table' }).split('\n');
    expect(rows.flatMap(([column = '']) => codes(column))).toEqual(head.trim().split(/ {3,}/));
  });

  it('has the documented JSON keys', () => {
    const json = JSON.parse(renderStatus(report, { output: 'json' })) as Record<string, readonly object[]>;
    expect(rows.flatMap(([, key = '']) => codes(key)).toSorted()).toEqual(
      Object.keys(json['certificates']?.[0] ?? {}).toSorted(),
    );
    const [, below = ''] = /JSON and YAML hold([\s\S]*?)\n\n/.exec(text) ?? [];
    const words = ['healthy', 'recovering', 'stuck'];
    expect(
      codes(below)
        .filter((word) => !words.includes(word))
        .toSorted(),
    ).toEqual(Object.keys(json).toSorted());
  });

  it('has the documented states', () => {
    const [, list = ''] = /STATUS is one of([\s\S]*?)\n\n/.exec(text) ?? [];
    const states = codes(list).filter((word) => /^[A-Z ]+$/.test(word) && word !== 'ON DISK' && word !== 'IN USE');
    expect(states.toSorted()).toEqual(unionMembers(page('lib/status/report.ts'), 'RowState').toSorted());
  });
});

it('metrics are those that are served', async () => {
  const metrics = await createMetrics({ clock: systemClock, version: '1', modes: ['regen', 'approver'] });
  const shown = [...(await metrics.render()).matchAll(/^# TYPE (\S+)/gm)].map(([, name = '']) => name);
  const served = [...new Set([...Object.keys(gauges), ...shown])];
  const documented = tables(section(reference, 'Health and metrics'))[2] ?? [];
  expect(documented.map(([name]) => firstCode(name)).toSorted()).toEqual(served.toSorted());
});

it('what runs on a fresh clone brings the packages first: an older Node cannot even read the build script', () => {
  const { scripts } = JSON.parse(page('package.json')) as { readonly scripts: Readonly<Record<string, string>> };
  for (const name of ['build', 'demo', 'test'])
    expect(scripts[name], name).toMatch(/^[^&]*scripts\/setup\.sh( \w+)? && /);
});

it('health checks are those that are set', () => {
  const set = [...code.matchAll(/health\??\.set\(\s*'([^']+)'/g)].map(([, name = '']) => name);
  expect(sorted(firstCodes(section(reference, 'Health and metrics'), 1))).toEqual(sorted(set));
});
