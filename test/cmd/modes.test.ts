// The composition root without a control plane: what a pass says at its end, and what a stop says.
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { runModes } from '../../cmd/modes.ts';
import type { UnmetCondition } from '../../lib/regen/unmet.ts';
import type { Clock } from '../../lib/clock.ts';
import { systemClock } from '../../lib/clock.ts';
import { parseConfig } from '../../lib/config/load.ts';
import type { ConfigFlags } from '../../lib/config/flags.ts';
import { installedPresets } from '../../lib/inventory/preset.ts';
import { createLog } from '../../lib/log.ts';
import { movedClock } from '../regen/disk-world.ts';
import { createAuthority, createEtcdAuthority } from '../support/certificates/certificates.ts';
import { writeKubeconfig } from '../support/certificates/kubeconfig.ts';
import { freePorts } from '../support/cluster/ports.ts';

let directory: string;
let events: string[];
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'modes-'));
  await createEtcdAuthority(join(directory, 'pki'));
  events = [];
});
afterEach(() => rm(directory, { recursive: true, force: true }));

interface Given {
  readonly flags: ConfigFlags;
  readonly signal?: AbortSignal;
  readonly clock?: Clock;
  readonly builtAt?: Date;
}

const longAgo = new Date('2025-01-01T00:00:00Z');

function run({ flags, signal = AbortSignal.timeout(60_000), clock = systemClock, builtAt = longAgo }: Given) {
  const text = `apiVersion: kube-cert-recovery/v1alpha1
kind: Configuration
preset: kubernetes
parameters: { apiServerHostnames: [127.0.0.1] }
directories: { pkiDir: ${directory}/pki }
regen: { backupDir: ${directory}/backups, lockDir: ${directory}/lock, clockSynchronised: true }
`;
  const file = { path: join(directory, 'config.yaml'), text };
  const config = parseConfig({
    flags: { mode: 'regen', ...flags },
    file,
    env: {},
    cwd: directory,
    presets: installedPresets,
  });
  const log = createLog({
    level: 'debug',
    write: (line) => events.push((JSON.parse(line) as { event: string }).event),
  });
  return runModes(config, { clock, log, signal, builtAt });
}

describe('runModes() with regen and rows that cannot be renewed now', () => {
  /** No clock is right that shows a time before the program was built: nothing is signed. */
  const blocked = { builtAt: new Date(systemClock.now().getTime() + 24 * 3_600_000), flags: { locations: 'disk' } };

  it('names them at the end of one pass', async () => {
    const unmet = await run({ ...blocked, flags: { ...blocked.flags, once: true } });
    expect(unmet.map(({ message }) => message.split(':')[0])).toContain('etcd-server');
  });

  it('has no fault to find with a mode that runs on until it is asked to stop', async () => {
    const stop = new AbortController();
    const ended = run({ ...blocked, signal: stop.signal });
    await expect.poll(() => events, { timeout: 10_000 }).toContain('clock.implausible');
    stop.abort();
    expect(await ended).toEqual([]);
  });
});

describe('runModes() with a port for health that another process has', () => {
  it('heals the files all the same, and says what to do about the port', async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve));
    const { port } = other.address() as AddressInfo;
    const flags = { locations: 'disk', once: true, healthProbeBindAddress: `127.0.0.1:${port}` } as const;
    expect(await run({ flags })).toEqual([]);
    expect(events).toContain('health.failed');
    expect(await readdir(join(directory, 'pki/etcd'))).toContain('peer.crt');
    await new Promise((resolve) => other.close(resolve));
  });
});

describe('runModes() with regen for one pass while the API server is away', () => {
  it.each<{ dryRun: boolean; files: readonly string[] }>([
    { dryRun: false, files: ['ca.crt', 'ca.key', 'peer.crt', 'peer.key', 'server.crt', 'server.key'] },
    { dryRun: true, files: ['ca.crt', 'ca.key'] },
  ])(
    'heals the files, gives up and says why (dry run: $dryRun)',
    async ({ dryRun, files }) => {
      const { cert } = await createAuthority(join(directory, 'authority'), { commonName: 'nobody' });
      const [port] = await freePorts(1);
      const kubeconfig = await writeKubeconfig(join(directory, 'kubeconfig'), {
        server: `https://127.0.0.1:${port}`,
        certificateAuthority: cert,
        token: 'none',
      });
      const signal = AbortSignal.timeout(15_000);
      const unmet: readonly UnmetCondition[] = await run({
        flags: { once: true, dryRun, kubeconfig },
        clock: movedClock(0),
        signal,
      });
      expect(signal.aborted).toBe(false);
      expect(unmet).toEqual([{ message: 'regen gave up: the API server has not answered for 30 s' }]);
      expect(await readdir(join(directory, 'pki/etcd'))).toEqual(expect.arrayContaining([...files]));
      if (dryRun) expect(await readdir(join(directory, 'pki/etcd'))).toHaveLength(files.length);
    },
    20_000,
  );
});
