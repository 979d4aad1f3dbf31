// Nodes and Leases of a large cluster, of the size that kubelets give them, without machines.
import { Agent } from 'node:https';
import { apiRequest, type ApiResponse } from './api-client.ts';
import type { ControlPlane } from './control-plane.ts';

export const bundlesAnnotation = 'kube-cert-recovery/node-ca';

export interface SimulatedNode {
  readonly name: string;
  /** Of the CAs that it says it holds; undefined: none. */
  readonly report: string | undefined;
  /** When its Lease was renewed; undefined: it has none. */
  readonly renewedAt: Date | undefined;
}

export const nodeName = (at: number): string => `worker-${String(at).padStart(4, '0')}`;

/** A report as nodes write it. */
export const reportOf = (cas: readonly string[], loaded = true): string => {
  const bundle = { cas: [...cas].toSorted(), since: '2026-11-01T00:00:00Z', loaded };
  const bundles = { 'kubelet-client-ca': bundle, 'kubelet.conf': bundle };
  return JSON.stringify({ at: '2026-11-01T00:00:00Z', bundles });
};

/** Many requests as an administrator. Rejects when one is refused. */
export async function askAll(
  { adminToken: token, port, recoveryCa: caFile }: ControlPlane,
  requests: readonly { readonly method: string; readonly path: string; readonly body: unknown }[],
): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 16 });
  const target = { port, caFile, serverName: 'localhost-recovery', token, agent };
  const ask = async (): Promise<void> => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) {
      const { status, body }: ApiResponse = await apiRequest(target, next.path, next);
      if (status >= 300) throw new Error(`${next.method} ${next.path}: ${status} ${JSON.stringify(body)}`);
    }
  };
  const left = [...requests];
  try {
    await Promise.all(Array.from({ length: 16 }, ask));
  } finally {
    agent.destroy();
  }
}

export const leases = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases';

export const microTime = (date: Date): string => date.toISOString().replace('Z', '000Z');

/** Nodes with what kubelets write into them (about 20 KB each), and their Leases. */
export async function createFleet(controlPlane: ControlPlane, nodes: readonly SimulatedNode[]): Promise<void> {
  await controlPlane.kubectl('create', 'namespace', 'kube-node-lease').catch(() => undefined); // it may be there
  const requests = nodes.flatMap((node) => {
    const spec = {
      holderIdentity: node.name,
      leaseDurationSeconds: 40,
      renewTime: node.renewedAt && microTime(node.renewedAt),
    };
    const lease = { method: 'POST', path: leases, body: { metadata: { name: node.name }, spec } };
    return [
      { method: 'POST', path: '/api/v1/nodes', body: nodeObject(node) },
      ...(node.renewedAt === undefined ? [] : [lease]),
    ];
  });
  await askAll(controlPlane, requests);
}

function nodeObject({ name, report }: SimulatedNode): object {
  const each = (count: number, text: (at: number) => string): Record<string, string> =>
    Object.fromEntries(Array.from({ length: count }, (_, at) => [text(at), `value-${at}`]));
  const images = Array.from({ length: 50 }, (_, at) => ({
    names: [
      `registry.example.com/team-${at}/image@sha256:${'0'.repeat(64)}`,
      `registry.example.com/team-${at}/image:v1`,
    ],
    sizeBytes: 10_000_000 + at,
  }));
  const conditions = ['MemoryPressure', 'DiskPressure', 'PIDPressure', 'Ready'].map((type) => ({
    type,
    status: type === 'Ready' ? 'True' : 'False',
    reason: `Kubelet${type}`,
    message: 'kubelet has sufficient memory available',
  }));
  return {
    metadata: {
      name,
      labels: each(15, (at) => `topology.example.com/label-${at}`),
      annotations: {
        ...each(6, (at) => `csi.example.com/annotation-${at}`),
        ...(report !== undefined && { [bundlesAnnotation]: report }),
      },
    },
    spec: { podCIDR: '10.0.0.0/24', providerID: `provider:///zone/${name}` },
    status: { images, conditions, capacity: { cpu: '16', memory: '64Gi', pods: '110' } },
  };
}
