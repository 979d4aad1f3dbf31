// The units of `init host`, as systemd itself understands them, printed by the program for a machine that the real
// kubeadm made. Needs systemd-analyze (Debian package systemd); it need not be running.
import { execFile } from 'node:child_process';
import { mkdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { run } from '../../cmd/cli.ts';
import type { HostLine } from '../../cmd/host-flags.ts';
import { initHostCommand } from '../../cmd/host.ts';
import { KubeadmMachine } from '../support/cluster/kubeadm-machine.ts';

let machine: KubeadmMachine;
let units: string;
beforeAll(async () => {
  machine = await KubeadmMachine.create();
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

  it('hands a configuration on in place of flags', async () => {
    await writeFile(
      join(machine.root, 'own.yaml'),
      `apiVersion: kube-cert-recovery/v1alpha1\nkind: Configuration\npreset: kubeadm\n` +
        `directories: { kubernetesDir: ${machine.path()}, pkiDir: ${machine.path('pki')} }\n` +
        'regen: { backupDir: /data/backups, lockDir: /run/own/lock }\n',
    );
    const { exit, out, err } = await cli('init', 'host', '--dry-run', '--executable=/bin/true', '--config=own.yaml');
    expect(exit, err).toBe(0);
    expect(out).toContain(`ExecStart=/bin/true --mode=regen --once --config=${machine.root}/own.yaml --restart\n`);
    const writable = [machine.path(), '/data', '/run', '/var/lib/kubelet'].toSorted().map((path) => `-${path}`);
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
  /** As it is typed, on a machine where systemd would run. */
  async function initHost(line: HostLine): Promise<string> {
    const [out, signal] = [[] as string[], AbortSignal.timeout(60_000)];
    const stdout = { write: (text: string) => out.push(text) };
    const io = { argv: [], env: {}, cwd: machine.root, stdout, stderr: stdout, signal };
    const here = { systemctl: () => Promise.resolve(), unitDirectory: units };
    expect(await initHostCommand({ executable: '/bin/true', ...line }, io, here), out.join('')).toBe(0);
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
});
