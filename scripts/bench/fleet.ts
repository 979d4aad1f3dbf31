// `status --fleet` of a thousand nodes: the whole process, and the most that it has in memory. A node says nothing, or 100 KB.
import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { startControlPlane } from '../../test/support/cluster/control-plane.ts';
import { askAll, bundlesAnnotation, createFleet, nodeName, reportOf } from '../../test/support/cluster/fleet.ts';
import { executable } from '../../test/support/cluster/recovery-world.ts';
import { memoryOf } from './probes.ts';
import type { Measured } from './table.ts';

const nodes = 1000;

/** p */
export async function fleets(count: number): Promise<Measured[]> {
  await using controlPlane = await startControlPlane();
  const ca = await readFile(controlPlane.pki.clusterCa.cert, 'utf8');
  const data = { 'client-ca.crt': ca, 'server-ca.crt': ca };
  const metadata = { namespace: 'kube-cert-recovery', name: 'node-ca' };
  await controlPlane.kubectl('create', 'namespace', metadata.namespace);
  await controlPlane.apply(JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data }));
  const each = Array.from({ length: nodes }, (_, at) => nodeName(at));
  const report = reportOf(['0'.repeat(16)]);
  await createFleet(
    controlPlane,
    each.map((name) => ({ name, report, renewedAt: new Date() })),
  );
  const small = await statuses(controlPlane.recoveryKubeconfig, count, 'of 1000 nodes', '<= 2000');
  const body = { metadata: { annotations: { [bundlesAnnotation]: 'x'.repeat(100_000) } } };
  await askAll(
    controlPlane,
    each.map((name) => ({ method: 'PATCH', path: `/api/v1/nodes/${name}`, body })),
  );
  return [...small, ...(await statuses(controlPlane.recoveryKubeconfig, count, 'of 1000 nodes with 100 KB each'))];
}

async function statuses(kubeconfig: string, count: number, what: string, goal = ''): Promise<Measured[]> {
  const [times, peaks]: [number[], number[]] = [[], []];
  for (let n = -1; n < count; n += 1) {
    const began = performance.now();
    const child = spawn(executable, ['status', '--fleet', `--kubeconfig=${kubeconfig}`], { stdio: 'ignore' });
    let peak = 0;
    const ended = new Promise((resolve) => child.once('exit', () => resolve(performance.now())));
    while (child.exitCode === null) {
      peak = Math.max(peak, peakOf(child.pid ?? 0));
      await delay(5);
    }
    if (n < 0) continue;
    times.push(((await ended) as number) - began);
    peaks.push(peak);
  }
  return [
    { what: `status --fleet ${what}`, unit: 'ms', values: times, goal },
    { what: `most memory (RSS), status --fleet ${what}`, unit: 'MB', values: peaks },
  ];
}

/** 0 once it has ended. */
function peakOf(pid: number): number {
  try {
    return memoryOf(pid).peak || 0;
  } catch {
    return 0;
  }
}
