// Renewal before expiry on files that the real kubeadm has made with a short life: by the commands of
// docs/renew-before-expiry.md and docs/instead-of-cron.md, as they are written, and by a run of mode regen. The files lie
// where a machine has them, in a mount namespace; systemd does not run there.
import { X509Certificate } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseToolConfig } from '../../lib/config/load.ts';
import { installedPresets, presetNames } from '../../lib/inventory/preset.ts';
import { blocks, page } from '../docs/markdown.ts';
import { KubeadmMachine, type Outcome } from '../support/cluster/kubeadm-machine.ts';
import { onMachine } from '../support/cluster/machine-shell.ts';

const day = 86_400_000;
const pages = ['docs/renew-before-expiry.md', 'docs/instead-of-cron.md'];
const commands = pages.flatMap((path) =>
  blocks(page(path)).flatMap(({ language, text }) => (language === 'sh' ? text.trim().split('\n') : [])),
);
const yaml = blocks(page(pages[0] ?? '')).find(({ language }) => language === 'yaml')?.text ?? '';

let fresh: KubeadmMachine;
beforeAll(async () => {
  fresh = await KubeadmMachine.create('certificateValidityPeriod: 480h0m0s');
});
afterAll(() => fresh?.[Symbol.asyncDispose]());

/** Another one, with a kubelet's directory. */
async function another(): Promise<KubeadmMachine> {
  const machine = await fresh.copy();
  for (const directory of ['var/lib/kubelet', 'var/lib/kube-cert-recovery'])
    await mkdir(join(machine.root, directory), { recursive: true });
  return machine;
}

/** Its clock is synchronised. */
const place = 'mkdir -p /run/systemd/timesync && touch /run/systemd/timesync/synchronized\n';
const run = (machine: KubeadmMachine, command: string): Promise<Outcome> =>
  onMachine(machine.root, command, { place, env: { TZ: 'UTC' } });

const once = 'kube-cert-recovery --mode=regen --once --preset=kubeadm';
const events = ({ stderr }: Outcome, event: string): readonly string[] =>
  stderr.split('\n').flatMap((line) => {
    const { event: name, artefact, reason } = JSON.parse(line || '{}') as Record<string, string>;
    return name === event ? [`${artefact} ${reason}`] : [];
  });
async function daysLeft(machine: KubeadmMachine, name: string): Promise<number> {
  const { validTo } = new X509Certificate(await readFile(machine.path('pki', `${name}.crt`)));
  return (new Date(validTo).getTime() - Date.now()) / day;
}
/** A window that begins in `hours`, and lasts one; the turn of each node begins in its first three quarters. */
function windowIn(hours: number): string {
  const text = (ms: number): string => new Date(ms).toISOString().slice(11, 16);
  const begins = Date.now() + hours * 3_600_000;
  return `${text(begins)}-${text(begins + 3_600_000)} UTC`;
}

describe('the commands of the pages', () => {
  it('are these, each run below', () => {
    expect(commands).toHaveLength(9);
    for (const command of commands) expect(command).toMatch(/^kube-cert-recovery /);
    for (const command of commands.filter((one) => one.includes('init host'))) expect(command).toMatch(/ --dry-run$/);
  });

  it.each(commands)('%s', async (command) => {
    await using machine = await another();
    const { stdout, stderr, code } = await run(machine, command);
    if (command.includes('init host')) {
      expect(code, stderr).toBe(0);
      const units = stdout.split('\n').filter((line) => /^ExecStart(?:Pre)?=.*--mode=regen/.test(line));
      expect(units).toHaveLength(2);
      const flags = [...command.matchAll(/--(?:renew-before|window|warn-only)(?:='?[^' ]+)?/g)].map(([flag]) =>
        flag.replace("'", ''),
      );
      for (const flag of flags) for (const line of units) expect(line).toContain(flag);
    } else if (command.includes(' status')) {
      // Nothing is wrong with what is due.
      expect(code).toBe(4);
      expect(stdout).not.toContain('Something is wrong');
      expect(stdout).toMatch(/^apiserver +EXPIRING +reissued once armed +due for refresh/m);
    } else if (command.includes('--mode=regen')) {
      expect(code, stderr).toBe(0);
      expect(events({ stdout, stderr, code }, 'rotation.decided')).toContain('apiserver RefreshDue');
      expect(await daysLeft(machine, 'apiserver')).toBeLessThan(21);
    } else if (command.endsWith(' preset')) {
      for (const name of presetNames()) expect(stdout).toMatch(new RegExp(`^${name} +\\d+ +\\S`, 'm'));
    } else expect(stdout).toContain('kind: Inventory\nname: kubeadm\n');
  });

  it('the configuration of the page is one that both take', async () => {
    const file = { path: '/c', text: yaml };
    const { policy } = parseToolConfig({ flags: {}, file, env: {}, cwd: '/', presets: installedPresets });
    expect(policy.ahead).toMatchObject({
      beforeMs: 30 * day,
      signerBeforeMs: 730 * day,
      window: { zone: 'Europe/Berlin' },
    });
    await using machine = await another();
    await writeFile(machine.path('c.yaml'), yaml.replace(/window:.*/, 'warnOnly: false'));
    expect((await run(machine, `${once.replace(/ --preset.*/, '')} --config=/etc/kubernetes/c.yaml`)).code).toBe(0);
    expect(Math.round(await daysLeft(machine, 'apiserver'))).toBe(180);
    expect(Math.round(await daysLeft(machine, 'front-proxy-client'))).toBe(90);
    expect(Math.round(await daysLeft(machine, 'etcd/peer'))).toBe(365);
  });
});

describe('a machine whose leaves have 20 days left', () => {
  it('is left alone without the flag, and renewed once with it', async () => {
    await using machine = await another();
    expect(events(await run(machine, once), 'target.regenerated')).toEqual([]);
    const renewed = await run(machine, `${once} --renew-before=30d`);
    expect(renewed.code, renewed.stderr).toBe(0);
    const written = events(renewed, 'target.regenerated');
    // Those of kubeadm; the kubelet renews its own.
    expect(written).toHaveLength(11);
    expect(new Set(written.map((line) => line.split(' ')[1]))).toEqual(new Set(['RefreshDue']));
    expect(await daysLeft(machine, 'apiserver')).toBeGreaterThan(364);
    expect(events(await run(machine, `${once} --renew-before=30d`), 'target.regenerated')).toEqual([]);
    const { stdout, code } = await machine.kubeadm('certs', 'check-expiration');
    expect(code, stdout).toBe(0);
    expect(stdout).toMatch(/^apiserver .* 364d /m);
  });

  it('waits for the window, and for this node in it', async () => {
    await using machine = await another();
    const [closed, open] = [windowIn(3), windowIn(-0.9)];
    const waiting = await run(machine, `${once} --renew-before=30d --window='${closed}'`);
    expect(waiting.code, waiting.stderr).toBe(0);
    expect(events(waiting, 'target.regenerated')).toEqual([]);
    expect(events(waiting, 'rotation.due')).toContain('apiserver Postponed');
    const asked = await run(machine, `kube-cert-recovery status -o json --renew-before=30d --window='${closed}'`);
    const { certificates } = JSON.parse(asked.stdout) as { readonly certificates: readonly Record<string, string>[] };
    const row = certificates.find(({ name }) => name === 'apiserver');
    expect(row).toMatchObject({ action: 'keep', reason: 'Postponed' });
    expect((new Date(row?.['renewsAt'] ?? '').getTime() - Date.now()) / 3_600_000).toSatisfy(
      (hours: number) => hours > 2.9 && hours < 3.8,
    );
    const renewed = await run(machine, `${once} --renew-before=30d --window='${open}'`);
    expect(events(renewed, 'target.regenerated')).toHaveLength(11);
  });

  it('is only warned of with --warn-only, each time by hand, once a day by a unit', async () => {
    await using machine = await another();
    const command = `${once} --renew-before=30d --warn-only`;
    const twice = await run(machine, `${command}; ${command}`);
    expect(twice.code, twice.stderr).toBe(0);
    expect(events(twice, 'target.regenerated')).toEqual([]);
    expect(events(twice, 'rotation.due')).toHaveLength(22);
    expect(events(twice, 'rotation.due')).toContain('apiserver WarnOnly');
    const inJournal = 'export JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2)';
    const byUnit = await run(machine, `${inJournal}; ${command} --log-format=json; ${command} --log-format=json`);
    expect(events(byUnit, 'rotation.due')).toHaveLength(11);
  });
});
