// An adopted machine with the units of "init host": before the kubelet starts they heal the files that no API can heal, and
// the kubelet's own identity; and what an upgrade of kubeadm takes out of the manifests they put back.
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { staticPods } from '../../lib/components.ts';
import { digestAnnotation } from '../../lib/install/install-record.ts';
import { eventually } from '../support/eventually.ts';
import { adopt, endLeaves, leavesValid, networkFromDaemonSet } from '../support/node/adopted.ts';
import { powerCycle } from '../support/node/boot.ts';
import { Cluster } from '../support/node/cluster.ts';
import { programPath } from '../support/node/container.ts';
import { leafProblems, leaves, past, reissue } from '../support/node/leaves.ts';
import type { Outcome } from '../support/node/node.ts';

/** From the last write to the end of what was written: the syncers need a moment, the power a second to go. */
const inMs = 40_000;
const manifests = '/etc/kubernetes/manifests';

describe('an adopted machine with the units of init host', () => {
  let cluster: Cluster;

  beforeAll(async () => {
    cluster = await Cluster.create(inject('workshop'));
    await adopt(cluster.node);
    await cluster.ready();
    await networkFromDaemonSet(cluster);
  });
  afterAll(() => (cluster as Cluster | undefined)?.[Symbol.asyncDispose]());

  /** What the timer starts, in its order: the commands of both services, as "init host" writes them. */
  async function timer(): Promise<readonly Outcome[]> {
    const units = await cluster.node.sh(`${programPath} init host --dry-run`);
    const commands = [...units.matchAll(/^ExecStart=(.+)$/gm)].map(([, command = '']) => command);
    expect(commands).toHaveLength(2);
    const outcomes: Outcome[] = [];
    const took: number[] = [];
    for (const command of commands) {
      const began = performance.now();
      outcomes.push(await cluster.node.run(`${command} 2>&1`, { seconds: 420 }));
      took.push(Math.round(performance.now() - began));
    }
    console.log('the services of the timer took, in ms:', took);
    return outcomes;
  }

  const events = ({ output }: Outcome, event: string): readonly string[] =>
    output.split('\n').flatMap((line) => {
      const fields = line.startsWith('{') ? (JSON.parse(line) as Readonly<Record<string, string>>) : {};
      return fields['event'] === event ? [fields['component'] ?? ''] : [];
    });

  it('has a kubelet with a valid identity from its first start after everything has expired, etcd too', async () => {
    const healthy = await powerCycle(cluster);
    await cluster.runPod();
    const end = await endLeaves(cluster, { inMs });
    const expired = await powerCycle(cluster, {
      whileOff: async (node) => {
        await reissue(node, leaves, past(new Date()));
        await delay(Math.max(0, end + 3000 - Date.now()));
      },
    });
    await cluster.runPod();
    await leavesValid(cluster.node);
    expect(await leafProblems(cluster.node)).toEqual([]);
    console.log(
      `container runtime up to Ready: expired ${expired.runtimeToReady} ms, healthy ${healthy.runtimeToReady} ms\n` +
        `expired: ${expired.timeline}\nhealthy: ${healthy.timeline}`,
    );
  });

  it('is put right by the timer after kubeadm has rewritten its manifests', async () => {
    const { node } = cluster;
    await node.sh('kubeadm init phase control-plane all --config /var/lib/machine/kubeadm.yaml 2>&1');
    expect(await node.sh(`grep -l kube-cert-recovery ${manifests}/* || true`)).toBe('');
    for (const pod of staticPods) await runsWith(pod, (digest) => digest === undefined);
    expect((await node.run(`${programPath} status --preset=kubeadm`)).output).toContain(
      'kube-scheduler.yaml has nothing of this program: it has been rewritten',
    );
    const [certificates, repair] = await timer();
    expect(certificates?.code, certificates?.output).toBe(0);
    expect(repair?.code, repair?.output).toBe(0);
    for (const event of ['manifest.drifted', 'manifest.repaired']) {
      expect(events(repair ?? { code: 1, output: '' }, event)).toEqual(staticPods);
    }
    for (const pod of staticPods) await runsWith(pod, (digest) => digest !== undefined);
    await cluster.runPod();
  }, 700_000);

  it('costs nothing where nothing has drifted: no line, and nothing restarted', async () => {
    const [certificates, repair] = await timer();
    expect(certificates?.code, certificates?.output).toBe(0);
    expect(certificates?.output).not.toMatch(/restart\.done|target\.regenerated|proof\.missing/);
    expect(repair).toEqual({ code: 0, output: '' });
  });

  /** Resolves when the kubelet runs a manifest with that digest of ours. */
  async function runsWith(pod: string, isWanted: (digest: string | undefined) => boolean): Promise<void> {
    await eventually(
      async () => {
        const { body } = await cluster.api(`/api/v1/namespaces/kube-system/pods/${pod}-${cluster.node.name}`);
        const { metadata, status } = body as MirrorPod;
        const isReady = status?.containerStatuses?.every(({ ready }) => ready) === true;
        if (!isReady || !isWanted(metadata?.annotations?.[digestAnnotation])) {
          throw new Error(`${pod} does not run so: ${JSON.stringify(metadata?.annotations)}`);
        }
      },
      { everyMs: 300 },
    );
  }
});

interface MirrorPod {
  readonly metadata?: { readonly annotations?: Readonly<Record<string, string>> };
  readonly status?: { readonly containerStatuses?: readonly { readonly ready: boolean }[] };
}
