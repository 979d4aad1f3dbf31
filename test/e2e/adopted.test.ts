// The form in which the program is used: containers in the static pods of a control plane whose certificates are objects
// in the API. A kubeadm machine is adopted; its certificates expire while it is off; switched on, it comes back with
// nothing typed, with no registry, no names, no network for pods and no holder of a lease.
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { staticPods } from '../../lib/components.ts';
import { parseYaml } from '../../lib/yaml.ts';
import { blocks, page, section } from '../docs/markdown.ts';
import { eventually } from '../support/eventually.ts';
import {
  adopt,
  bootstrapAsOpenShift,
  configure,
  endLeaves,
  ends,
  endWithAuthorities,
  giveBack,
  leavesInApi,
  leavesValid,
  networkFromDaemonSet,
  offPast,
  openshiftBootstrapper,
  recoveryDirectory,
  renewedSince,
  renewing,
  startWorkload,
  suspendPast,
  workloadRuns,
} from '../support/node/adopted.ts';
import { measureBoot, powerCycle } from '../support/node/boot.ts';
import { Cluster } from '../support/node/cluster.ts';
import { programPath } from '../support/node/container.ts';
import {
  cutOffAtBoot,
  cutOffSince,
  type LeaderLease,
  leaderLeases,
  leaders,
  networkSince,
  pulls,
  resolvesNames,
} from '../support/node/cut-off.ts';
import { runningOn, startLoad } from '../support/node/load.ts';
import { serviceCommand } from '../support/node/node.ts';
import { mebibytes, ownContainer, ownMemory } from '../support/node/own-container.ts';
import { Handshakes, kubeletIssued, kubeletRequesters, ownLog, stepsOf, stepsText } from '../support/node/steps.ts';

/** From the last write to the end of what was written: the syncers need a moment, the power a second to go. */
const inMs = 40_000;
const adminKubeconfig = `${recoveryDirectory}/kube-apiserver/kubeconfigs/admin.kubeconfig`;

describe('one adopted control-plane machine', () => {
  let cluster: Cluster;
  /** What the machine that is to recover knew before, and when it was switched on. */
  let dead: ReadonlyMap<string, LeaderLease>;
  let since: number;

  beforeAll(async () => {
    cluster = await Cluster.create(inject('workshop'));
    const { node } = cluster;
    await node.sh('touch /var/lib/machine/no-recovery');
    console.log(await adopt(node));
    await cluster.ready(node);
    await networkFromDaemonSet(cluster);
  });
  afterAll(() => (cluster as Cluster | undefined)?.[Symbol.asyncDispose]());

  it('takes every step of the recovery flow after its certificates have expired while it was off, as an OpenShift kubelet', async () => {
    const { node } = cluster;
    expect(await resolvesNames(node)).toBe(true);
    const bootstrapAsBefore = await bootstrapAsOpenShift(cluster);
    const end = await endLeaves(cluster, { inMs });
    dead = await leaders(cluster);
    await offPast(node, end);
    await cutOffAtBoot(node);
    since = Date.now();
    const handshakes = new Handshakes(node);
    await node.on();
    // What the operators are in that flow: kube-controller-manager makes its Pod, the scheduler places it.
    await startWorkload(cluster);
    const [boot, workload, issued] = await Promise.all([
      measureBoot(cluster, node, { since }),
      workloadRuns(cluster),
      kubeletIssued(cluster, { since, withinMs: 120_000 }),
    ]);
    await handshakes.stop();
    const { created: podCreated, scheduled: podScheduled, running: podRunning } = workload;
    const seen = { cluster, node, since, handshakes, issued, podCreated, podScheduled, podRunning, ready: boot.ready };
    const steps = await stepsOf(seen);
    console.log(`${stepsText(steps)}\ncontainer runtime up to Ready: ${boot.runtimeToReady} ms`);
    expect(steps.filter(({ ms }) => ms === undefined)).toEqual([]);
    await cluster.runPod();
    expect(await kubeletRequesters(cluster, since)).toEqual([openshiftBootstrapper]);
    await bootstrapAsBefore();
  });

  it('needed no registry and no names for that', async () => {
    const { node } = cluster;
    const { runtime } = await node.bootTimes();
    expect(await cutOffSince(node)).toBeLessThan(runtime);
    expect(await resolvesNames(node)).toBe(false);
    for (const pod of staticPods) expect((await ownContainer(node, pod)).imagePullPolicy).toBe('IfNotPresent');
    expect(await pulls(node)).toEqual([]);
    // A pull would be seen, and would not succeed.
    const pods = '/api/v1/namespaces/default/pods';
    const image = 'registry.k8s.io/pause:3.10.1';
    const spec = { nodeName: node.name, containers: [{ name: 'pulled', image, imagePullPolicy: 'Always' }] };
    const pod = { metadata: { name: 'pulled' }, spec: { ...spec, automountServiceAccountToken: false } };
    expect((await cluster.api(pods, { method: 'POST', body: pod })).status).toBe(201);
    await eventually(
      async () => expect(JSON.stringify((await cluster.api(`${pods}/pulled`)).body)).toMatch(/ErrImagePull/),
      { everyMs: 300 },
    );
    expect((await pulls(node)).join('\n')).toContain(image);
    await cluster.api(`${pods}/pulled?gracePeriodSeconds=0`, { method: 'DELETE' });
  });

  it('needed no network for pods: its own work was done before that was configured', async () => {
    const { node } = cluster;
    const log = await ownLog(node, since);
    const configured = await networkSince(node);
    for (const event of ['lease.released', 'recovery.finished', 'csr.approved']) {
      expect(log.find((line) => line.event === event)?.at, event).toBeLessThan(configured);
    }
    for (const pod of staticPods) {
      expect(log.find((line) => line.pod === pod && line.event === 'sync.written')?.at, pod).toBeLessThan(configured);
    }
  });

  it('needed no holder of a lease: those of former processes were released, and none waited for them', async () => {
    const log = await ownLog(cluster.node, since);
    const held = await leaders(cluster);
    for (const name of leaderLeases) {
      const former = dead.get(name)?.holderIdentity ?? '';
      expect(former).toMatch(new RegExp(`^${cluster.node.name}_`));
      expect(held.get(name)?.holderIdentity, name).not.toBe(former);
      const released = log.find(({ event, lease }) => event === 'lease.released' && lease === name);
      expect(released?.message).toBe(`holder was ${former}`);
      // A release takes the version of the Lease that names the former holder: none had taken it over before.
      const secret = `kube-cert-recovery/${name}-client`;
      const written = log.find((line) => line.event === 'sync.written' && line.pod === name && line.secret === secret);
      expect(written, name).toBeDefined();
      const waited = Date.parse(held.get(name)?.acquireTime ?? '') - (written?.at ?? 0);
      console.log(`${name}: its lease was taken ${waited} ms after its certificate was written`);
    }
  });

  it('leaves room below the limits of its containers', async () => {
    const { node } = cluster;
    for (const pod of staticPods) {
      const { rss, anonymous, peak } = await ownMemory(node, pod);
      const { requests, limits } = (await ownContainer(node, pod)).resources;
      const [request, limit] = [mebibytes(requests.memory), mebibytes(limits.memory)];
      const figures = [rss, anonymous, peak].map((mb) => mb.toFixed(1));
      console.log(`${pod}: VmRSS, RssAnon, VmHWM ${figures.join(', ')} MB; request ${request}, limit ${limit} MB`);
      expect(peak, pod).toBeLessThan(0.75 * limit);
      expect(anonymous, pod).toBeLessThan(request);
    }
  });

  it('comes up as ever when nothing has expired', async () => {
    const healthy = await powerCycle(cluster);
    await cluster.runPod();
    console.log(`healthy: container runtime up to Ready: ${healthy.runtimeToReady} ms`);
  });

  it('renews every leaf while it runs and is used: no call fails twice, and nothing is started again', async () => {
    const { node } = cluster;
    const before = await node.read(`${recoveryDirectory}/kube-apiserver/config.yaml`);
    const { policy: _policy, preset: _preset, ...own } = parseYaml(before) as Readonly<Record<string, unknown>>;
    // Due when they are two minutes old, because those that are made now live a month longer.
    const ahead = { ...own, ...renewing({ validity: '60d', refresh: '2m' }) };
    const began = Date.now();
    await configure(cluster, JSON.stringify(ahead));
    const runs = await runningOn(cluster);
    const load = await startLoad(node, adminKubeconfig);
    const inDays = (count: number): number => Date.now() + count * 86_400_000;
    await eventually(
      async () => {
        const found = await ends(node);
        for (const name of leavesInApi) expect(found.get(name)?.getTime(), name).toBeGreaterThan(inDays(45));
      },
      { withinMs: 240_000, everyMs: 1000 },
    );
    await cluster.runPod();
    const { calls, retried, failed } = await load.stop();
    const renewed = await renewedSince(node, began);
    console.log(`renewed ${JSON.stringify([...renewed])}\ncalls ${JSON.stringify(calls)}, again:`, retried);
    expect([...renewed.keys()]).toEqual(expect.arrayContaining([...leavesInApi]));
    expect(failed).toEqual([]);
    expect(await runningOn(cluster)).toEqual(runs);
    await configure(cluster, before);
  });

  const webhooks = '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations';

  it('names a webhook that stands in its way, beforehand and then, and goes on once that is exempted', async () => {
    const { node } = cluster;
    await endLeaves(cluster, { inMs });
    const began = Date.now();
    const body = {
      metadata: { name: 'policy' },
      webhooks: [
        {
          name: 'policy.example.com',
          // Nothing listens there.
          clientConfig: { url: 'https://127.0.0.1:9/' },
          rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE', 'UPDATE'], resources: ['secrets'] }],
          failurePolicy: 'Fail',
          sideEffects: 'None',
          admissionReviewVersions: ['v1'],
        },
      ],
    };
    expect((await cluster.api(webhooks, { method: 'POST', body })).status).toBe(201);
    const flags = `--config=${recoveryDirectory}/kube-apiserver/config.yaml --kubeconfig=${adminKubeconfig}`;
    const status = (await node.run(`${programPath} status ${flags} 2>&1`)).output;
    const [, text = '', selector = '{}'] = /^ *(Validating.*); add to it: (.*)$/m.exec(status) ?? [status];
    expect(text).toBe(
      'ValidatingWebhookConfiguration "policy": webhook "policy.example.com" intercepts these objects and stops recovery when its backend is down',
    );
    const troubleshooting = section(page('docs/troubleshooting.md'), 'An admission webhook intercepts');
    const exemption = blocks(troubleshooting).find(({ language }) => language === 'yaml')?.text ?? '';
    expect(JSON.parse(selector)).toEqual(parseYaml(exemption));

    const failed = await eventually(
      async () => {
        const found = (await ownLog(node, began)).find(({ event }) => event === 'rotation.failed');
        if (found === undefined) throw new Error('No rotation has failed');
        return found;
      },
      { everyMs: 500 },
    );
    expect(failed.err).toMatch(
      /^Cannot update Secret "kube-cert-recovery\/[a-z-]+": admission webhook "policy\.example\.com" does not answer; exempt /,
    );
    expect((await ends(node)).get('kube-apiserver-serving')?.getTime()).toBeLessThan(Date.now());

    // As an administrator has to do it then: only localhost-recovery is valid.
    const bundle = `${recoveryDirectory}/kube-apiserver/certs/configmaps/kube-apiserver-server-ca/ca-bundle.crt`;
    const server = `--server=https://127.0.0.1:6443 --tls-server-name=localhost-recovery --certificate-authority=${bundle}`;
    const admin = '--client-certificate=/var/lib/machine/test-admin.crt --client-key=/var/lib/machine/test-admin.key';
    const { namespaceSelector: value } = JSON.parse(selector) as { namespaceSelector: object };
    const patch = JSON.stringify([{ op: 'add', path: '/webhooks/0/namespaceSelector', value }]);
    const exempted = Date.now();
    await node.sh(
      `kubectl ${server} ${admin} patch validatingwebhookconfigurations policy --type=json --patch='${patch}'`,
    );
    await leavesValid(node);
    console.log(`exempted to valid on disk: ${Date.now() - exempted} ms`);
    await cluster.runPod();
  });

  it('comes back after all of it has expired while its processes stood still, beside the exempted webhook', async () => {
    const { node } = cluster;
    const thawed = await suspendPast(cluster, { inMs });
    // Written is not served: kube-apiserver loads what has changed a moment later.
    await eventually(async () =>
      expect(JSON.stringify((await cluster.api(`${webhooks}/policy`)).body)).toContain('NotIn'),
    );
    // While it runs, a kubelet does not ask with its bootstrap kubeconfig; five minutes without a certificate, and it ends
    // itself (1.35, pkg/kubelet/certificate/transport.go). The timer does not wait for that.
    expect((await ends(node)).get('kubelet')?.getTime()).toBeLessThan(Date.now());
    const lease = (await cluster.api(`/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/${node.name}`))
      .body;
    expect(Date.parse((lease as { spec: { renewTime: string } }).spec.renewTime)).toBeLessThan(thawed);
    const serviced = Date.now();
    const [{ output }, ready] = await Promise.all([
      node.run(`${serviceCommand} 2>&1`, { seconds: 300 }), // as long as its unit lets it run
      cluster.ready(node, { since: serviced }),
    ]);
    expect(output).toMatch(/"component":"kubelet".*"event":"restart\.done"/);
    expect(output).toMatch(/"component":"kubelet".*"event":"proof\.succeeded"/);
    console.log(`timer's service: ${ready - serviced} ms to Ready\n${output}`);
    await cluster.runPod();
    expect((await cluster.api(`${webhooks}/policy`, { method: 'DELETE' })).status).toBe(200);
  });

  it('has left no key and no token in any log', async () => {
    const { node } = cluster;
    await node.sh(`for file in ${recoveryDirectory}/*/credentials/*/token; do cat "$file"; echo; done > /tmp/secrets
      sed -n 's/.*token: *//p' /etc/kubernetes/bootstrap-kubelet.conf >> /tmp/secrets; echo 'PRIVATE KEY' >> /tmp/secrets`);
    expect((await node.read('/tmp/secrets')).trim().split('\n').length).toBeGreaterThanOrEqual(7);
    const leaks = async (): Promise<string> => (await node.sh('grep -rlFf /tmp/secrets /var/log/ || true')).trim();
    expect(await leaks()).toBe('');
    // The search finds what is there.
    await node.sh('tail -n 2 /tmp/secrets | head -n 1 > /var/log/planted.log');
    expect(await leaks()).toBe('/var/log/planted.log');
    await node.sh('rm /tmp/secrets /var/log/planted.log');
  });

  it('is put right by the same command after kubeadm has rewritten a manifest', async () => {
    const { node } = cluster;
    const manifest = '/etc/kubernetes/manifests/kube-scheduler.yaml';
    await node.sh('kubeadm init phase control-plane scheduler --config /var/lib/machine/kubeadm.yaml 2>&1');
    expect(await node.read(manifest)).not.toContain('kube-cert-recovery');
    // What takes the place of admin.conf has the same rights, and knows the API server.
    const told = await adopt(node, `--kubeconfig=${adminKubeconfig}`);
    expect(told).toContain('Static pod kube-scheduler: changed, and runs');
    expect(told).toContain('Static pod kube-apiserver: runs, as it should be');
    expect(told).not.toMatch(/Created|Updated/);
    expect(await node.read(manifest)).toContain('name: kube-cert-recovery');
  });

  it('says that all is well, also by the configuration of a container, and is not uninstalled while it is adopted', async () => {
    const { node } = cluster;
    // A container that has just been started has its objects on disk within seconds.
    const status = async (...flags: readonly string[]): Promise<string> =>
      (await node.run(`${programPath} status ${flags.join(' ')} 2>&1; echo exit $?`)).output;
    const well = await eventually(
      async () => {
        const text = await status();
        expect(text).toContain('Everything is as it should be.');
        return text;
      },
      { everyMs: 1000 },
    );
    for (const pod of staticPods) expect(well).toMatch(new RegExp(`^${pod} +ready +runs and is ready`, 'm'));
    // 4: certificates of this cluster are short, and may be in their last fifth.
    expect(well).toMatch(/^exit [04]$/m);
    const byConfig = await status(`--config=${recoveryDirectory}/kube-apiserver/config.yaml`);
    expect(byConfig).toContain('Everything is as it should be.');
    expect(byConfig).toMatch(/^exit [04]$/m);
    expect(byConfig).not.toContain('etcd-ca');
    const trust = (await node.run(`${programPath} verify -o json`)).output;
    expect(trust).toContain('"verdict": "holds"');
    expect(trust).not.toMatch(/"verdict": "(?:fails|unknown)"/);

    const uninstall = `${programPath} uninstall --kubeconfig=${adminKubeconfig} 2>&1; echo exit $?`;
    const refused = (await node.run(uninstall)).output;
    expect(refused).toContain(`  modes: static pods of ${node.name}. Without these identities`);
    expect(refused).toMatch(/^exit 1$/m);
  });

  it("is given back to kubeadm's files", async () => {
    const { node } = cluster;
    const told = await giveBack(node);
    // The command that removes the rest, as it is told.
    const [, command = ''] = /; to remove them: kube-cert-recovery (.*)$/m.exec(told) ?? expect.unreachable(told);
    expect(await node.sh(`${programPath} ${command} --dry-run`)).toContain(
      'Would remove Secret "kube-cert-recovery/kube-apiserver-serving-signer"',
    );
    expect(await node.sh('grep -l kube-cert-recovery /etc/kubernetes/manifests/* || true')).toBe('');
    expect(await node.sh(`ls ${recoveryDirectory} /etc/kubernetes/bootstrap-kubelet.conf 2>/dev/null || true`)).toBe(
      '',
    );
    // What the timer of "init host" would run does not take it back.
    expect(await node.sh(`${programPath} init adopt --repair --preset=kubeadm 2>&1`)).toBe('');
    await cluster.runPod();
    // Nothing that is gone is still needed.
    await powerCycle(cluster);
    await cluster.runPod();
  });

  it('comes back, adopted again, when its CAs have ended as well: with new ones', async () => {
    const { node } = cluster;
    const bundle = `${recoveryDirectory}/kube-apiserver/certs/configmaps/kube-apiserver-server-ca/ca-bundle.crt`;
    expect(await adopt(node)).not.toContain('Created');
    const end = await endWithAuthorities(cluster, { inMs });
    const former = await node.read(bundle);
    await offPast(node, end);
    const switchedOn = Date.now();
    await node.on();
    const ready = await eventually(
      async () => {
        // What the tests knew the cluster by has ended, too.
        await cluster.useAdopted(recoveryDirectory);
        return cluster.ready(node, { since: switchedOn, withinMs: 1000 });
      },
      // The kubelet's back-offs (of its lists, of containers that ended) add up on a machine that is busy.
      { withinMs: 300_000, everyMs: 100 },
    );
    console.log(`CAs too: power on to Ready: ${ready - switchedOn} ms`);
    expect(await node.read(bundle)).not.toBe(former);
    await cluster.runPod();
  });
});
