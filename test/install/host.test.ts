import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { realDisk } from '../../lib/disk/disk.ts';
import { RecoveryError } from '../../lib/errors.ts';
import { applyHost, type HostMachine, removeHost, repairedServices } from '../../lib/install/host-apply.ts';
import {
  type HostUnits,
  manifestsDirectories,
  plainCommand,
  renderHost,
  trialOf,
  unitPaths,
  writableDirectories,
} from '../../lib/install/host.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';

let directory: string;
let told: string[];
let machine: HostMachine;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'host-'));
  told = [];
  machine = { systemctl: async (...args) => void told.push(args.join(' ')) };
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const units = (more: Partial<HostUnits> = {}): HostUnits => ({
  executable: '/opt/kube-cert-recovery',
  flags: ['--preset=kubeadm'],
  writable: ['/etc/kubernetes', '/var/lib/kubelet'],
  manifests: ['/etc/kubernetes/manifests'],
  unitDirectory: directory,
  ...more,
});
const text = (end: string, more: Partial<HostUnits> = {}): string =>
  renderHost(units(more)).find(({ path }) => path.endsWith(end))?.content ?? '';
const line = (content: string, key: string): string | undefined =>
  content.split('\n').find((one) => one.startsWith(`${key}=`));
const installed = async (): Promise<string[]> =>
  (await readdir(directory, { recursive: true })).filter((name) => name.includes('.')).toSorted();

const names = [
  'kube-cert-recovery-adopted.service',
  'kube-cert-recovery.service',
  'kube-cert-recovery.timer',
  'kubelet.service.d',
  'kubelet.service.d/20-kube-cert-recovery.conf',
];

describe('renderHost()', () => {
  it('never lets the kubelet wait as long as systemd waits for it, nor fail', () => {
    const pre = line(text('20-kube-cert-recovery.conf'), 'ExecStartPre') ?? '';
    const [, kill, limit] =
      /^ExecStartPre=-\/usr\/bin\/timeout --kill-after=(\d+)s (\d+)s \/opt\/kube-cert-rec/.exec(pre) ?? [];
    expect(Number(kill) + Number(limit)).toBeLessThanOrEqual(60); // of 90
    expect(pre).toContain('/opt/kube-cert-recovery --mode=regen --once --preset=kubeadm');
  });

  it('repairs before etcd where that is a service, as root, whatever user etcd has', () => {
    const drop = text('etcd.service.d/20-kube-cert-recovery.conf', { before: ['etcd.service'] });
    expect(line(drop, 'ExecStartPre')).toMatch(/^ExecStartPre=-\+\/usr\/bin\/timeout /);
    const all = renderHost(units({ before: ['etcd.service'] })).map(({ path }) => path);
    expect(all).not.toContain(`${directory}/kubelet.service.d/20-kube-cert-recovery.conf`);
    expect(unitPaths(directory, ['etcd.service'])).toEqual(all);
  });

  it('lets the run of the timer follow a start of the kubelet, and of nothing else', () => {
    expect(line(text('20-kube-cert-recovery.conf'), 'Wants')).toBe('Wants=kube-cert-recovery.service');
    const drop = text('etcd.service.d/20-kube-cert-recovery.conf', { before: ['etcd.service'] });
    expect(line(drop, 'Wants')).toBeUndefined();
  });

  it('renews nothing before the kubelet that is still valid', () => {
    const flags = ['--preset=kubeadm', '--renew-before=30d'];
    const pre = line(text('.conf', { flags, renewsAhead: true }), 'ExecStartPre') ?? '';
    expect(pre).toMatch(/ --renew-before=30d --warn-only$/);
    const run = line(text('recovery.service', { flags, renewsAhead: true }), 'ExecStart') ?? '';
    expect(run).toMatch(/ --renew-before=30d --restart$/);
  });

  it('restarts nothing before the kubelet, and what it must in the service', () => {
    expect(text('.conf')).not.toContain('--restart');
    expect(line(text('recovery.service'), 'ExecStart')).toBe(
      'ExecStart=/opt/kube-cert-recovery --mode=regen --once --preset=kubeadm --restart',
    );
  });

  it('repairs an adopted machine with a service of its own, which the timer starts with the other', () => {
    const service = text('adopted.service');
    expect(line(service, 'ExecStart')).toBe('ExecStart=/opt/kube-cert-recovery init adopt --repair --preset=kubeadm');
    expect(line(service, 'ConditionPathExists')).toBe(
      'ConditionPathExists=/etc/kubernetes/kube-cert-recovery/adoption.json',
    );
    expect(line(text('recovery.service'), 'Wants')).toBe('Wants=kube-cert-recovery-adopted.service');
    const elsewhere = text('adopted.service', { adoptionDirectory: '/srv/50% off' });
    expect(line(elsewhere, 'ExecStart')).toMatch(/ "--out=\/srv\/50%% off"$/);
    expect(line(elsewhere, 'ConditionPathExists')).toBe('ConditionPathExists=/srv/50%% off/adoption.json');
    // A start of the kubelet waits for no manifest.
    expect(text('.conf')).not.toContain('--repair');
  });

  it('lets the repair of an adopted machine write manifests and locks, and nothing else', () => {
    const service = text('adopted.service');
    expect(line(service, 'ProtectSystem')).toBe('ProtectSystem=strict');
    expect(line(service, 'ReadWritePaths')).toBe('ReadWritePaths=-/etc/kubernetes/manifests');
    expect(line(service, 'RuntimeDirectory')).toBe('RuntimeDirectory=kube-cert-recovery');
    expect(service).not.toContain('StateDirectory');
    expect(line(text('recovery.service'), 'StateDirectory')).toBe('StateDirectory=kube-cert-recovery');
    const linked = manifestsDirectories({ kubernetesDir: '/srv/k' }, (path) => path.replace('/srv', '/data'));
    expect(linked).toEqual(['/srv/k/manifests', '/data/k/manifests']);
    expect(manifestsDirectories({})).toEqual([]);
  });

  it('takes a calendar timer: the others do not count the time of a suspended machine', () => {
    expect(line(text('.timer'), 'OnCalendar')).toBe('OnCalendar=minutely');
    // Several machines fire apart, and none waits longer than half a period.
    expect(line(text('.timer'), 'RandomizedDelaySec')).toBe('RandomizedDelaySec=30s');
    expect(line(text('.timer'), 'FixedRandomDelay')).toBe('FixedRandomDelay=true');
    expect(text('.timer')).not.toMatch(/^On(?:Boot|Startup|Unit\w+|Active)Sec=/m);
  });

  it('quotes what systemd would read otherwise', () => {
    const odd = {
      executable: '/opt/a b/x',
      flags: ['--directory=pkiDir=/p%i', '--parameter=a=$HOME', '--config=/"c"'],
    };
    expect(line(text('recovery.service', odd), 'ExecStart')).toBe(
      String.raw`ExecStart="/opt/a b/x" --mode=regen --once --directory=pkiDir=/p%%i --parameter=a=$$HOME "--config=/\"c\"" --restart`,
    );
    expect(line(text('recovery.service', { writable: ['/a b'] }), 'ReadWritePaths')).toBe('ReadWritePaths="-/a b"');
  });

  it('lets the service write where the inventory lies, and nowhere else', () => {
    const { artefacts } = resolve(loadPreset('kubeadm'), {});
    const writable = writableDirectories(artefacts, ['/etc/kubernetes', '/var/lib/kubelet']);
    expect(writable).toEqual(['/etc/kubernetes', '/var/lib/kubelet']);
    expect(text('recovery.service')).toContain(
      'ProtectSystem=strict\nReadWritePaths=-/etc/kubernetes -/var/lib/kubelet\n',
    );
    // Links lead elsewhere: a directory, and a single file.
    const real = (path: string): string =>
      path.replace('/etc/kubernetes/pki', '/data/pki').replace('/etc/kubernetes/admin.conf', '/root/admin.conf');
    expect(writableDirectories(artefacts, ['/etc/kubernetes'], real)).toEqual([
      '/data/pki',
      '/etc/kubernetes',
      '/root',
      '/var/lib/kubelet/pki',
    ]);
  });
});

it('trialOf() keeps the conditions of a service, and none of what it does', () => {
  const service = renderHost(units()).find(({ path }) => path.endsWith('/kube-cert-recovery.service'))?.content ?? '';
  const lines = (unit: string): readonly string[] => unit.split('\n').filter((one) => /^[A-Z[]/.test(one));
  const trial = lines(trialOf(service, '/opt/a b$/kube-cert-recovery'));
  expect(trial).toContain('ExecStart="/opt/a b$$/kube-cert-recovery" --version');
  expect(trial).not.toContain('[Unit]');
  const own = new Set(lines(service));
  expect(trial.filter((one) => !own.has(one))).toEqual([
    'ExecStart="/opt/a b$$/kube-cert-recovery" --version',
    'StandardOutput=null',
    'TimeoutStartSec=30s',
  ]);
  const [kept] = [[...own].slice([...own].indexOf('[Service]'))];
  expect(kept.filter((one) => !trial.includes(one))).toEqual([
    expect.stringMatching(/^ExecStart=/),
    'TimeoutStartSec=5min',
  ]);
});

describe('applyHost()', () => {
  it('writes the units, then starts the timer', async () => {
    const outcome = await applyHost(renderHost(units()), machine);
    expect(outcome).toEqual({ written: [...unitPaths(directory)], absent: [] });
    expect(told).toEqual(['daemon-reload', 'enable --now kube-cert-recovery.timer', 'cat kubelet.service']);
    expect(await installed()).toEqual(names);
    for (const path of unitPaths(directory)) expect((await stat(path)).mode & 0o777).toBe(0o644);
  });

  it('run again repairs what has drifted and leaves the rest', async () => {
    await applyHost(renderHost(units()), machine);
    const [, , dropIn = '', timer = ''] = unitPaths(directory);
    await writeFile(dropIn, '[Service]\n');
    await rm(timer);
    const outcome = await applyHost(renderHost(units()), machine);
    expect(outcome).toEqual({ written: [dropIn, timer], absent: [] });
    expect(await readFile(dropIn, 'utf8')).toBe(text('.conf'));
  });

  it('writes nothing where systemd does not run', async () => {
    expect(await applyHost(renderHost(units()), { systemctl: undefined })).toBeUndefined();
    expect(await installed()).toEqual([]);
    expect(plainCommand(units()).join(' ')).toBe('/opt/kube-cert-recovery --mode=regen --once --preset=kubeadm');
  });

  it('says when there is no kubelet, and fails when systemd refuses', async () => {
    const refuse = (what: string): HostMachine => ({
      systemctl: async (...args) => {
        if (args[0] === what) throw new RecoveryError('WriteFailed', 'no');
      },
    });
    expect(await applyHost(renderHost(units()), refuse('cat'))).toMatchObject({ absent: ['kubelet.service'] });
    await expect(applyHost(renderHost(units()), refuse('enable'))).rejects.toMatchObject({ code: 'WriteFailed' });
  });
});

describe('removeHost()', () => {
  const remove = (dryRun = false, more: Partial<HostMachine> = {}): Promise<readonly string[]> =>
    removeHost(unitPaths(directory), { ...machine, ...more, dryRun });

  it('takes all away, the timer stopped first', async () => {
    await applyHost(renderHost(units()), machine);
    await writeFile(join(directory, 'kubelet.service.d/10-kubeadm.conf'), '');
    told.length = 0;
    expect(await remove()).toEqual([...unitPaths(directory)]);
    expect(told).toEqual(['disable --now kube-cert-recovery.timer', 'daemon-reload']);
    expect(await installed()).toEqual(['kubelet.service.d', 'kubelet.service.d/10-kubeadm.conf']);
    told.length = 0;
    expect(await remove()).toEqual([]);
    expect(told).toEqual([]);
  });

  it('also takes away what stands before services that another inventory has named', async () => {
    const before = ['rke2-server.service'];
    await applyHost(renderHost(units({ before })), machine, before);
    const services = await repairedServices(directory);
    expect(services).toEqual(['kubelet.service', ...before]);
    expect(await removeHost(unitPaths(directory, services), { ...machine, dryRun: false })).toHaveLength(4);
    expect(await installed()).toEqual(['rke2-server.service.d']);
  });

  it('interrupted at any file, is completed by the next', async () => {
    for (const at of [1, 2, 3, 4]) {
      await applyHost(renderHost(units()), machine);
      let calls = 0;
      const rmOnce: typeof realDisk.rm = async (path, options) => {
        calls += 1;
        if (calls === at) throw Object.assign(new Error('x'), { code: 'EIO' });
        return realDisk.rm(path, options);
      };
      await expect(remove(false, { disk: { ...realDisk, rm: rmOnce } })).rejects.toMatchObject({ code: 'WriteFailed' });
      told.length = 0;
      expect((await remove()).length).toBeGreaterThan(0);
      expect(told).toEqual(['disable --now kube-cert-recovery.timer', 'daemon-reload']);
      expect((await installed()).filter((name) => name.includes('recovery'))).toEqual([]);
    }
  });

  it('says what it would remove', async () => {
    await applyHost(renderHost(units()), machine);
    expect(await remove(true)).toHaveLength(4);
    expect(await installed()).toEqual(names);
  });
});
