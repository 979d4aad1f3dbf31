// The text file for node_exporter: written by real runs on real files, read all the time, compared with openssl.
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { runModes } from '../../cmd/modes.ts';
import { systemClock } from '../../lib/clock.ts';
import { parseConfig } from '../../lib/config/load.ts';
import { installedPresets } from '../../lib/inventory/preset.ts';
import { createLog } from '../../lib/log.ts';
import { opensslDir } from '../pki/openssl.ts';
import { createEtcdAuthority } from '../support/certificates/certificates.ts';

let directory: string;
let said: { readonly event: string }[];
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'metrics-'));
  await createEtcdAuthority(join(directory, 'pki'));
  await mkdir(join(directory, 'textfiles'));
  said = [];
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const path = (): string => join(directory, 'textfiles/certs.prom');

function run(metricsFile = path(), more = '') {
  const config = parseConfig({
    flags: { mode: 'regen', once: true, locations: 'disk', metricsFile },
    file: {
      path: join(directory, 'config.yaml'),
      text: `apiVersion: kube-cert-recovery/v1alpha1
kind: Configuration
preset: kubernetes
parameters: { apiServerHostnames: [127.0.0.1] }
directories: { pkiDir: ${directory}/pki }
regen: { backupDir: ${directory}/backups, lockDir: ${directory}/lock, clockSynchronised: true }
${more}`,
    },
    env: {},
    cwd: directory,
    presets: installedPresets,
  });
  const log = createLog({ level: 'info', write: (line) => said.push(JSON.parse(line) as { event: string }) });
  const signal = AbortSignal.timeout(60_000);
  return runModes(config, { clock: systemClock, log, signal, builtAt: new Date('2025-01-01T00:00:00Z') });
}

const valueOf = (text: string, start: string): number =>
  Number(
    text
      .split('\n')
      .find((line) => line.startsWith(start))
      ?.split(' ')
      .at(-1),
  );

describe('writeMetrics()', () => {
  it('says of each certificate what openssl says', async () => {
    expect(await run()).toEqual([]);
    const text = await readFile(path(), 'utf8');
    await using ssl = await opensslDir();
    for (const name of ['server', 'peer']) {
      const file = join(directory, 'pki/etcd', `${name}.crt`);
      const told = await ssl.openssl(
        'x509',
        '-in',
        file,
        '-noout',
        '-dates',
        '-serial',
        '-issuer',
        '-nameopt',
        'RFC2253',
      );
      const [, hex = ''] = /serial=(\w+)/.exec(told) ?? [];
      const [, from = ''] = /notBefore=(.*)/.exec(told) ?? [];
      const [, until = ''] = /notAfter=(.*)/.exec(told) ?? [];
      const line = text.split('\n').find((one) => one.includes(`filepath="${file}"`)) ?? '';
      expect(line).toContain(`serial_number="${BigInt(`0x${hex}`)}"`);
      expect(line).toContain(`issuer_CN="${/issuer=.*CN=([^,\n]*)/.exec(told)?.[1]}"`);
      const labels = line.slice(line.indexOf('{'), line.indexOf('}') + 1);
      expect(valueOf(text, `x509_cert_not_before${labels}`)).toBe(Date.parse(from) / 1000);
      expect(valueOf(text, `x509_cert_not_after${labels}`)).toBe(Date.parse(until) / 1000);
      expect(valueOf(text, `x509_cert_expired${labels}`)).toBe(0);
    }
    expect(text).toContain(
      'kube_cert_recovery_artefact{artefact="etcd-server",action="keep",reason="Healthy",outcome="written"} 1',
    );
    expect(valueOf(text, 'kube_cert_recovery_clock_confirmed')).toBe(1);
    expect((await stat(path())).mode & 0o777).toBe(0o644);
  });

  it('a reader that polls never sees half of it, and counters go on from run to run', async () => {
    const stop = new AbortController();
    const seen = new Set<string>();
    const reader = (async () => {
      while (!stop.signal.aborted) {
        for (const name of await readdir(join(directory, 'textfiles')))
          if (name.endsWith('.prom')) seen.add(await readFile(join(directory, 'textfiles', name), 'utf8'));
        await new Promise((resolve) => setImmediate(resolve));
      }
    })();
    const written: number[] = [];
    for (let at = 0; at < 4; at += 1) {
      for (const end of ['crt', 'key']) await rm(join(directory, `pki/etcd/server.${end}`), { force: true });
      expect(await run()).toEqual([]);
      const text = await readFile(path(), 'utf8');
      seen.add(text);
      written.push(valueOf(text, 'kube_cert_recovery_writes_total{mode="regen",result="written"}'));
    }
    stop.abort();
    await reader;
    const writes = (written[1] ?? 0) - (written[0] ?? 0);
    expect(writes).toBeGreaterThan(0);
    expect(written).toEqual(written.map((_, at) => (written[0] ?? 0) + at * writes));
    expect(seen.size).toBe(4);
    const shapes = new Set([...seen].map((text) => text.match(/^# TYPE .*$/gm)?.join()));
    expect(shapes.size).toBe(1);
    expect([...seen].every((text) => text.endsWith('\n'))).toBe(true);
  });

  it.each([
    ['no directory', 'pki/etcd/ca.crt'],
    ['not there', 'node-exportr'],
  ])('a directory that is %s is not made, which is said once with what is wanted', async (_, name) => {
    const wrong = join(directory, name, 'certs.prom');
    const before = await readdir(directory);
    expect(await run(wrong)).toEqual([]);
    expect(await run(wrong)).toEqual([]);
    expect((await readdir(directory)).filter((one) => !['backups', 'lock'].includes(one))).toEqual(before);
    expect(said.filter(({ event }) => event === 'metrics.failed')).toEqual([
      expect.objectContaining({
        err: expect.stringMatching(/no directory .*--collector.textfile.directory/) as string,
      }),
    ]);
  });

  it('a former file is replaced, however large it is', async () => {
    await writeFile(path(), Buffer.alloc(5 * 1024 * 1024, 'x'));
    expect(await run()).toEqual([]);
    expect(await readFile(path(), 'utf8')).toMatch(/^# HELP/);
    expect(said.filter(({ event }) => event === 'metrics.failed')).toEqual([]);
  });

  it('a single run serves no port, and asks for no file of one', async () => {
    const tls = ['certFile', 'keyFile', 'clientCaFile'].map((name) => `${name}: ${join(directory, 'none')}`);
    expect(await run(path(), `metrics: { bindAddress: "127.0.0.1:9793", ${tls.join(', ')} }\n`)).toEqual([]);
    expect(said.filter(({ event }) => event.startsWith('health.'))).toEqual([]);
  });
});
