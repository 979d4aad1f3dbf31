// What a control-plane host of kubeadm asks the API for as itself, beside its turn to renew: stale leader Leases, the time of
// other machines, and how long certificates live. Told on a machine that others have started, and whose hosts have the rights;
// the order is the story.
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { X509Certificate } from 'node:crypto';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { KubeadmMachine } from '../support/cluster/kubeadm-machine.ts';
import { componentNames, type RunningMachine } from '../support/cluster/running-machine.ts';
import { eventually } from '../support/eventually.ts';

const day = 86_400_000;

interface Lease {
  readonly spec: { readonly holderIdentity?: string };
}

/** `world`: asked when the tests run. */
export function hostAsks(world: () => RunningMachine): void {
  let running: RunningMachine;
  let machine: KubeadmMachine;
  beforeAll(() => {
    running = world();
    machine = running.machine;
  });
  const asAdmin = (...args: readonly string[]) => running.asAdmin(...args);
  const run = (...flags: readonly string[]) => running.run(...flags);
  const notAfter = async (path: string): Promise<number> =>
    new X509Certificate(await readFile(machine.path(path))).validToDate.getTime();

  describe('leader Leases that were left behind by a machine that was switched off', () => {
    const names = ['kube-controller-manager', 'kube-scheduler'] as const;
    const longAgo = '2026-01-01T00:00:00.000000Z';
    const holderOf = async (name: string): Promise<string | undefined> => {
      const { stdout } = await asAdmin('-n', 'kube-system', 'get', `lease/${name}`, '-o', 'json');
      return (JSON.parse(stdout) as Lease).spec.holderIdentity;
    };
    const leave = async (name: string, holderIdentity: string, renewTime = longAgo): Promise<void> => {
      const patch = JSON.stringify({ spec: { holderIdentity, renewTime } });
      expect((await asAdmin('-n', 'kube-system', 'patch', `lease/${name}`, '--type=merge', '-p', patch)).code).toBe(0);
    };
    /** As after a boot: notes lie in /run. */
    const forget = (): Promise<void> => rm(join(machine.root, 'lock/leases'), { force: true });

    it('are released at the first answer of an API server that is only starting', async () => {
      for (const name of names) await running.stop(name);
      for (const name of names) await leave(name, `${hostname()}_0a0a0a0a-0000-4000-8000-000000000000`);
      await running.stop('kube-apiserver');
      await forget();
      const waiting = run('--restart');
      await eventually(async () => expect(await readdir(join(machine.root, 'lock'))).toContain('leases'));
      await running.startComponent('kube-apiserver');
      const { lines, stderr } = await waiting;
      const released = lines.flatMap(({ event, lease: name }) => (event === 'lease.released' ? [name] : []));
      expect(new Set(released), stderr).toEqual(new Set(names));
      for (const name of names) expect(await holderOf(name), name).toBeFalsy();
    });

    it('cost the later runs of that boot nothing', async () => {
      await leave(names[0], `${hostname()}_0a0a0a0a-0000-4000-8000-000000000001`);
      const { lines } = await run('--restart');
      expect(lines.filter(({ event }) => event.startsWith('lease.'))).toEqual([]);
      expect(await holderOf(names[0])).not.toBe('');
    });

    it('of another node confirm the clock as long as it renews them', async () => {
      const lives = { 'front-proxy-client': { validity: '730d', renewBefore: '600d' } };
      await running.configure({ regen: { clockSynchronised: false }, lives });
      const written = async (): Promise<readonly string[]> =>
        (await run('--restart')).lines.flatMap(({ event, artefact = '' }) =>
          event === 'target.regenerated' ? [artefact] : [],
        );
      await leave(names[0], 'node2_0a0a0a0a-0000-4000-8000-000000000000');
      expect(await written()).toEqual([]);
      const over = new AbortController();
      const leading = (async () => {
        while (!over.signal.aborted)
          await leave(
            names[0],
            'node2_0a0a0a0a-0000-4000-8000-000000000000',
            new Date().toISOString().replace('Z', '000Z'),
          );
      })();
      expect(await written()).toEqual(['front-proxy-client']);
      over.abort();
      await leading;
      await running.configure({});
    });

    it('stay with another node, and with a holder that lives', async () => {
      await leave(names[0], 'node2_0a0a0a0a-0000-4000-8000-000000000000');
      await running.startComponent('kube-scheduler');
      await running.leads('kube-scheduler');
      await forget();
      const { lines } = await run('--restart');
      const kept = lines.flatMap(({ event, lease: name, reason }) =>
        event === 'lease.skipped' ? [`${name} ${reason}`] : [],
      );
      expect(kept.toSorted()).toEqual([`${names[0]} OtherHolder`, `${names[1]} RenewedSinceBoot`]);
      await leave(names[0], '');
      await running.startComponent('kube-controller-manager');
      await running.leads('kube-controller-manager');
    });
  });

  describe('the life of certificates', () => {
    const leaf = 'pki/apiserver-kubelet-client.crt';
    const daysAfterRepair = async (...flags: readonly string[]): Promise<number> => {
      await writeFile(machine.path(leaf), '');
      const { code, stderr } = await run(...flags);
      expect(code, stderr).toBe(0);
      return Math.round(((await notAfter(leaf)) - Date.now()) / day);
    };
    const forget = (): Promise<unknown> =>
      Promise.all(['backups', 'lock'].map((at) => rm(join(machine.root, at, 'certificate-validity'), { force: true })));

    it('is a year where the cluster says nothing', async () => {
      await forget();
      expect(await daysAfterRepair('--restart')).toBe(365);
    });

    it('is what kubeadm has noted in the API, and later without the API, too', async () => {
      await forget();
      const args = ['init', 'phase', 'upload-config', 'kubeadm', '--config=/config.yaml'];
      const uploaded = await running.kubeadm(...args, '--kubeconfig=/etc/kubernetes/super-admin.conf');
      expect(uploaded.code, uploaded.stderr).toBe(0);
      const { lines } = await run('--restart');
      expect(lines.map(({ event }) => event)).toContain('validity.changed');
      expect(await daysAfterRepair('--restart')).toBe(20);
      // As before the start of a kubelet.
      expect(await daysAfterRepair()).toBe(20);
      expect((await run('--restart')).lines.map(({ event }) => event)).not.toContain('validity.changed');
    });

    it('is what the configuration says, before that', async () => {
      await running.configure({ lives: { 'apiserver-kubelet-client': { validity: '90d' } } });
      expect(await daysAfterRepair('--restart')).toBe(90);
      await running.configure({});
    });
  });

  describe('kubeadm upgrade', () => {
    const leaves = ['pki/apiserver.crt', 'pki/front-proxy-client.crt', 'pki/apiserver-etcd-client.crt'];

    it('renews for as long as a run of ours, which it leaves nothing to do', async () => {
      const asAdministrator = '--kubeconfig=/etc/kubernetes/super-admin.conf';
      const upload = ['init', 'phase', 'upload-config', 'all', '--config=/config.yaml', asAdministrator];
      const over = new AbortController();
      const shown = await running.showStaticPods(over.signal);
      expect((await running.kubeadm(...upload)).code).toBe(0);
      // kubeadm renews what belongs to a pod whose manifest it changes.
      for (const name of componentNames) {
        const manifest = machine.path(`manifests/${name}.yaml`);
        await writeFile(
          manifest,
          (await readFile(manifest, 'utf8')).replace('  annotations:\n', '$&    older: manifest\n'),
        );
      }
      const before = await Promise.all(leaves.map(notAfter));
      // etcd keeps its data elsewhere, which an upgrade of it would copy.
      const phase = ['upgrade', 'node', 'phase', 'control-plane', '--etcd-upgrade=false'];
      const upgraded = await running.kubeadm(...phase, asAdministrator);
      over.abort();
      await shown.ended;
      expect(upgraded.code, `${upgraded.stdout}${upgraded.stderr}`).toBe(0);
      const after = await Promise.all(leaves.map(notAfter));
      for (const [at, leaf] of leaves.entries()) {
        expect(after[at], leaf).not.toBe(before[at]);
        expect(Math.round(((after[at] ?? 0) - Date.now()) / day), leaf).toBe(20);
      }
      const { lines, code, stderr } = await run('--restart');
      expect(code, stderr).toBe(0);
      expect(lines.filter(({ event }) => /^(target|signer|restart)\./.test(event))).toEqual([]);
      expect(await Promise.all(leaves.map(notAfter))).toEqual(after);
    });
  });
}
