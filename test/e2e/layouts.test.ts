// Nodes that other installers than plain kubeadm have laid out: everything has expired while the machine was off, and nothing
// was typed but `init host`.
import { afterEach, describe, expect, inject, it } from 'vitest';
import { componentVersions } from '../support/cluster/binaries.ts';
import { eventually } from '../support/eventually.ts';
import { powerCycle } from '../support/node/boot.ts';
import { Cluster } from '../support/node/cluster.ts';
import { programPath } from '../support/node/container.ts';
import { etcdTag } from '../support/node/kubeadm-config.ts';
import { kind, kubespray, type Layout, localLoadBalancer, minikube } from '../support/node/layouts.ts';
import { leafProblems, past, reissue } from '../support/node/leaves.ts';
import type { Node } from '../support/node/node.ts';

let cluster: Cluster | undefined;
afterEach(() => cluster?.[Symbol.asyncDispose]());

const directories = '/etc/kubernetes /etc/ssl/etcd /etc/etcd /var/lib/minikube/certs /var/lib/kubelet/pki';

/** Of certificates, keys and kubeconfigs; the kubelet's own files have the time in their names. */
async function filesOf(node: Node): Promise<readonly string[]> {
  const script = `find ${directories} ! -type d 2>/dev/null | grep -v 'kubelet-client-[0-9]' | sort`;
  return (await node.sh(script)).trim().split('\n');
}

/** Of the certificate in a file, and of the one that a server shows. */
async function fingerprints(node: Node, port: string, file: string): Promise<readonly [string, string]> {
  const print = 'openssl x509 -noout -fingerprint -sha256';
  const shown = await node.sh(`openssl s_client -connect 127.0.0.1:${port} < /dev/null 2>/dev/null | ${print}`);
  return [await node.sh(`${print} -in ${file}`), shown];
}

async function comesBack({ options, leaves, served, after, whileOff }: Layout): Promise<Cluster> {
  const started = Date.now();
  cluster = await Cluster.create(inject('workshop'), options);
  const { node } = cluster;
  await after?.(node);
  expect(await leafProblems(node, leaves)).toEqual([]);
  const { output } = await node.run(`${programPath} init host 2>&1`);
  expect(output).toContain('kubelet.service.d');
  const before = await filesOf(node);
  const made = Date.now();
  const boot = await powerCycle(cluster, {
    whileOff: async (machine) => {
      await reissue(machine, leaves, past(new Date()));
      await whileOff?.(machine);
    },
  });
  await eventually(async () => expect(await leafProblems(node, leaves)).toEqual([]), { everyMs: 1000 });
  for (const [port, file] of Object.entries(served)) {
    const [held, shown] = await fingerprints(node, port, file);
    expect(shown, `port ${port}`).toBe(held);
  }
  expect(await filesOf(node)).toEqual(before);
  await cluster.runPod(node);
  const status = await node.run(`${programPath} status 2>&1`);
  expect(status.code, status.output).toBe(0);
  const seconds = (from: number, to: number): string => `${((to - from) / 1000).toFixed(0)} s`;
  const times = { made: seconds(started, made), ready: `${boot.runtimeToReady} ms`, all: seconds(started, Date.now()) };
  console.log('container runtime up to Ready:', times);
  return cluster;
}

describe('a node with everything expired, after init host alone', () => {
  it('comes back with kubeconfigs of other names, through a load balancer of its own', () =>
    comesBack(localLoadBalancer));

  it("comes back in minikube's layout, and is repaired while it runs, where no Lease shows that it works", async () => {
    const layout = minikube(etcdTag((await componentVersions()).etcd));
    const { node } = await comesBack(layout);
    // This test plays the timer; a run that the boot has begun is waited for.
    await node.sh('systemctl stop kube-cert-recovery.timer');
    const service = 'kube-cert-recovery.service';
    await eventually(
      async () => expect((await node.run(`systemctl is-active ${service}`)).output).toMatch(/^(inactive|failed)$/m),
      { everyMs: 200 },
    );
    await reissue(node, layout.leaves, past(new Date()), { runs: true });
    const { code } = await node.run(`systemctl start ${service}`, { seconds: 200 });
    expect(code, await node.sh(`journalctl --unit=${service} --output=cat --no-pager`)).toBe(0);
    expect(await leafProblems(node, layout.leaves)).toEqual([]);
  });

  it("comes back in kind's, with another address", () => comesBack(kind));

  it("comes back in kubespray's, with the usual directory as a link", () => comesBack(kubespray({ link: true })));

  it("comes back in kubespray's, without one", () => comesBack(kubespray({ link: false })));

  it("comes back in kubespray's, with etcd as a service", () =>
    comesBack(kubespray({ link: true, etcdService: true })));
});
