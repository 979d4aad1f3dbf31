// The commands of docs/kubeadm.md, run as they are written, in their order, on files that the real kubeadm has made. They
// find these where a machine has them: in a mount namespace with an /etc, a /var/lib and a /run of its own. systemd does
// not run there; what the units do on a machine where it runs is told by test/e2e.
import { createHash } from 'node:crypto';
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { blocks, firstCodes, page, section } from '../docs/markdown.ts';
import { createLeaf } from '../support/certificates/certificates.ts';
import { KubeadmMachine, type Outcome } from '../support/cluster/kubeadm-machine.ts';
import { onMachine } from '../support/cluster/machine-shell.ts';

const text = page('docs/kubeadm.md');
const commands = blocks(text).flatMap(({ language, text: command }) => (language === 'sh' ? [command.trim()] : []));
const [initHost = '', check = '', status = '', dryRun = '', forecast = '', repair = '', ...others] = commands;
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
    expect(commands).toHaveLength(10);
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

  it('init host --check says what would change, and writes nothing', async () => {
    const before = await files();
    const { stdout, stderr, code } = await run(check);
    expect(code, stderr).toBe(1);
    const told = JSON.parse(stdout) as { readonly units: readonly { readonly isChanged: boolean }[] };
    expect(told).toMatchObject({ changed: true, armed: false, changes: [] });
    expect(told.units.map(({ isChanged }) => isChanged)).toEqual([true, true, true, true]);
    for (const key of Object.keys(told))
      if (!/^(apiVersion|kind|status)$/.test(key)) expect(text).toContain(`\`${key}\``);
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
      '\nARMED: no: "/etc/systemd/system/kube-cert-recovery.service" and 3 more absent. Nothing ',
    );
    const [, units = '', plain = ''] =
      /^Run: (.+?)\. Another .* run "(.+?)" before each start of the kubelet\.$/m.exec(stdout) ?? [];
    for (const command of [`${units} --dry-run`, plain]) {
      const typed = await run(command);
      expect(typed.code, `${command}\n${typed.stderr}`).toBe(0);
    }
  });

  it('docs/status.md: each of its commands for such a machine runs as it is written', async () => {
    const pages = ['On a kubeadm machine'].map((title) => section(page('docs/status.md'), title));
    const typed = pages.flatMap((part) => blocks(part)).flatMap((one) => (one.language === 'shell' ? one.text : []));
    const outputs: string[] = [];
    const soon = new Date(systemClock.now().getTime() + 86_400_000).toISOString().slice(0, 10);
    for (const command of typed.flatMap((block) => block.trim().split('\n'))) {
      const { stdout, stderr, code } = await run(
        command
          .replace(/--at=\S+/, `--at=${soon}`)
          .replace(/--wait=\S+/, '--wait=1s')
          .replace(/^.*--watch/, 'timeout --preserve-status 3 $&'),
      );
      // jq --exit-status says that it is not armed.
      expect(code, `${command}\n${stderr}`).toBe(/--exit-status/.test(command) ? 1 : 0);
      outputs.push(stdout);
    }
    const told = outputs.join('\n');

    expect(told).toMatch(/^READ BY +kube-apiserver --tls-cert-file: a change is noticed$/m);
    expect(told).toMatch(/^SIGNS +apiserver, /m);
    expect(told).toMatch(/^WITHOUT IT +Pods refuse the API server .* \(R8\)$/m);
    expect(told).toMatch(/^NEXT +reissued, if armed, when it expires: .* \(not armed\)$/m);
    expect(told).toMatch(/^NEXT +valid for /m);
    const { stderr, code } = await run('kube-cert-recovery explain apisever');
    expect([code, stderr]).toEqual([2, expect.stringContaining('(did you mean "apiserver"?)')]);
  });

  it('status names what has been taken from the units that init host writes', async () => {
    const [printedUnits = ''] = (await run(initHost)).stdout.split('# Rights of this host');
    const printed = printedUnits.split(/^# (\/etc\/systemd\/system\/\S+)\n/m).slice(1);
    const units = join(machine.root, 'var/lib/units');
    for (let at = 0; at < printed.length; at += 2) {
      const path = join(units, (printed[at] ?? '').replace('/etc/systemd/system', ''));
      await mkdir(dirname(path), { recursive: true });
      await writeFile(path, printed[at + 1] ?? '');
    }
    const armedAfter = async (change: string): Promise<object> => {
      const place = `mkdir -p /etc/systemd && cp -r /var/lib/units /etc/systemd/system && cd /etc/systemd/system\n${change}\n`;
      const { stdout, code } = await onMachine(machine.root, `${status} -o json --at=2030-01-01`, { place });
      const { armed, reasons } = JSON.parse(stdout) as { readonly armed: boolean; readonly reasons: readonly string[] };
      return { code, armed, reasons };
    };
    const [dropIn, service] = ['kubelet.service.d/20-kube-cert-recovery.conf', 'kube-cert-recovery.service'];
    const systemd = 'systemd does not run here, and starts nothing';
    const unarmed = (...reasons: readonly string[]): object => ({ code: 3, armed: false, reasons });
    expect(await armedAfter('')).toEqual(unarmed(systemd)); // the rest is as init host writes it
    expect(await armedAfter(`rm ${dropIn}`)).toEqual(unarmed(`"/etc/systemd/system/${dropIn}" absent`));
    for (const file of [dropIn, service])
      expect(await armedAfter(`sed -i 's/--once/& --dry-run/' ${file}`)).toEqual(
        unarmed(`"/etc/systemd/system/${file}" is not as init host writes it`, systemd),
      );
    expect(
      await armedAfter(`sed -i 's#/\\S*/kube-cert-recovery \\(--mode\\|init\\)#/gone \\1#' *.service ${dropIn}`),
    ).toEqual(unarmed('"/gone", which the units start, does not run: "--version" ended ENOENT', systemd));
    await rm(units, { recursive: true });
  });

  it('status --at says that the machine would not come back by itself before init host', async () => {
    const inTwoYears = new Date(systemClock.now().getTime() + 2 * 365 * 86_400_000).toISOString().slice(0, 10);
    const { stdout } = await run(forecast.replace(/--at=\S+/, `--at=${inTwoYears}`));
    expect(stdout).toContain('this node would not come back by itself, because it is not armed: ');
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
