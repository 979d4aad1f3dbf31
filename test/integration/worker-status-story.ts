// What `status` says on a worker, with and without the units of `init host`, and where there is no node at all.
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { initWorkerCommand } from '../../cmd/init-worker.ts';
import { exitOfWorker } from '../../cmd/exit-codes.ts';
import { configInput } from '../../cmd/read-config.ts';
import { parseToolConfig } from '../../lib/config/load.ts';
import { workerStatus } from '../../lib/run/worker-status.ts';
import { renderWorkerStatus } from '../../lib/status/print-worker.ts';
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
      const worker = await joined('seen', new Date(Date.now() + 300 * 24 * hour));
      const { exit, out, err } = await status(worker);
      expect(exit, err).toBe(0);
      expect(out).toMatch(
        /^NODE CERTIFICATE +EXPIRES +RESIDUAL TIME +STATE\n.*kubelet-client-current\.pem"? +\w{3} \d\d, .* +OK$/m,
      );
      expect(out).toMatch(/^CERTIFICATE AUTHORITY +EXPIRES/m);
      expect(out).toContain('Everything is as it should be.\nNotes:\n');
      expect(out).toContain(
        'by itself until the command has been run here that "kube-cert-recovery init workers" prints',
      );
      const later = await status(worker, '--at=2040-01-01', '-o', 'json');
      expect(later.exit).toBe(3);
      expect(JSON.parse(later.out)).toMatchObject({ node: 'seen', armed: false, status: 'recovering' });
    });

    it('says that it is armed, and that the program would ask', async () => {
      const worker = await joined('armed', new Date(Date.now() - hour));
      const unitDirectory = join(worker.root, 'systemd');
      const signal = AbortSignal.timeout(60_000);
      const stdout = { write: () => undefined };
      const io = { argv: [], env: {}, cwd: worker.root, stdout, stderr: stdout, signal };
      const [config, workerTokenFile] = [join(worker.root, 'recovery.yaml'), join(worker.root, 'token')];
      const line = { config, executable: '/bin/true', workerTokenFile };
      const systemctl = async (...args: readonly string[]): Promise<void> => {
        if (args[0] !== 'enable') return;
        await mkdir(join(unitDirectory, 'timers.target.wants'));
        await symlink(
          '../kube-cert-recovery.timer',
          join(unitDirectory, 'timers.target.wants/kube-cert-recovery.timer'),
        );
      };
      expect(
        await initWorkerCommand({ ...line, out: join(worker.root, 'own') }, io, { systemctl, unitDirectory }),
      ).toBe(0);
      const seen = await workerStatus(parseToolConfig(configInput({ config }, io)), { unitDirectory, signal });
      expect(exitOfWorker(seen)).toBe(3);
      const report = renderWorkerStatus(seen, { output: 'table' });
      expect(report).toContain('this worker puts it right by itself, at the latest before the kubelet starts again');
      expect(report).toContain('Armed: an expired certificate is asked for anew before each start of the kubelet');
      expect(report).not.toContain('Notes:');
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
}
