// What `status` says on a worker, with and without the units of `init host`, and where there is no node at all; and what
// `init host` says that would write them, and writes.
import { readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { HostLine } from '../../cmd/host-flags.ts';
import { initHostCommand } from '../../cmd/host.ts';
import { uninstallHostCommand } from '../../cmd/uninstall-host.ts';
import type { Worker } from '../support/cluster/worker-machine.ts';

interface World {
  readonly create: (name: string, notAfter: Date) => Promise<Worker>;
  readonly cli: (
    ...argv: readonly string[]
  ) => Promise<{ readonly exit: number; readonly out: string; readonly err: string }>;
}

const hour = 3_600_000;

export function statusStory({ create, cli }: World): void {
  describe('status', () => {
    const status = (worker: Worker, ...more: readonly string[]) =>
      cli('status', `--config=${worker.root}/recovery.yaml`, ...more);
    /** With the CA where `kubeadm join` puts it. */
    const joined = async (name: string, notAfter: Date): Promise<Worker> => {
      const worker = await create(name, notAfter);
      await writeFile(worker.clientAuthority, await worker.trust());
      return worker;
    };

    it('on a worker says when its certificate ends, and how a worker without units is armed', async () => {
      const worker = await joined('seen', new Date(Date.now() + 20 * hour));
      const { exit, out, err } = await status(worker);
      expect(exit, err).toBe(0);
      expect(out).toMatch(/^NODE CERTIFICATE +EXPIRES .*\nkubelet-client +\w{3} \d\d, .* CN=test-cluster-ca +no *$/m);
      expect(out).toMatch(/^CERTIFICATE AUTHORITY +EXPIRES .*\nkubelet-client-ca +\w{3} .*\nkubelet\.conf +\w{3} /m);
      expect(out).toMatch(
        /\nEverything is as it should be\.\nARMED: no: ".*kube-cert-recovery\.service" and 2 more absent\. .*\nRun here the command that "kube-cert-recovery init workers" prints on a control-plane node\.\n$/,
      );
      const later = await status(worker, '--at=2040-01-01', '-o', 'json');
      expect(later.exit).toBe(3);
      expect(JSON.parse(later.out)).toMatchObject({ armed: false, status: 'recovering' });
    });

    it('says of an expired certificate that it is requested', async () => {
      const worker = await joined('expired', new Date(Date.now() - hour));
      const { exit, out } = await status(worker);
      expect(exit).toBe(3);
      expect(out).toMatch(/^kubelet-client +EXPIRED +requested with its key /m);
    });

    it('has restore list the copies of what a worker has', async () => {
      const { exit, out, err } = await cli(
        'restore',
        `--config=${(await joined('kept', new Date())).root}/recovery.yaml`,
      );
      expect([exit, out, err]).toEqual([0, expect.stringMatching(/^Nothing is kept in .*\/backups\.\n$/), '']);
    });

    it('says so on a machine that is neither', async () => {
      const { exit, err } = await cli(
        'status',
        '--directory=kubernetesDir=/nowhere',
        '--directory=pkiDir=/nowhere/pki',
      );
      expect(exit).toBe(1);
      expect(err).toMatch(
        /^Cannot find a node of kubeadm on this machine: there is neither a control plane .* nor a worker .*\n$/,
      );
    });
  });
  describe('init host', () => {
    /** As it is typed, on a machine where systemd would run. */
    async function typed(worker: Worker, line: HostLine, command: typeof initHostCommand = initHostCommand) {
      const [out, err] = [[] as string[], [] as string[]];
      const stdout = { write: (text: string) => out.push(text) };
      const stderr = { write: (text: string) => err.push(text) };
      const io = { argv: [], env: {}, cwd: worker.root, stdout, stderr, signal: AbortSignal.timeout(60_000) };
      const here = { systemctl: () => Promise.resolve(), unitDirectory: join(worker.root, 'units') };
      const given = { executable: '/bin/true', config: join(worker.root, 'recovery.yaml'), ...line };
      const exit = await command(given, io, here).catch((cause: Error) => cause.message);
      return { exit, out: out.join(''), err: err.join('') };
    }

    it('keeps the token of a worker that has its units, and says what would change', async () => {
      const worker = await create('again', new Date(Date.now() + 20 * hour));
      await writeFile(worker.clientAuthority, await worker.trust());
      expect((await typed(worker, {})).exit).toContain('run "kube-cert-recovery init workers"');
      const out = join(worker.root, 'own');
      const token = { out, workerTokenFile: join(worker.root, 'token') };
      const first = await typed(worker, { ...token, check: true, output: 'json' });
      expect([first.exit, JSON.parse(first.out)]).toEqual([1, expect.objectContaining({ changed: true })]);
      expect((await typed(worker, token)).exit).toBe(0);
      const kept = join(out, 'credentials/worker/token');
      const again = JSON.parse((await typed(worker, { output: 'json' })).out) as object;
      const service = join(worker.root, 'units/kube-cert-recovery.service');
      expect(again).toMatchObject({ changed: false, changes: [] });
      expect(again).toMatchObject({
        units: expect.arrayContaining([kept, service].map((path) => ({ path, isChanged: false }))),
      });
      expect(await readFile(service, 'utf8')).toContain(`--worker-token-file=${kept}`);
      await writeFile(kept, 'another');
      expect((await typed(worker, { ...token, check: true })).out).toContain(`Would write ${kept}\n`);
      const removal = await typed(worker, { check: true }, uninstallHostCommand);
      expect(removal.out).toContain(`Would remove ${dirname(kept)}\n`);
    });
  });
}
