import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { Health } from '../../lib/health.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import { createLog } from '../../lib/log.ts';
import { runSyncer } from '../../lib/syncer/run.ts';
import { createAuthority } from '../support/certificates/certificates.ts';
import { writeKubeconfig } from '../support/certificates/kubeconfig.ts';
import { eventually } from '../support/eventually.ts';

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'syncer-run-'));
});
afterAll(() => rmSync(directory, { recursive: true }));

it('runSyncer() is not ready, and stays alive, when its watches have heard nothing for two minutes', async () => {
  let laterMs = 0;
  const clock = { ...systemClock, now: () => new Date(systemClock.now().getTime() + laterMs) };
  const { cert: certificateAuthority } = await createAuthority(join(directory, 'ca'), { commonName: 'ca' });
  // Nobody listens on port 1.
  const access = { server: 'https://127.0.0.1:1', certificateAuthority, token: 't' };
  const kubeconfigFile = await writeKubeconfig(join(directory, 'kubeconfig'), access);
  const connection = await openConnection({ kubeconfigFile, clock, userAgent: 'test' });
  const health = new Health();
  const log: string[] = [];
  const stop = new AbortController();
  const location = { kind: 'secret', namespace: 'n', name: 'a' } as const;
  const running = runSyncer({
    resolved: {
      name: 'test',
      artefacts: [{ kind: 'opaque', name: 'a', location, published: 'optional', readers: [] }],
    },
    connection,
    destinationDir: join(directory, 'certs'),
    clock,
    log: createLog({ write: (line) => log.push(line) }),
    health,
    signal: stop.signal,
  });
  const watches = () => health.report().find(({ name }) => name === 'syncer-watches');
  await eventually(() => expect(log.join('')).toContain('watch.failed'));
  expect(watches()).toMatchObject({ ok: true, kind: 'readiness' });
  laterMs = 121_000;
  expect(watches()).toMatchObject({ ok: false, message: expect.stringContaining('Secret "n/a": Cannot list') });
  expect(health.report().filter(({ kind, ok }) => kind === 'liveness' && !ok)).toEqual([]);
  stop.abort();
  await running;
  await connection.close();
});
