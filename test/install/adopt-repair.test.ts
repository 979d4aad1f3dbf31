// Repair on files alone: where an API answers it is tested on a real machine (test/e2e/adopted-host.test.ts).
import { rmSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { RecoveryError } from '../../lib/errors.ts';
import { adoptionNotes } from '../../lib/install/adopt-notes.ts';
import { removeRecord } from '../../lib/install/adopt-record.ts';
import { runRepair } from '../../lib/install/adopt-repair.ts';
import { adoptionFile } from '../../lib/install/layout.ts';
import { podManifest, removeFrom, staticPods } from '../../lib/install/static-pods.ts';
import { createLog } from '../../lib/log.ts';
import { acquireLock } from '../../lib/store/lock.ts';
import { parseYaml, toYaml } from '../../lib/yaml.ts';
import { adoptedMachine, kubeadmManifest, recordIn } from '../support/adopted-files.ts';

let root: string;
let directory: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'adopted-'));
  directory = join(root, 'own');
});
afterEach(() => rm(root, { recursive: true, force: true }));

const record = () => recordIn(root);
const manifestOf = (pod: string): string => kubeadmManifest(pod, root);

describe('runRepair()', () => {
  let told: Readonly<Record<string, string>>[];
  const lockDir = () => join(root, 'lock');
  const repair = (more: Partial<Parameters<typeof runRepair>[0]> = {}): Promise<number> =>
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
  const anew = async (pod: string): Promise<void> => writeFile(path(pod), manifestOf(pod));
  const events = () => told.map(({ event, component }) => `${event} ${component ?? ''}`);

  beforeEach(async () => {
    told = [];
    await adoptedMachine(root);
  });

  it('does nothing where nothing has drifted, and on a machine that is not adopted', async () => {
    const bytes = await readFile(path('kube-apiserver'));
    expect(await repair({ reach: () => expect.unreachable() })).toBe(0);
    await removeRecord(directory);
    await anew('kube-scheduler');
    expect(await repair()).toBe(0);
    expect(await readFile(path('kube-scheduler'), 'utf8')).toBe(manifestOf('kube-scheduler'));
    expect(await readFile(path('kube-apiserver'))).toEqual(bytes);
    expect(told).toEqual([]);
  });

  it('puts right what has been written anew, and nothing else', async () => {
    const before = await Promise.all(staticPods.map(async (pod) => readFile(path(pod), 'utf8')));
    await anew('kube-scheduler');
    expect(await repair()).toBe(1);
    expect(await Promise.all(staticPods.map(async (pod) => readFile(path(pod), 'utf8')))).toEqual(before);
    expect(events()).toEqual(['manifest.drifted kube-scheduler', 'manifest.repaired kube-scheduler']);
    expect(told[1]?.['message']).toContain('whether the pod runs is not known');
    expect(await repair()).toBe(0);
  });

  it('says what it would do', async () => {
    await anew('kube-scheduler');
    expect(await repair({ dryRun: true })).toBe(1);
    expect(await readFile(path('kube-scheduler'), 'utf8')).toBe(manifestOf('kube-scheduler'));
    expect(events()).toEqual(['manifest.drifted kube-scheduler']);
  });

  it('leaves a pod stopped that somebody has stopped', async () => {
    await rm(path('kube-scheduler'));
    expect(await repair()).toBe(0);
  });

  it('refuses a pod to which somebody has given other files, or whose files of ours are gone, and repairs the others', async () => {
    for (const pod of staticPods) await anew(pod);
    const other = manifestOf('kube-scheduler').replace('/scheduler.conf', '/other.conf');
    await writeFile(path('kube-scheduler'), other);
    const lost = record().additions[0]?.layout.configFile ?? '';
    await rm(lost);
    await expect(repair()).rejects.toThrow(`Cannot repair static pod "kube-apiserver": "${lost}" is not there`);
    expect(await readFile(path('kube-apiserver'), 'utf8')).toBe(manifestOf('kube-apiserver'));
    expect(await readFile(path('kube-controller-manager'), 'utf8')).toContain('name: kube-cert-recovery');
    expect(await readFile(path('kube-scheduler'), 'utf8')).toBe(other);
    expect(events().filter((event) => !event.startsWith('manifest.drifted'))).toEqual([
      'manifest.failed kube-apiserver',
      'manifest.repaired kube-controller-manager',
      'manifest.failed kube-scheduler',
    ]);
  });

  it('writes nothing beside kubeadm, nor beside an adoption or its end', async () => {
    await anew('kube-scheduler');
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
    for (const pod of staticPods) await anew(pod);
    // What happens between the first look and the lock.
    const refuseBesideOthers = (): void => rmSync(adoptionFile(directory));
    expect(await repair({ refuseBesideOthers, reach: () => expect.unreachable() })).toBe(0);
    expect(await readFile(path('kube-apiserver'), 'utf8')).toBe(manifestOf('kube-apiserver'));
  });

  it('is told by status', async () => {
    expect(await adoptionNotes(directory)).toEqual([
      expect.stringMatching(/^this machine is adopted: its static pods/),
    ]);
    await anew('kube-scheduler');
    expect(await adoptionNotes(directory)).toEqual([
      expect.stringContaining('kube-scheduler.yaml has nothing of this program: it has been written anew'),
    ]);
    await writeFile(adoptionFile(directory), '{}');
    expect(await adoptionNotes(directory)).toEqual([expect.stringContaining('Cannot use record')]);
    await removeRecord(directory);
    expect(await adoptionNotes(directory)).toEqual([]);
  });

  it('adds to what kubeadm has written what can be taken out again', async () => {
    await anew('kube-apiserver');
    await repair();
    const manifest = podManifest(parseYaml(await readFile(path('kube-apiserver'), 'utf8')), 'kube-apiserver', 'm');
    expect(toYaml(removeFrom(manifest))).toBe(toYaml(parseYaml(manifestOf('kube-apiserver'))));
  });
});
