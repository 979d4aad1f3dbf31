// What `status` says on a worker, with and without the units of `init host`, and where there is no node at all.
import { writeFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
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
      expect(out).toContain('Everything is as it should be.\nNotes:\n');
      expect(out).toContain(
        'by itself until the command has been run here that "kube-cert-recovery init workers" prints',
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
