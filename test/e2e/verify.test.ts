// `verify` on a real node, whose kubelet runs without a unit: its process says what it is told. Everything holds there, and
// a kubelet that trusts another CA is named, and refuses the API server.
import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { Cluster } from '../support/node/cluster.ts';
import { programPath } from '../support/node/container.ts';

interface Row {
  readonly relation: string;
  readonly verdict: string;
  readonly trust: { readonly name: string; readonly file?: string };
}

let cluster: Cluster;
beforeAll(async () => {
  cluster = await Cluster.create(inject('workshop'));
});
afterAll(() => (cluster as Cluster | undefined)?.[Symbol.asyncDispose]());

async function rows(): Promise<readonly Row[]> {
  const { output } = await cluster.node.run(`${programPath} verify -o json`);
  return (JSON.parse(output) as { readonly relations: readonly Row[] }).relations;
}
const idsOf = (all: readonly Row[], verdict: string): readonly string[] => [
  ...new Set(all.flatMap((row) => (row.verdict === verdict ? [row.relation] : []))),
];

/** kube-apiserver as a client of the kubelet. */
const statusOfKubelet = async (): Promise<number> =>
  (await cluster.api(`/api/v1/nodes/${cluster.node.name}/proxy/configz`)).status;

it('holds as kubeadm makes it', async () => {
  const all = await rows();
  expect(all.filter(({ verdict }) => verdict === 'fails' || verdict === 'unknown')).toEqual([]);
  expect(idsOf(all, 'holds')).toEqual(
    expect.arrayContaining(['R1', 'R2', 'R5', 'R8', 'R9', 'R10', 'R11', 'R12', 'R13']),
  );
  expect(all.find(({ relation }) => relation === 'R5')?.trust).toEqual({
    name: 'kubelet --client-ca-file',
    file: '/etc/kubernetes/pki/ca.crt',
  });
  expect(await statusOfKubelet()).toBe(200);
});

it('names a kubelet that trusts another CA, which refuses the API server', async () => {
  const { node } = cluster;
  const strange = '/etc/kubernetes/strange.crt';
  await node.sh(
    `openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=kubernetes -keyout /tmp/strange.key -out ${strange} -days 30 2>&1 && ` +
      `cp /var/lib/kubelet/config.yaml /tmp/config.yaml && ` +
      `sed -i 's|clientCAFile:.*|clientCAFile: ${strange}|' /var/lib/kubelet/config.yaml && pkill -x kubelet`,
  );
  expect(idsOf(await rows(), 'fails')).toEqual(['R5']);
  await eventually(async () => expect(await statusOfKubelet()).toBe(401), { everyMs: 500 });
  await node.sh('cp /tmp/config.yaml /var/lib/kubelet/config.yaml && pkill -x kubelet');
  expect(idsOf(await rows(), 'fails')).toEqual([]);
  await eventually(async () => expect(await statusOfKubelet()).toBe(200), { everyMs: 500 });
});
