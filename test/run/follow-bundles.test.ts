// When a machine asks for the CAs of its cluster, and what it says while none answers. What an API server grants and
// refuses is in test/integration/node-ca-units.test.ts.
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parseConfig } from '../../lib/config/load.ts';
import type { RegenConfig } from '../../lib/config/mode-settings.ts';
import { RunState } from '../../lib/host/state.ts';
import { installedPresets } from '../../lib/inventory/preset.ts';
import { createLog } from '../../lib/log.ts';
import { followBundles } from '../../lib/run/follow-bundles.ts';
import type { Runtime } from '../../lib/run/runtime.ts';
import { authority } from '../pki/authority.ts';
import { kubeconfigOf } from '../support/certificates/kubeconfig.ts';
import { FakeClock } from '../support/fake-clock.ts';

let directory: string;
let clock: FakeClock;
let said: { readonly event: string; readonly err?: string }[];
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'follow-bundles-'));
  await mkdir(join(directory, 'etc'));
  clock = new FakeClock();
  said = [];
});
afterEach(() => rm(directory, { recursive: true, force: true }));

/** A kubelet whose API server does not answer. */
async function joined(): Promise<void> {
  const ca = Buffer.from((await authority()).certificate.pem).toString('base64');
  const cluster = { server: 'https://127.0.0.1:1', 'certificate-authority-data': ca };
  await writeFile(join(directory, 'etc/kubelet.conf'), kubeconfigOf(cluster, { token: 'of-a-node' }));
}

async function follow(): Promise<readonly unknown[]> {
  const config = parseConfig({
    flags: { mode: 'regen', once: true, restart: true },
    file: {
      path: join(directory, 'config.yaml'),
      text: `apiVersion: kube-cert-recovery/v1alpha1
kind: Configuration
preset: kubeadm
directories: { kubernetesDir: ${directory}/etc, kubeletDir: ${directory} }
regen: { backupDir: ${directory}/backups, lockDir: ${directory}/lock }
`,
    },
    env: {},
    cwd: directory,
    presets: installedPresets,
  });
  const log = createLog({ level: 'info', write: (line) => said.push(JSON.parse(line) as { event: string }) });
  const runtime = { config, clock, log, signal: AbortSignal.timeout(30_000) } as unknown as Runtime;
  const taken = (): Promise<never> => Promise.reject(new Error('a run was taken'));
  return followBundles(config.modes[0] as RegenConfig, runtime, taken);
}

const state = (): RunState => new RunState(join(directory, 'lock'));

describe('followBundles()', () => {
  it('takes no run and says nothing on a machine that is no node', async () => {
    expect(await follow()).toEqual([]);
    expect(said).toEqual([]);
  });

  it('takes no run while the API server does not answer, and says nothing where nothing was ever granted', async () => {
    await joined();
    expect(await follow()).toEqual([]);
    expect(said).toEqual([]);
  });

  it('says once what it could use before, and asks again after half a minute', async () => {
    await joined();
    await state().keep('node-ca-granted', 'ConfigMap');
    const failures = () => said.filter(({ event }) => event === 'bundles.failed');
    for (let run = 0; run < 3; run += 1) {
      await follow();
      clock.advance(60_000);
    }
    expect(failures()).toEqual([expect.objectContaining({ code: 'KubeUnavailable' })]);
  });

  it('does not ask again before that is due', async () => {
    await joined();
    await follow();
    await state().keep('node-ca-granted', 'ConfigMap'); // so that an answer would be said
    clock.advance(10_000);
    await follow();
    expect(said).toEqual([]);
    clock.advance(30_000);
    await follow();
    expect(said).toHaveLength(1);
  });
});
