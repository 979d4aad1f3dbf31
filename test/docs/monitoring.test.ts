// Runs what docs/monitoring.md shows: its commands, its configuration, its script.
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { run } from '../../cmd/cli.ts';
import { parseConfig } from '../../lib/config/load.ts';
import { gauges } from '../../lib/metrics.ts';
import { installedPresets } from '../../lib/inventory/preset.ts';
import { alerts, panels } from '../../scripts/monitoring.ts';
import { blocks, page, root } from './markdown.ts';

const text = page('docs/monitoring.md');
const shown = blocks(text);
let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'monitoring-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

describe('docs/monitoring.md', () => {
  const commands = shown.filter(({ text: one }) => one.startsWith('kube-cert-recovery '));

  it.each(commands)('$text', async ({ text: command }) => {
    const [, ...words] = command.trim().split(' ');
    await mkdir(join(directory, 'manifests'));
    const pod = 'apiVersion: v1\nkind: Pod\nspec: { containers: [{ name: a, command: [kube-apiserver] }] }\n';
    await writeFile(join(directory, 'manifests/kube-apiserver.yaml'), pod);
    let out = '';
    const write = (part: string): void => void (out += part);
    const own = ['--dry-run', '--executable=/bin/true', `--directory=kubernetesDir=${directory}`];
    const output = { write };
    const { signal } = new AbortController();
    const argv = [...words, ...own];
    expect(await run({ argv, env: {}, cwd: directory, stdout: output, stderr: output, signal }), out).toBe(0);
    const flag = words.at(-1) ?? '';
    expect(out.match(new RegExp(`${flag}(?= |$)`, 'gm'))).toHaveLength(3); // service, drop-in, repair of what is adopted
    if (flag.startsWith('--metrics-file'))
      expect(out).toMatch(/^ReadWritePaths=.*-\/var\/lib\/prometheus\/node-exporter/m);
  });

  it('has a configuration that is accepted', () => {
    const [yaml] = shown.filter(({ text: one }) => one.startsWith('metrics:'));
    const config = parseConfig({
      flags: { mode: 'approver', kubeconfig: '/k' },
      file: {
        path: 'c.yaml',
        text: `apiVersion: kube-cert-recovery/v1alpha1\nkind: Configuration\n${yaml?.text}`,
      },
      env: {},
      cwd: '/',
      presets: installedPresets,
    });
    expect(config.metrics?.bindAddress).toEqual({ host: '192.0.2.11', port: 9793 });
  });

  it('has a script that copies admin.conf when that was renewed', async () => {
    const [script] = shown.filter(({ text: one }) => one.startsWith('#!'));
    const placed = (script?.text ?? '')
      .replace('/etc/kubernetes', join(directory, 'kubernetes'))
      .replace('/srv/kubeconfig', join(directory, 'copy'));
    for (const name of ['kubernetes', 'copy']) await mkdir(join(directory, name));
    await writeFile(join(directory, 'kubernetes/admin.conf'), 'new');
    await writeFile(join(directory, 'hook'), placed, { mode: 0o755 });
    const hook = (names: string) =>
      promisify(execFile)(join(directory, 'hook'), { env: { ...process.env, KUBE_CERT_RECOVERY_RENEWED: names } });
    await hook('apiserver super-admin.conf');
    await expect(readFile(join(directory, 'copy/admin.conf'))).rejects.toThrow();
    await hook('apiserver admin.conf');
    expect(await readFile(join(directory, 'copy/admin.conf'), 'utf8')).toBe('new');
  });

  it('checks the rules that there are', async () => {
    const [check] = shown.filter(({ text: one }) => one.startsWith('promtool '));
    const [command = '', ...args] = (check?.text ?? '').trim().split(' ');
    await promisify(execFile)(command, args, { cwd: root });
  });
});

it('alerts and panels ask for metrics that there are', () => {
  const known = [...Object.keys(gauges), 'kube_cert_recovery_writes_total', 'kube_cert_recovery_failures_total'];
  const asked = [...alerts, ...panels].flatMap(({ expr }) => expr.match(/\b(?:x509|kube_cert_recovery)_\w+/g) ?? []);
  const unknown = asked.filter(
    (name) => !known.includes(name) && !name.startsWith('kube_cert_recovery_request_seconds'),
  );
  expect(unknown).toEqual([]);
  expect(known.filter((name) => !asked.includes(name))).toEqual(['x509_cert_not_before']);
});
