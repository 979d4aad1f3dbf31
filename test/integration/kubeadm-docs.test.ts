// The commands of docs/kubeadm.md, run as they are written, in their order, on files that the real kubeadm has made. They
// find these where a machine has them: in a mount namespace with an /etc, a /var/lib and a /run of its own. systemd does
// not run there; what the units do on a machine where it runs is told by test/e2e.
import { createHash } from 'node:crypto';
import { copyFile, mkdir, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { blocks, firstCodes, page, section } from '../docs/markdown.ts';
import { createLeaf } from '../support/certificates/certificates.ts';
import { KubeadmMachine, type Outcome } from '../support/cluster/kubeadm-machine.ts';
import { onMachine } from '../support/cluster/machine-shell.ts';

const text = page('docs/kubeadm.md');
const commands = blocks(text).flatMap(({ language, text: command }) => (language === 'sh' ? [command.trim()] : []));
const [initHost = '', status = '', dryRun = '', forecast = '', repair = '', ...others] = commands;
const [repairAdopted = '', list = '', restore = '', uninstall = ''] = others;

let machine: KubeadmMachine;
beforeAll(async () => {
  machine = await KubeadmMachine.create();
  for (const directory of ['var/lib/kubelet', 'var/lib/kube-cert-recovery'])
    await mkdir(join(machine.root, directory), { recursive: true });
});
afterAll(() => machine?.[Symbol.asyncDispose]());

/** The command as it is written, on the machine. */
const run = (command: string): Promise<Outcome> => onMachine(machine.root, command);

/** Every file of the machine by the digest of its content. */
async function files(): Promise<Readonly<Record<string, string>>> {
  const all = await readdir(machine.root, { recursive: true, withFileTypes: true });
  const digests = all
    .filter((entry) => entry.isFile())
    .map(async ({ parentPath, name }): Promise<[string, string]> => {
      const bytes = await readFile(join(parentPath, name));
      return [join(parentPath, name), createHash('sha256').update(bytes).digest('hex')];
    });
  return Object.fromEntries(await Promise.all(digests));
}

const certificate = (): Promise<string> => readFile(machine.path('pki/apiserver.crt'), 'utf8');

async function expireApiserver(): Promise<string> {
  const signer = { cert: machine.path('pki/ca.crt'), key: machine.path('pki/ca.key') };
  const leaf = await createLeaf(join(machine.root, 'tmp'), signer, {
    commonName: 'kube-apiserver',
    dnsNames: ['node1', 'kubernetes', 'kubernetes.default', 'kubernetes.default.svc', 'by-hand.example.com'],
    usages: ['serverAuth'],
    notBefore: new Date('2025-01-01T00:00:00Z'),
    notAfter: new Date('2026-01-01T00:00:00Z'),
  });
  await copyFile(leaf.cert, machine.path('pki/apiserver.crt'));
  await copyFile(leaf.key, machine.path('pki/apiserver.key'));
  return certificate();
}

describe('docs/kubeadm.md', () => {
  it('has these commands, each of them run below', () => {
    expect(commands).toHaveLength(9);
    for (const command of commands) expect(command).toMatch(/^kube-cert-recovery .*$/);
  });

  it('init host --dry-run prints the units of its table and writes nothing', async () => {
    const before = await files();
    const { stdout, stderr, code } = await run(initHost);
    expect(code, stderr).toBe(0);
    const units = [...stdout.matchAll(/^# \/etc\/systemd\/system\/(\S+)$/gm)].map(([, unit = '']) => unit);
    expect(units.toSorted()).toEqual(firstCodes(section(text, 'Once, on each control-plane node')).toSorted());
    expect(stdout).toContain('--mode=regen --once --preset=kubeadm');
    expect(await files()).toEqual(before);
  });

  it('init host without --dry-run says what to run where there is no systemd', async () => {
    const { stdout, code } = await run(initHost.replace(' --dry-run', ''));
    expect(code).toBe(1);
    for (const plain of [repair, repairAdopted]) {
      expect(stdout).toContain(plain.replace('kube-cert-recovery ', '/kube-cert-recovery '));
    }
  });

  it('status finds nothing wrong on a fresh machine', async () => {
    const { stdout, stderr, code } = await run(status);
    expect(code, stderr).toBe(0);
    expect(stdout).toContain('Every certificate on disk is as it should be. kube-apiserver, etcd do not answer');
    expect(stdout).toContain(
      'nothing repairs this machine by itself until "kube-cert-recovery init host" has been run',
    );
    const [, units = '', plain = ''] = /until "(.+?)" has been run, unless .* runs "(.+?)" before/.exec(stdout) ?? [];
    for (const command of [`${units} --dry-run`, plain]) {
      const typed = await run(command);
      expect(typed.code, `${command}\n${typed.stderr}`).toBe(0);
    }
  });

  it('status --at says that the machine would not come back by itself before init host', async () => {
    const inTwoYears = new Date(systemClock.now().getTime() + 2 * 365 * 86_400_000).toISOString().slice(0, 10);
    const { stdout } = await run(forecast.replace(/--at=\S+/, `--at=${inTwoYears}`));
    expect(stdout).toContain('this node would not come back by itself: nothing on it is known');
  });

  it('--once --dry-run says what would be made, and writes nothing', async () => {
    await expireApiserver();
    const before = await files();
    const { stderr, code } = await run(dryRun);
    expect(code, stderr).toBe(0);
    expect(stderr).toContain('"event":"rotation.decided"');
    expect(stderr).not.toContain('"event":"target.regenerated"');
    expect(await files()).toEqual(before);
    expect((await run(status)).code).toBe(3);
  });

  it('the plain command repairs, and keeps a copy', async () => {
    const before = await certificate();
    const { stderr, code } = await run(repair);
    expect(code, stderr).toBe(0);
    expect(await certificate()).not.toBe(before);
    const after = await run(status);
    expect(after.code, after.stdout).toBe(0);
    expect((await run(list)).stdout).toMatch(/^apiserver +000001 +\S+ +2026-01-01T00:00:00.000Z \(expired\)$/m);
  });

  it('the repair of manifests is silent where nothing is adopted', async () => {
    expect(await run(repairAdopted)).toEqual({ stdout: '', stderr: '', code: 0 });
  });

  it('restore puts the copy back, and keeps what was there', async () => {
    const made = await certificate();
    const refused = await run(restore);
    expect(refused.code, refused.stderr).toBe(1);
    expect(refused.stderr).toContain('--force restores it all the same');
    const { stdout, stderr, code } = await run(`${restore} --force`);
    expect(code, stderr).toBe(0);
    expect(stdout).toContain('Restored apiserver of ');
    expect(await certificate()).not.toBe(made);
    expect((await run(status)).stdout).toMatch(/^apiserver +EXPIRED +reissued/m);
    const again = await run(`${restore} --generation 2`);
    expect(again.code, again.stderr).toBe(0);
    expect(await certificate()).toBe(made);
  });

  it('uninstall host finds nothing to remove where nothing was installed', async () => {
    expect(await run(uninstall)).toMatchObject({ code: 0, stdout: 'Nothing to remove.\n' });
  });
});
