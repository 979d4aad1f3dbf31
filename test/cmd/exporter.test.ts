// `exporter` as the DaemonSet starts it.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { run } from '../../cmd/cli.ts';
import { parseYaml } from '../../lib/yaml.ts';
import { page } from '../docs/markdown.ts';
import { freePorts } from '../support/cluster/ports.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'exporter-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

function start(argv: readonly string[], signal: AbortSignal) {
  const said: string[] = [];
  const stream = { write: (text: string) => void said.push(text) };
  return {
    said,
    exit: run({ argv: ['exporter', ...argv], env: {}, cwd: directory, stdout: stream, stderr: stream, signal }),
  };
}

describe('exporter', () => {
  it('asks for all that it needs at once', async () => {
    const { said, exit } = start([], new AbortController().signal);
    expect(await exit).toBe(2);
    expect(said.join('')).toMatch(/--metrics-file: is required[^]*--health-probe-bind-address: is required/);
  });

  it('serves the node while the certificates for other machines are not there, and says so', async () => {
    const { data } = parseYaml(page('manifests/daemonset/secured-metrics/configmap.yaml')) as {
      readonly data: Readonly<Record<string, string>>;
    };
    const [config, file] = ['config.yaml', 'certs.prom'].map((name) => join(directory, name)) as [string, string];
    const nowhere = (data['config.yaml'] ?? '').replaceAll('/etc/kube-cert-recovery-metrics', directory);
    await writeFile(config, nowhere);
    await writeFile(file, 'kube_cert_recovery_units_loaded 1\n');
    const [port = 0] = await freePorts(1);
    const stop = new AbortController();
    const flags = [`--metrics-file=${file}`, `--health-probe-bind-address=127.0.0.1:${port}`, `--config=${config}`];
    const { said, exit } = start(flags, stop.signal);
    const asked = async (): Promise<string> => (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    await expect.poll(() => asked().catch(() => ''), { timeout: 30_000 }).toBe('kube_cert_recovery_units_loaded 1\n');
    await expect
      .poll(() => said.join(''), { timeout: 30_000 })
      .toMatch(/Cannot serve metrics over TLS.*"health.failed"/);
    stop.abort();
    expect(await exit).toBe(0);
  });
});
