// A control plane with OpenShift's paths, flags and names, and no operator: the containers that docs/openshift.md tells to
// put in place of the original ones take over their files, and bring it back after everything has expired while it was
// off, aggregated API included.
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { Cluster } from '../support/node/cluster.ts';
import { programPath } from '../support/node/container.ts';
import { startExtensionServer } from '../support/node/extension-server.ts';
import { adminOf, becomeOpenshift, giveBack, useOwnIdentity } from '../support/node/openshift.ts';
import { differOnDisk } from '../support/node/openshift-files.ts';
import {
  endsOnDisk,
  endSoon,
  invalidInApi,
  type Line,
  offPast,
  ownLog,
  served,
  servedFromApi,
} from '../support/node/openshift-life.ts';
import { certsOf, components } from '../support/node/openshift-pods.ts';
import { externalHost, internalHost } from '../support/cluster/openshift-objects.ts';
import { sampleApiPath } from '../support/cluster/sample-api.ts';

const servingNames: readonly (readonly [object: string, name: string])[] = [
  ['localhost-serving-cert-certkey', 'localhost'],
  ['service-network-serving-certkey', 'kubernetes.default.svc'],
  ['external-loadbalancer-serving-certkey', externalHost],
  ['internal-loadbalancer-serving-certkey', internalHost],
  ['localhost-recovery-serving-certkey', 'localhost-recovery'],
];

const containersOfRegen = [
  'kube-apiserver-cert-regeneration-controller',
  'kube-controller-manager-recovery-controller',
  'kube-scheduler-recovery-controller',
];

interface TrustRow {
  readonly relation: string;
  readonly credential: { readonly name: string };
  readonly trust: { readonly name: string };
  readonly verdict: string;
}

const leaseOf: Readonly<Record<string, string>> = {
  'kube-controller-manager': 'kube-system',
  'kube-scheduler': 'openshift-kube-scheduler',
};

describe('a control plane with the paths, flags and names of OpenShift', () => {
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await Cluster.create(inject('workshop'));
    await cluster.node.sh('touch /var/lib/machine/no-recovery');
    await becomeOpenshift(cluster);
  });
  afterAll(() => (cluster as Cluster | undefined)?.[Symbol.asyncDispose]());

  const aggregated = async (): Promise<number> => (await cluster.api(sampleApiPath)).status;
  /** Plain files where the syncers write. */
  const plain = async (): Promise<string> =>
    cluster.node.sh(`for directory in ${components.map(certsOf).join(' ')}; do
      find "$directory/secrets" "$directory"/configmaps* -type f ! -path '*/..*' 2> /dev/null; done; true`);

  it('has taken over the plain files of the original cert-syncers at their paths', async () => {
    await eventually(async () => expect(await plain()).toBe(''));
    expect(await differOnDisk(cluster)).toEqual([]);
    expect(await invalidInApi(cluster)).toEqual([]);
    for (const component of components) {
      expect(await cluster.node.read(`${certsOf(component)}/staging/cert-sync/tls.crt`)).toBe('left behind');
    }
  });

  it('serves by each name what is its own, and an aggregated API', async () => {
    await startExtensionServer(cluster, adminOf(cluster));
    await eventually(async () => expect(await aggregated()).toBe(200), { everyMs: 300 });
    for (const [object, name] of servingNames) {
      expect(await served(cluster.node, name, cluster.ca), name).toBe(await servedFromApi(cluster, object));
    }
  });

  it('trusts whom it must, by the files that its flags name', async () => {
    const { output } = await cluster.node.run(`${programPath} verify -o json`);
    const { relations } = JSON.parse(output) as { relations: TrustRow[] };
    const others = relations.filter(({ verdict }) => verdict === 'fails' || verdict === 'unknown');
    expect(others.map(({ relation, credential, trust }) => [relation, credential.name, trust.name])).toEqual([
      // This kubelet has signed its serving certificate itself, and kubeadm's kubeconfigs name the API server's former one.
      ['R3', 'kubelet --tls-cert-file', 'kube-apiserver --kubelet-certificate-authority'],
      ['R9', 'kube-apiserver --tls-cert-file', 'admin.conf'],
      ['R9', 'kube-apiserver --tls-cert-file', 'super-admin.conf'],
    ]);
    const held = relations.flatMap(({ relation, verdict }) => (verdict === 'holds' ? [relation] : []));
    expect(held).toEqual(expect.arrayContaining(['R1', 'R2', 'R5', 'R6', 'R8', 'R9', 'R10', 'R11', 'R12', 'R13']));
  });

  it('gives a pod the least-privileged identity that the page tells to make', async () => {
    const [, controllerManager] = components;
    if (controllerManager === undefined) throw new Error('no kube-controller-manager');
    const began = Date.now();
    console.log(await useOwnIdentity(cluster, controllerManager));
    await eventually(
      async () => {
        const log = (await ownLog(cluster.node, began)).filter(({ container }) => /controller-manager/.test(container));
        expect(log.filter(({ event }) => event === 'api.answered').length).toBe(1);
      },
      { everyMs: 500 },
    );
  });

  it('comes back after everything has expired while it was off', async () => {
    const { node } = cluster;
    const end = await endSoon(cluster, { inMs: 40_000 });
    await offPast(node, end);
    for (const [name, at] of await endsOnDisk(node)) expect(at.getTime(), name).toBeLessThan(Date.now());

    const since = Date.now();
    await node.on();
    const statuses: string[] = [];
    const [ready, apiBack] = await Promise.all([
      cluster.ready(node, { since }),
      eventually(
        async () => {
          const status = String(await aggregated().catch((err: Error) => err.message));
          if (statuses.at(-1) !== status) statuses.push(status);
          expect(status).toBe('200');
          return Date.now();
        },
        { everyMs: 50 },
      ),
    ]);
    await eventually(async () => expect(await invalidInApi(cluster)).toEqual([]));
    await eventually(async () => expect(await differOnDisk(cluster)).toEqual([]));
    for (const [name, at] of await endsOnDisk(node)) expect(at.getTime(), name).toBeGreaterThan(Date.now());
    for (const [object, name] of servingNames) {
      expect(await served(node, name, cluster.ca), name).toBe(await servedFromApi(cluster, object));
    }
    for (const [name, namespace] of Object.entries(leaseOf)) {
      await eventually(async () => {
        const { body } = await cluster.api(`/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/${name}`);
        const { holderIdentity = '', acquireTime = '' } = (body as { spec: Record<string, string> }).spec;
        expect(holderIdentity).toMatch(new RegExp(`^${node.name}_`));
        expect(Date.parse(acquireTime), name).toBeGreaterThan(since);
      });
    }
    await cluster.runPod();

    const log = await ownLog(node, since);
    // Each with the identity that it has.
    for (const container of containersOfRegen) {
      expect(log.find((line) => line.container === container && line.event === 'recovery.finished')).toBeDefined();
    }
    const last = (is: (line: Line) => boolean, until = Infinity) =>
      log.findLast((line) => is(line) && line.at < until)?.at;
    const written = (line: Line): boolean =>
      /^(signer|target)\.regenerated$|^(caBundle|copy)\.updated$/.test(line.event ?? '');
    const first = log.find(({ event }) => event === 'api.answered')?.at ?? NaN;
    console.log(
      [
        `power on to: first 200 ${first - since} ms, kube-apiserver's regen done ${(last((line) => written(line) && line.container.startsWith('kube-apiserver')) ?? NaN) - since} ms`,
        `all valid in the API ${(last(written) ?? NaN) - since} ms`,
        `all written to disk ${(last(({ event }) => event === 'sync.written') ?? NaN) - since} ms`,
        `aggregated API ${apiBack - since} ms (${statuses.join(' -> ')}), Ready ${ready - since} ms`,
      ].join('; '),
    );
  });

  it('is given back: plain files of the same bytes at the same paths, none of them ever absent', async () => {
    const { node } = cluster;
    const [, , scheduler] = components;
    if (scheduler === undefined) throw new Error('no kube-scheduler');
    const directory = `${certsOf(scheduler)}/secrets/kube-scheduler-client-cert-key`;
    const sums = async (): Promise<string> => node.sh(`cd ${directory} && sha256sum tls.crt tls.key`);
    const before = await sums();
    await node.sh(`cd ${directory} && (while [ ! -e /tmp/enough ]; do
        cat tls.crt tls.key > /dev/null 2>> /tmp/absent; echo >> /tmp/reads
      done) > /dev/null 2>&1 &`);
    console.log(await giveBack(cluster, scheduler));
    await node.sh('touch /tmp/enough');
    expect(await node.sh(`ls -A ${directory}; stat -c '%F %a' ${directory}/tls.*`)).toBe(
      'tls.crt\ntls.key\nregular file 600\nregular file 600\n',
    );
    expect(await sums()).toBe(before);
    expect(await node.sh('cat /tmp/absent')).toBe('');
    expect(Number(await node.sh('wc -l < /tmp/reads'))).toBeGreaterThan(20);
    await cluster.runPod();
  });
});
