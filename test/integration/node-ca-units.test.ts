// Files of CAs that the timer of `init host` follows, as the kubelet of a machine, against a real kube-apiserver. The order
// is the story of one machine.
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';
import { both, caMaker, collection, commandIn, namespace, nodeCaIn, type Publish } from '../support/cluster/node-ca.ts';
import { freePorts } from '../support/cluster/ports.ts';
import type { Line } from '../support/cluster/recovery-world.ts';
import { Worker } from '../support/cluster/worker-machine.ts';

let root: string;
let controlPlane: ControlPlane;
let publish: Publish;
let host: Worker;
/** PEM of CAs: that of the machine, and others. */
let own: string;
let next: string;
let third: string;
let fourth: string;

describe('files of CAs on a machine with the units of init host', () => {
  const note = () => rm(join(host.root, 'lock/node-ca'), { force: true });
  const files = (): Promise<readonly Buffer[]> =>
    Promise.all([host.clientAuthority, host.conf].map((path) => readFile(path)));
  /** A run of the timer. */
  async function timer(): Promise<{ exit: number | null; told: readonly Line[] }> {
    const tool = host.start('--restart-kubelet', '--wait=1s');
    return { exit: await tool.ended, told: tool.lines };
  }
  const events = ({ told }: { told: readonly Line[] }): readonly string[] => told.map(({ event }) => event);
  const unchanged = async (act: () => Promise<unknown>): Promise<{ exit: number | null; told: readonly Line[] }> => {
    const before = await files();
    await act();
    const ran = await timer();
    expect(await files()).toEqual(before);
    return ran;
  };

  beforeAll(async () => {
    root = await mkdtemp(join(tmpdir(), 'node-ca-units-'));
    controlPlane = await startControlPlane({ components: ['etcd', 'kube-apiserver'] });
    publish = await nodeCaIn(controlPlane);
    const ca = caMaker(root);
    own = await readFile(controlPlane.pki.clusterCa.cert, 'utf8');
    [next, third, fourth] = [await ca('next'), await ca('third'), await ca('fourth')];
    const notAfter = new Date(Date.now() + 86_400_000);
    host = await Worker.create({ root, name: 'host-1', notAfter, controlPlane, token: '', authority: own });
    const body = { metadata: { name: 'host-1' } };
    expect(await controlPlane.admin('/api/v1/nodes', { method: 'POST', body })).toMatchObject({ status: 201 });
  });
  afterAll(async () => {
    await Worker.stopAll();
    await controlPlane?.[Symbol.asyncDispose]();
    await rm(root, { recursive: true, force: true });
  });

  it('stay, and nothing is said, where kubelets may read the ConfigMap, as a Pod lets them, and not follow it', async () => {
    const asked = async (): Promise<unknown> => {
      const ran = await unchanged(() => note());
      expect(ran.exit).toBe(0);
      expect(events(ran)).not.toContain('bundles.failed');
      return (JSON.parse(await readFile(join(host.root, 'lock/node-ca'), 'utf8')) as { value: unknown }).value;
    };
    await publish(both(own, next));
    const reader = {
      apiGroups: [''],
      resources: ['configmaps'],
      resourceNames: ['node-ca'],
      verbs: ['get', 'list', 'watch'],
    };
    const about = { apiVersion: 'rbac.authorization.k8s.io/v1', metadata: { name: 'reader' } };
    const roles = `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}`;
    const subjects = [{ kind: 'Group', name: 'system:nodes', apiGroup: 'rbac.authorization.k8s.io' }];
    const roleRef = { kind: 'Role', name: 'reader', apiGroup: 'rbac.authorization.k8s.io' };
    for (const [kind, rest] of [
      ['roles', { rules: [reader] }],
      ['rolebindings', { subjects, roleRef }],
    ] as const)
      expect(
        await controlPlane.admin(`${roles}/${kind}`, { method: 'POST', body: { ...about, ...rest } }),
      ).toMatchObject({
        status: 201,
      });
    // The next run asks once more: an API server that is starting refuses what it allows later.
    expect(await asked()).toBe('ConfigMap "kube-cert-recovery/node-ca" failed');
    expect(await asked()).toBe('ConfigMap "kube-cert-recovery/node-ca"');
  });

  it('get its CAs by the run of the timer after init node-ca, and their Node says so', async () => {
    const installed = await commandIn(root, ['init', 'node-ca', `--kubeconfig=${controlPlane.recoveryKubeconfig}`]);
    expect(installed).toMatchObject({ exit: 0, err: '' });
    expect(installed.out).toMatch(/^Created RoleBinding "kube-cert-recovery\/kube-cert-recovery-node-ca-kubelets"$/m);
    expect(installed.out).not.toContain('DaemonSet');
    await note();
    const ran = await timer();
    expect(ran.exit).toBe(0);
    expect(await readFile(host.clientAuthority, 'utf8')).toBe(own + next);
    expect(await host.trust()).toBe(own + next);
    expect(events(ran)).toContain('bundles.reported');
    expect(events(ran)).not.toContain('api.answered');
    const { body } = await controlPlane.admin('/api/v1/nodes/host-1');
    const { annotations } = (body as { metadata: { annotations: Record<string, string> } }).metadata;
    expect(JSON.parse(annotations['kube-cert-recovery/node-ca'] ?? '')).toMatchObject({
      bundles: { 'kubelet-client-ca': { loaded: true }, 'kubelet.conf': { loaded: false } }, // no kubelet runs
    });
  });

  it('get another one by the next run, without a word where nothing has changed', async () => {
    await publish(both(own, third));
    expect(await timer()).toMatchObject({ exit: 0 });
    expect(await readFile(host.clientAuthority, 'utf8')).toBe(own + next + third);
    const again = await timer();
    expect(again.exit).toBe(0);
    expect(events(again)).toEqual(['regen.summary', 'regen.summary']);
  });

  it('stay where the ConfigMap is garbled or deleted, which is said', async () => {
    const garbled = await unchanged(() => publish(both('garbage')));
    expect(garbled.exit).toBe(5);
    expect(JSON.stringify(garbled.told)).toContain('holds no CA that is valid now');
    const deleted = await unchanged(() => controlPlane.admin(`${collection}/node-ca`, { method: 'DELETE' }));
    expect(deleted.exit).toBe(5);
    expect(JSON.stringify(deleted.told)).toContain('client-ca.crt is absent');
    await publish(both(own));
  });

  it('stay where the right to follow is taken away, which is said once', async () => {
    const binding = `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}/rolebindings/kube-cert-recovery-node-ca-kubelets`;
    await publish(both(own, fourth));
    const { body } = await controlPlane.admin(binding);
    await controlPlane.admin(binding, { method: 'DELETE' });
    const said: string[] = [];
    for (let run = 0; run < 3; run += 1)
      said.push(
        ...(await unchanged(() => note())).told
          .filter(({ event }) => event === 'bundles.failed')
          .map(({ fields }) => String(fields['err'])),
      );
    expect(said).toEqual([expect.stringContaining('the right to follow it was taken away')]);
    const { metadata: _old, ...again } = body as { metadata: unknown };
    const made = { ...again, metadata: { name: 'kube-cert-recovery-node-ca-kubelets' } };
    await controlPlane.admin(binding.slice(0, binding.lastIndexOf('/')), { method: 'POST', body: made });
    await note();
    expect(await timer()).toMatchObject({ exit: 0 });
  });

  it('stay while no API server answers, for which nothing waits', async () => {
    const conf = await readFile(host.conf, 'utf8');
    const [port] = await freePorts(1);
    await writeFile(host.conf, conf.replace(/(?<=127\.0\.0\.1:)\d+/, String(port)));
    await note();
    const ran = await unchanged(() => Promise.resolve());
    expect(ran.exit).toBe(0);
    expect(events(ran)).toContain('bundles.failed');
  });
});
