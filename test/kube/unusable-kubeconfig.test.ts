import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openConnection } from '../../lib/kube/connection.ts';
import type { KubeConnection } from '../../lib/kube/kube.ts';
import { createLog } from '../../lib/log.ts';
import { createAuthority } from '../support/certificates/certificates.ts';
import { FakeClock } from '../support/fake-clock.ts';

const signal = new AbortController().signal;
let directory: string;
let kubeconfigFile: string;
let clock: FakeClock;
let lines: Record<string, unknown>[];
let connection: KubeConnection | undefined;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'late-'));
  kubeconfigFile = join(directory, 'kubeconfig');
  clock = new FakeClock();
  lines = [];
});
afterEach(async () => {
  await connection?.close();
  connection = undefined;
  rmSync(directory, { recursive: true });
});

/** Nobody listens on port 1: a connection to it is refused, which only a usable kubeconfig can lead to. */
function writeKubeconfig(): void {
  const config = {
    clusters: [{ name: 'c', cluster: { server: 'https://127.0.0.1:1', 'certificate-authority': 'ca/tls.crt' } }],
    users: [{ name: 'u', user: { token: 'token' } }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  };
  writeFileSync(kubeconfigFile, JSON.stringify(config));
}

async function open(): Promise<KubeConnection> {
  const log = createLog({ write: (line) => lines.push(JSON.parse(line) as Record<string, unknown>) });
  connection = await openConnection({ kubeconfigFile, waitsForKubeconfig: true, userAgent: 'test', clock, log });
  return connection;
}

function get(): Promise<unknown> {
  clock.advance(1000);
  const path = '/api/v1/namespaces/n/secrets/a';
  return (connection as KubeConnection)
    .request({ method: 'GET', path, signal })
    .catch((err: unknown) => (err as Error).message);
}

describe('openConnection() with waitsForKubeconfig', () => {
  it('waits for nothing when the kubeconfig can be used', async () => {
    await createAuthority(join(directory, 'ca'), { commonName: 'ca' });
    writeKubeconfig();
    expect((await open()).server).toBe('https://127.0.0.1:1');
    expect(lines).toEqual([]);
  });

  it('fails as an API that is away, until kubeconfig and CA can be used', async () => {
    const late = await open();
    expect(late.files).toEqual([kubeconfigFile]);
    const cannot = 'Cannot get Secret "n/a": Cannot';
    expect(await get()).toBe(`${cannot} read kubeconfig "${kubeconfigFile}": ENOENT`);
    writeFileSync(kubeconfigFile, 'clusters: [');
    expect(await get()).toMatch(`${cannot} use kubeconfig "${kubeconfigFile}": 1 problem; `);
    writeKubeconfig();
    expect(await get()).toMatch(
      `${cannot} use kubeconfig "${kubeconfigFile}": 1 problem; cluster.certificate-authority`,
    );
    const watch = late.watch('/api/v1/namespaces/n/secrets', { silenceMs: 1000, signal });
    await expect(watch[Symbol.asyncIterator]().next()).rejects.toMatchObject({ code: 'KubeUnavailable' });

    await createAuthority(join(directory, 'ca'), { commonName: 'ca' });
    expect(await get()).toContain('connection refused');
    expect(late.server).toBe('https://127.0.0.1:1');
    expect(late.files).toEqual([kubeconfigFile, join(directory, 'ca/tls.crt')]);
    expect(lines.at(-1)).toMatchObject({ event: 'connection.changed', server: 'https://127.0.0.1:1' });
  });

  it('logs what is wrong at the start, then every ten seconds', async () => {
    await open();
    for (let second = 1; second <= 25; second += 1) await get();
    const waiting = lines.filter(({ event }) => event === 'api.waiting');
    expect(waiting.map(({ attempt, code }) => [attempt, code])).toEqual([
      [1, 'ConfigInvalid'],
      [11, 'ConfigInvalid'],
      [21, 'ConfigInvalid'],
    ]);
  });

  it('reload() throws what is wrong with the files, and says when they have become usable', async () => {
    const late = await open();
    clock.advance(1000);
    await expect(late.reload()).rejects.toMatchObject({ code: 'ConfigInvalid' });
    await createAuthority(join(directory, 'ca'), { commonName: 'ca' });
    writeKubeconfig();
    clock.advance(1000);
    expect(await late.reload()).toBe('changed');
    expect(await late.reload()).toBe('unchanged');
  });
});
