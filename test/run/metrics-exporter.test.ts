// The exporter of the file of metrics, over real sockets.
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { bounds } from '../../lib/bounds.ts';
import { systemClock as clock } from '../../lib/clock.ts';
import { createLog } from '../../lib/log.ts';
import { exportMetricsFile, judgeRuns } from '../../lib/run/metrics-exporter.ts';
import { freePorts } from '../support/cluster/ports.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'exporter-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

async function exported() {
  const file = join(directory, 'certs.prom');
  const [port = 0] = await freePorts(1);
  const stop = new AbortController();
  const address = { host: '127.0.0.1', port };
  const log = createLog({ level: 'error', format: 'text', write: () => undefined });
  const serving = exportMetricsFile({ file, address, secured: undefined, clock, log, signal: stop.signal });
  const ask = async (page: string): Promise<readonly [number, string]> => {
    const response = await fetch(`http://127.0.0.1:${port}/${page}`);
    return [response.status, await response.text()];
  };
  const end = async (): Promise<void> => {
    stop.abort();
    await serving;
  };
  await expect.poll(() => ask('livez').catch(() => undefined)).toEqual([200, 'ok']);
  return { file, ask, [Symbol.asyncDispose]: end };
}

it('serves what the last run has written, and is ready while runs write', async () => {
  await using exporter = await exported();
  const { file, ask } = exporter;
  expect((await ask('metrics'))[0]).toBe(500);
  expect(await ask('readyz')).toEqual([500, expect.stringContaining('no run has written its file of metrics')]);
  for (const text of ['kube_cert_recovery_units_loaded 1\n', 'kube_cert_recovery_units_loaded 0\n']) {
    await writeFile(file, text);
    expect(await ask('metrics')).toEqual([200, text]);
    expect(await ask('readyz')).toEqual([200, 'ok']);
  }
  const hourAgo = new Date(clock.now().getTime() - 3_600_000);
  await utimes(file, hourAgo, hourAgo);
  expect(await ask('readyz')).toEqual([500, expect.stringContaining('no run for 1h: see')]);
  expect((await ask('livez'))[0]).toBe(200);
});

it('serves nothing that another user has put in the place of the file', async () => {
  await using exporter = await exported();
  const { file, ask } = exporter;
  const secret = join(directory, 'admin.conf');
  await writeFile(secret, 'key\n');
  const puts: readonly (() => Promise<unknown>)[] = [
    () => symlink(secret, file),
    () => promisify(execFile)('mkfifo', [file]),
    () => writeFile(file, Buffer.alloc(bounds.file.most.bytes + 1)),
    () => mkdir(file),
  ];
  for (const put of puts) {
    await put();
    expect((await ask('metrics'))[0], String(put)).toBe(500);
    await rm(file, { recursive: true });
  }
});

const now = new Date('2026-01-01T12:00:00Z');
it.each([
  ['2026-01-01T11:59:00Z', true],
  ['2026-01-01T11:45:00Z', true],
  ['2026-01-01T11:44:59Z', false],
  ['2026-01-01T12:05:00Z', true], // a clock that was set back
  ['2026-01-02T12:00:00Z', false], // by so much that no run has written since
])('a file of %s is one of runs that go on: %s', (written, ok) => {
  expect(judgeRuns(new Date(written), now).ok).toBe(ok);
});
