// Repair on files alone: where an API answers, test/integration/adopt-repair.test.ts.
import { rmSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { removeRecord } from '../../lib/adopt/record.ts';
import { adoptionNotes, type RepairOutcome, runRepair } from '../../lib/adopt/repair.ts';
import { systemClock } from '../../lib/clock.ts';
import { RecoveryError } from '../../lib/errors.ts';
import { staticPods } from '../../lib/components.ts';
import { adoptionFile } from '../../lib/install/layout.ts';
import { createLog } from '../../lib/log.ts';
import { acquireLock } from '../../lib/host/lock.ts';
import { adoptedMachine, kubeadmManifest } from '../support/cluster/adopted-files.ts';

let root: string;
let directory: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'adopted-'));
  directory = join(root, 'own');
});
afterEach(() => rm(root, { recursive: true, force: true }));

const manifestOf = (pod: string): string => kubeadmManifest(pod, root);

const nothing: RepairOutcome = { repaired: 0, failures: [] };

describe('runRepair()', () => {
  let told: Readonly<Record<string, string>>[];
  const lockDir = () => join(root, 'lock');
  const repair = (more: Partial<Parameters<typeof runRepair>[0]> = {}): Promise<RepairOutcome> =>
    runRepair({
      directory,
      lockDir: lockDir(),
      reach: () => Promise.resolve(undefined),
      refuseBesideOthers: () => undefined,
      dryRun: false,
      clock: systemClock,
      log: createLog({ write: (text) => void told.push(JSON.parse(text) as Record<string, string>) }),
      signal: AbortSignal.timeout(10_000),
      ...more,
    });
  const path = (pod: string): string => join(root, 'kubernetes/manifests', `${pod}.yaml`);
  const rewrite = async (pod: string): Promise<void> => writeFile(path(pod), manifestOf(pod));
  const events = () => told.map(({ event, component }) => `${event} ${component ?? ''}`);

  beforeEach(async () => {
    told = [];
    await adoptedMachine(root);
  });

  it('does nothing where nothing has drifted, and on a machine that is not adopted', async () => {
    const bytes = await readFile(path('kube-apiserver'));
    expect(await repair({ reach: () => expect.unreachable() })).toEqual(nothing);
    await removeRecord(directory);
    await rewrite('kube-scheduler');
    expect(await repair()).toEqual(nothing);
    expect(await readFile(path('kube-scheduler'), 'utf8')).toBe(manifestOf('kube-scheduler'));
    expect(await readFile(path('kube-apiserver'))).toEqual(bytes);
    expect(told).toEqual([]);
  });

  it('writes nothing before an API server answers, and says so once', async () => {
    const present = await readFile(path('kube-apiserver'), 'utf8');
    await rewrite('kube-controller-manager');
    await rewrite('kube-scheduler');
    expect(await repair()).toEqual(nothing);
    expect(await readFile(path('kube-scheduler'), 'utf8')).toBe(manifestOf('kube-scheduler'));
    expect(await readFile(path('kube-apiserver'), 'utf8')).toBe(present);
    expect(events()).toEqual([
      'manifest.drifted kube-controller-manager',
      'manifest.drifted kube-scheduler',
      'manifest.waiting ',
    ]);
    expect(told[1]?.['message']).toContain(`run "kube-cert-recovery uninstall adopt --out=${directory}", or remove`);
    expect(told[1]?.['message']).toContain(`"${adoptionFile(directory)}"`);
    expect(told[2]).toMatchObject({ level: 'info', message: expect.stringContaining('no API server answers') });
  });

  it('throws what keeps it from the API, and writes nothing', async () => {
    await rewrite('kube-scheduler');
    const refused = new RecoveryError('KubeForbidden', 'no');
    await expect(repair({ reach: () => Promise.reject(refused) })).rejects.toBe(refused);
    expect(await readFile(path('kube-scheduler'), 'utf8')).toBe(manifestOf('kube-scheduler'));
  });

  it('says what it would do', async () => {
    await rewrite('kube-scheduler');
    expect(await repair({ dryRun: true })).toEqual({ repaired: 1, failures: [] });
    expect(await readFile(path('kube-scheduler'), 'utf8')).toBe(manifestOf('kube-scheduler'));
    expect(events()).toEqual(['manifest.drifted kube-scheduler']);
  });

  it('leaves a pod stopped that somebody has stopped', async () => {
    await rm(path('kube-scheduler'));
    expect(await repair()).toEqual(nothing);
  });

  it('writes nothing beside kubeadm, nor beside an adoption or its end', async () => {
    await rewrite('kube-scheduler');
    const busy = new RecoveryError('AlreadyRunning', 'kubeadm runs');
    const refuseBesideOthers = (): void => {
      throw busy;
    };
    await expect(repair({ refuseBesideOthers })).rejects.toBe(busy);
    await mkdir(lockDir(), { recursive: true, mode: 0o700 });
    const lock = await acquireLock({ directory: join(lockDir(), 'manifests'), clock: systemClock });
    await expect(repair()).rejects.toMatchObject({ code: 'AlreadyRunning' });
    await lock.release();
    expect(await readFile(path('kube-scheduler'), 'utf8')).toBe(manifestOf('kube-scheduler'));
  });

  it('is too late when the machine has been given back meanwhile', async () => {
    for (const pod of staticPods) await rewrite(pod);
    // What happens between the first look and the lock.
    const refuseBesideOthers = (): void => rmSync(adoptionFile(directory));
    expect(await repair({ refuseBesideOthers, reach: () => expect.unreachable() })).toEqual(nothing);
    expect(await readFile(path('kube-apiserver'), 'utf8')).toBe(manifestOf('kube-apiserver'));
  });

  it('is told by status', async () => {
    expect(await adoptionNotes(directory)).toEqual([
      expect.stringMatching(/^this machine is adopted: its static pods/),
    ]);
    await rewrite('kube-scheduler');
    expect(await adoptionNotes(directory)).toEqual([
      expect.stringContaining('kube-scheduler.yaml has nothing of this program: it has been rewritten'),
    ]);
    await writeFile(adoptionFile(directory), '{}');
    expect(await adoptionNotes(directory)).toEqual([expect.stringContaining('Cannot use record')]);
    await removeRecord(directory);
    expect(await adoptionNotes(directory)).toEqual([]);
  });
});
