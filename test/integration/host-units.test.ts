// The units of `init host`, as systemd itself understands them, printed by the program for a machine that the real
// kubeadm made. Needs systemd-analyze (Debian package systemd); it need not be running.
import { execFile } from 'node:child_process';
import { mkdir, readdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { run } from '../../cmd/cli.ts';
import type { HostLine } from '../../cmd/host-flags.ts';
import { initHostCommand } from '../../cmd/host.ts';
import { uninstallHostCommand } from '../../cmd/uninstall-host.ts';
import { type Disk, realDisk } from '../../lib/disk/disk.ts';
import { advertiseAddress, KubeadmMachine } from '../support/cluster/kubeadm-machine.ts';

let machine: KubeadmMachine;
let units: string;
beforeAll(async () => {
  machine = await KubeadmMachine.create();
  // Nobody answers at the address, as outside of a network of its own; this one says so at once.
  for (const name of ['admin.conf', 'super-admin.conf', 'kubelet.conf', 'controller-manager.conf', 'scheduler.conf']) {
    const text = await readFile(machine.path(name), 'utf8');
    await writeFile(machine.path(name), text.replaceAll(`${advertiseAddress}:6443`, '127.0.0.1:1'));
  }
  units = join(machine.root, 'units');
  for (const [name, text] of Object.entries(await printedUnits())) await put(name, text);
  await put('kubelet.service', '[Service]\nExecStart=/bin/true\n');
});
afterAll(() => machine?.[Symbol.asyncDispose]());

async function put(name: string, text: string): Promise<void> {
  await mkdir(dirname(join(units, name)), { recursive: true });
  await writeFile(join(units, name), text);
}

interface Result {
  readonly exit: number;
  readonly out: string;
  readonly err: string;
}

async function cli(...argv: readonly string[]): Promise<Result> {
  const [out, err]: [string[], string[]] = [[], []];
  const stdout = { write: (text: string) => out.push(text) };
  const stderr = { write: (text: string) => err.push(text) };
  const signal = AbortSignal.timeout(60_000);
  const exit = await run({ argv, env: {}, cwd: machine.root, stdout, stderr, signal });
  return { exit, out: out.join(''), err: err.join('') };
}

const directories = (): readonly string[] => [
  '--directory=kubernetesDir=etc/kubernetes',
  '--directory=pkiDir=etc/kubernetes/pki',
  '--directory=kubeletDir=var/lib/kubelet',
];

/** Text by path below /etc/systemd/system. */
async function printedUnits(): Promise<Readonly<Record<string, string>>> {
  const { exit, out, err } = await cli('init', 'host', '--dry-run', '--executable=/bin/true', ...directories());
  expect(exit, err).toBe(0);
  const [printed = ''] = out.split(/^# Rights of this host/m);
  const parts = printed.split(/^# \/etc\/systemd\/system\/(\S+)\n/m).slice(1);
  return Object.fromEntries(parts.flatMap((name, at) => (at % 2 === 0 ? [[name, parts[at + 1] ?? '']] : [])));
}

/** Rejects when systemd-analyze is not there. */
function analyze(...args: readonly string[]): Promise<string> {
  const env = { ...process.env, SYSTEMD_UNIT_PATH: `${units}:` };
  return new Promise((resolve, reject) => {
    execFile('systemd-analyze', args, { env }, (err, _stdout, stderr) => {
      if (err !== null && typeof err.code !== 'number') reject(err);
      else resolve(`${stderr}${err === null ? '' : `exit ${String(err.code)}`}`);
    });
  });
}

const services = ['kube-cert-recovery.service', 'kube-cert-recovery-adopted.service'];
const verify = (): Promise<string> =>
  analyze('verify', '--man=no', ...services, 'kube-cert-recovery.timer', 'kubelet.service');

describe('systemd-analyze', () => {
  it('has nothing to say about the units, the drop-in of the kubelet included', async () => {
    expect(await verify()).toBe('');
  });

  it('would say it: an option that there is not, a command that is none', async () => {
    const { 'kube-cert-recovery.service': service = '', ...rest } = await printedUnits();
    const [dropIn = ''] = Object.keys(rest).filter((name) => name.endsWith('.conf'));
    await put('kube-cert-recovery.service', service.replace('ProtectClock', 'ProtectClok'));
    await put(dropIn, (rest[dropIn] ?? '').replace('/usr/bin/timeout', 'usr/bin/timeout'));
    const told = await verify();
    expect(told).toContain("Unknown key 'ProtectClok'");
    expect(told).toContain('Neither a valid executable name nor an absolute path');
    await put('kube-cert-recovery.service', service);
    await put(dropIn, rest[dropIn] ?? '');
  });

  it.each(services)('finds %s little exposed', async (name) => {
    const service = join(units, name);
    expect(await analyze('security', '--offline=true', '--threshold=40', '--no-pager', service)).toBe('');
  });

  it('knows when the timer elapses', async () => {
    expect(await analyze('calendar', 'minutely')).toBe('');
  });
});

describe('init host', () => {
  it('says the directories and the program in full, whatever directory systemd starts it in', async () => {
    const { 'kube-cert-recovery.service': service = '' } = await printedUnits();
    expect(service).toContain(`--preset=kubeadm --directory=kubernetesDir=${machine.path()} `);
    expect(service).toContain(`ReadWritePaths=-${machine.path()} -${join(machine.root, 'var/lib/kubelet')}\n`);
  });

  it('lets the service write where links lead, which the sandbox would refuse otherwise', async () => {
    const [pki, elsewhere] = [machine.path('pki'), join(machine.root, 'data/pki')];
    await mkdir(dirname(elsewhere));
    await rename(pki, elsewhere);
    await symlink(elsewhere, pki);
    const { 'kube-cert-recovery.service': service = '' } = await printedUnits();
    await rm(pki);
    await rename(elsewhere, pki);
    expect(service).toMatch(new RegExp(`^ReadWritePaths=.*-${elsewhere}( |$)`, 'm'));
  });

  it('lets the service write where the kubelet has the CA of its clients', async () => {
    const settings = {
      kind: 'KubeletConfiguration',
      authentication: { x509: { clientCAFile: '/srv/kubelet/cas.crt' } },
    };
    const file = join(machine.root, 'var/lib/kubelet/config.yaml');
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, JSON.stringify(settings));
    const { 'kube-cert-recovery.service': service = '' } = await printedUnits();
    await rm(file);
    expect(service).toMatch(/^ReadWritePaths=.*-\/srv\/kubelet( |$)/m);
  });

  it('hands a configuration on in place of flags', async () => {
    await writeFile(
      join(machine.root, 'own.yaml'),
      `apiVersion: kube-cert-recovery/v1alpha1\nkind: Configuration\npreset: kubeadm\n` +
        `directories: { kubernetesDir: ${machine.path()}, pkiDir: ${machine.path('pki')} }\n` +
        'regen: { backupDir: /data/backups, lockDir: /run/own/lock }\n',
    );
    const given = ['--executable=/bin/true', '--config=own.yaml', '--metrics-file=/textfiles/c.prom'];
    const { exit, out, err } = await cli('init', 'host', '--dry-run', ...given);
    expect(exit, err).toBe(0);
    const flags = `--config=${machine.root}/own.yaml --metrics-file=/textfiles/c.prom`;
    expect(out).toContain(`ExecStart=/bin/true --mode=regen --once ${flags} --restart\n`);
    const writable = [machine.path(), '/data', '/run', '/textfiles', '/var/lib/kubelet']
      .toSorted()
      .map((path) => `-${path}`);
    expect(out).toContain(`ReadWritePaths=${writable.join(' ')}\n`);
  });

  it('refuses flags that the units would not use, and a program that is none, together', async () => {
    const idle = ['--kubeconfig=/k', '--server=https://s'];
    const { exit, err } = await cli('init', 'host', '--executable=/nowhere', ...idle);
    expect(exit).toBe(2);
    const paths = err.split('\n').flatMap((text) => /^ {2}(--[a-z-]+):/.exec(text)?.[1] ?? []);
    expect(paths.toSorted()).toEqual(['--executable', '--kubeconfig', '--server']);
  });

  it('refuses a machine that is no control plane of kubeadm', async () => {
    const { exit, err } = await cli(
      'init',
      'host',
      '--executable=/bin/true',
      '--directory=pkiDir=/nowhere',
      '--directory=kubernetesDir=/nowhere',
    );
    expect(exit).toBe(1);
    expect(err).toMatch(/^Cannot find a control plane of kubeadm on this machine.*\n$/);
  });
});

describe('init host on a machine that has its units', () => {
  const service = (): Promise<string> => readFile(join(units, 'kube-cert-recovery.service'), 'utf8');
  const timer = '--renew-before=30d --window=Sat/02:00-05:00';
  /** Of the last command. */
  let warned: string;
  /** Of systemctl. */
  const calls: string[] = [];
  /** As it is typed, on a machine where systemd would run. */
  async function initHost(line: HostLine, code = 0, disk: Disk = realDisk): Promise<string> {
    const [out, err, signal] = [[] as string[], [] as string[], AbortSignal.timeout(60_000)];
    const stdout = { write: (text: string) => out.push(text) };
    const io = {
      argv: [],
      env: {},
      cwd: machine.root,
      stdout,
      stderr: { write: (text: string) => err.push(text) },
      signal,
    };
    const here = {
      async systemctl(...args: readonly string[]) {
        calls.push(args.join(' '));
      },
      unitDirectory: units,
      disk,
    };
    expect(await initHostCommand({ executable: '/bin/true', ...line }, io, here), [...out, ...err].join('')).toBe(code);
    warned = err.join('');
    return out.join('');
  }

  it('keeps what they were told, and says it; a flag changes one thing; none takes renewal away', async () => {
    await rm(join(units, 'kube-cert-recovery.service'));
    const directory = directories().map((flag) => flag.replace('--directory=', ''));
    const first = { directory, renewBefore: '30d', window: 'Sat/02:00-05:00' };
    expect(await initHost(first)).toContain('\nRenewal before expiry: 30d in Sat/02:00-05:00\n');
    const told = await service();
    expect(told).toContain(timer);
    expect(await initHost({})).toContain('\nRenewal before expiry: 30d in Sat/02:00-05:00\n');
    expect(await service()).toBe(told);
    const changed = await initHost({ caRenewal: 'Report', window: 'none' });
    expect(changed).toContain('\nRenewal before expiry: was 30d in Sat/02:00-05:00, now 30d\n');
    expect(changed).toContain('\n--ca-renewal: was not given, now Report\n');
    expect(await initHost({ renewBefore: 'none' })).toContain('\nRenewal before expiry: was 30d, now off\n');
    expect(await service()).not.toContain('--renew-before');
    expect(await service()).toContain(`--directory=kubernetesDir=${machine.path()} `);
    expect(await service()).toContain('--ca-renewal=Report');
  });

  it('lists what each unit does and when, the next date, and ends as status does', async () => {
    await rm(join(units, 'kubelet.service.d'), { recursive: true });
    const directory = directories().map((flag) => flag.replace('--directory=', ''));
    const wouldWrite = await initHost({ directory, check: true }, 1);
    const dropIn = join(units, 'kubelet.service.d/20-kube-cert-recovery.conf');
    expect(wouldWrite).toContain(
      `\nWould write ${dropIn}\n  before each start of the kubelet: reissues what has expired\n`,
    );
    await expect(readFile(dropIn)).rejects.toThrow('ENOENT');
    const lines = (await initHost({ directory })).trimEnd().split('\n');
    expect(lines).toContain(`Wrote ${dropIn}`);
    expect(lines).toContain('  once a minute, and at the boot: starts these services');
    expect(lines.find((line) => line.startsWith('Next'))).toMatch(/^Next: \w{3} \d\d, \d{4} .* UTC: .*apiserver/);
    expect(lines.at(-4)).toContain('To do: 192.0.2.10 is no address');
    expect(lines.slice(-3)).toEqual([
      'Something is wrong (see above).',
      expect.stringMatching(/^ARMED: no: systemd does not run here, and starts nothing\. /),
      expect.stringMatching(/^Run: kube-cert-recovery init host /),
    ]);
  });

  it('--check -o json says the same to a program, and changes nothing', async () => {
    await initHost({});
    const unchanged = JSON.parse(await initHost({ check: true, output: 'json' }, 1)) as object;
    const same = { path: join(units, 'kube-cert-recovery.timer'), isChanged: false };
    // What it would still change: systemd, which does not run here.
    expect(unchanged).toMatchObject({
      kind: 'HostInstallation',
      changed: true,
      changes: [],
      armed: false,
      nextAt: expect.any(String),
    });
    expect(unchanged).toMatchObject({ units: expect.arrayContaining([expect.objectContaining(same)]) });
    const written = JSON.parse(await initHost({ renewBefore: '30d', output: 'json' })) as object;
    expect(written).toMatchObject({ changed: true, changes: ['Renewal before expiry: was off, now 30d'] });
    expect(await service()).toContain('--renew-before=30d');
  });

  it('warns of a file of metrics whose directory is absent, and of no other', async () => {
    await initHost({ check: true, metricsFile: '/nowhere/certs.prom' }, 1);
    expect(warned).toContain('--metrics-file: "/nowhere" is not there, and nothing is written until it is');
    await initHost({ check: true, metricsFile: join(machine.root, 'certs.prom') }, 1);
    expect(warned).not.toContain('--metrics-file');
  });

  it('removes the file of metrics that they wrote, when they write another or none, and no other file', async () => {
    const at = (name: string): string => join(machine.root, `${name}.prom`);
    const [first, second, others] = [at('first'), at('second'), at('others')];
    const own = '# HELP kube_cert_recovery_build_info Version\nkube_cert_recovery_build_info{version="1"} 1\n';
    for (const path of [first, second]) await writeFile(path, own);
    await writeFile(others, 'node_boot_time_seconds 1\n');
    const names = async () => (await readdir(machine.root)).filter((name) => name.endsWith('.prom')).toSorted();

    await initHost({ metricsFile: first });
    expect(await initHost({})).not.toContain('Removed');
    expect(await initHost({ metricsFile: second, check: true }, 1)).toContain(`\nWould remove ${first}\n`);
    expect(await names()).toEqual(['first.prom', 'others.prom', 'second.prom']);
    calls.length = 0;
    expect(await initHost({ metricsFile: second })).toContain(`\nRemoved ${first}\n`);
    // A run that began before would write it again.
    expect(calls.at(-1)).toBe('start kube-cert-recovery.service');
    expect(await names()).toEqual(['others.prom', 'second.prom']);
    await initHost({ metricsFile: others });
    expect(await initHost({ metricsFile: 'none' })).not.toContain('Removed');
    expect(await names()).toEqual(['others.prom']);
  });

  it('are written also where that file cannot be removed, which is said', async () => {
    const [stays, next] = [join(machine.root, 'stays.prom'), join(machine.root, 'later.prom')];
    await writeFile(stays, 'kube_cert_recovery_build_info{version="1"} 1\n');
    await initHost({ metricsFile: stays });
    const rmOthers: Disk['rm'] = (path, options) =>
      path === stays
        ? Promise.reject(Object.assign(new Error('refused'), { code: 'EPERM' }))
        : realDisk.rm(path, options);
    const told = await initHost({ metricsFile: next }, 0, { ...realDisk, rm: rmOthers });
    expect(told).not.toContain('Removed');
    expect(warned).toContain(`Cannot remove metrics file "${stays}"`);
    expect(await readFile(join(units, 'kube-cert-recovery.service'), 'utf8')).toContain(`--metrics-file=${next}`);
  });

  it('removes it also where the file of --config had named it, and with uninstall host', async () => {
    const config = join(machine.root, 'metrics.yaml');
    const yaml = (more: string): string =>
      `apiVersion: kube-cert-recovery/v1alpha1\nkind: Configuration\npreset: kubeadm\ndirectories: { kubernetesDir: ${machine.path()} }\n${more}`;
    const file = join(machine.root, 'named.prom');
    const write = (): Promise<void> => writeFile(file, 'kube_cert_recovery_build_info{version="1"} 1\n');
    await write();
    await writeFile(config, yaml(`regen: { metricsFile: ${file} }\n`));
    await initHost({ config });
    expect(await initHost({ metricsFile: join(machine.root, 'next.prom') })).toContain(`\nRemoved ${file}\n`);
    await write();
    await initHost({ metricsFile: file });
    const [told, signal, out] = [[] as string[], AbortSignal.timeout(60_000), join(machine.root, 'out')];
    const stdout = { write: (text: string) => told.push(text) };
    const io = { argv: [], env: {}, cwd: machine.root, stdout, stderr: stdout, signal };
    const here = { systemctl: () => Promise.resolve(), unitDirectory: units };
    expect(await uninstallHostCommand({ out, dryRun: true }, io, here)).toBe(0);
    expect(told.join('')).toContain(`Would remove ${file}\n`);
    const refused = Object.assign(new Error('refused'), { code: 'EPERM' });
    const rmOthers: Disk['rm'] = (path, options) =>
      path === file ? Promise.reject(refused) : realDisk.rm(path, options);
    told.length = 0;
    expect(await uninstallHostCommand({ out }, io, { ...here, disk: { ...realDisk, rm: rmOthers } })).toBe(0);
    expect(told.join('')).toMatch(new RegExp(`^Cannot remove metrics file "${file}".*\\nRemoved `));
    await expect(readFile(join(units, 'kube-cert-recovery.timer'))).rejects.toThrow('ENOENT');

    await initHost({ config, metricsFile: file });
    expect(await uninstallHostCommand({ out }, io, here)).toBe(0);
    await expect(readFile(file)).rejects.toThrow('ENOENT');
  });

  it('does not say that renewal is off where a file asks for it', async () => {
    const config = join(machine.root, 'ahead.yaml');
    const yaml = 'apiVersion: kube-cert-recovery/v1alpha1\nkind: Configuration\npreset: kubeadm\n';
    await writeFile(config, `${yaml}directories: { kubernetesDir: ${machine.path()} }\nregen: { renewBefore: 30d }\n`);
    await expect(initHost({ config, renewBefore: 'none' })).rejects.toThrow(
      `--renew-before: cannot take away what "${config}" says`,
    );
  });
});

it('uninstall host says that there is nothing, where there is nothing', async () => {
  const { exit, out } = await cli('uninstall', 'host', '--dry-run');
  expect({ exit, out }).toEqual({ exit: 0, out: 'Nothing to remove.\n' });
  const told = await cli('uninstall', 'host', '--check', '-o=json');
  expect([told.exit, JSON.parse(told.out)]).toEqual([0, expect.objectContaining({ changed: false, removed: [] })]);
});
