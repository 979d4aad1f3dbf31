// Each thing that arms a machine is taken away in turn: `status` names it, says what still repairs, and exits with 3; and
// the part that rests on it fails on a real node whose certificates have expired. With all in place the node is repaired
// while it runs, and comes back from the dead. A real Prometheus, which scrapes the text file of this node, tells the same.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { panels } from '../../scripts/monitoring.ts';
import { eventually } from '../support/eventually.ts';
import { powerCycle, proveHealthy } from '../support/node/boot.ts';
import { Cluster } from '../support/node/cluster.ts';
import { programPath } from '../support/node/container.ts';
import { leafProblems, leaves, past, reissue, superAdmin } from '../support/node/leaves.ts';
import { Prometheus, serveTextFile } from '../support/prometheus.ts';

const all = [...leaves, superAdmin];
/** By the CA of the cluster, whose key is one of the things. */
const ofCluster = all.filter(({ ca }) => ca === 'ca').map(({ name }) => name);
const started = '/opt/kube-cert-recovery/bin/kube-cert-recovery';
const [timer, service] = ['kube-cert-recovery.timer', 'kube-cert-recovery.service'];
const unit = `/etc/systemd/system/${service}`;
const own = `${unit}.d/own.conf`;
const dropIn = '/etc/systemd/system/kubelet.service.d/20-kube-cert-recovery.conf';
const later = dropIn.replace('20-', '30-').replace('.conf', '-off.conf');
const authorityKey = '/etc/kubernetes/pki/ca.key';
const metrics = '/var/lib/prometheus/node-exporter/certs.prom';
/** Outlives a power cycle, as /tmp does not. */
const aside = '/var/lib/aside';
// A copy, because one of the things is the program itself.
const copy = `${aside}/program/kube-cert-recovery`;

const reload = 'systemctl daemon-reload';
const drop = (lines: string): string => `mkdir -p ${unit}.d && printf '[Service]\\n${lines}' > ${own} && ${reload}`;
/** A service that may write its metrics, and nothing of the control plane. */
const narrow = `cp -p ${unit} ${aside} && sed -i 's,^ReadWritePaths=.*,ReadWritePaths=-${dirname(metrics)},' ${unit} && ${reload}`;
const widened = `mv ${aside}/${service} ${unit} && touch ${unit}`;
const move = (from: string, to: string): string => `mv ${from}/${basename(dropIn)} ${to} && ${reload}`;
const minute = 60_000;
const executable = `$(readlink -f ${started})`;

interface Thing {
  readonly take: string;
  readonly giveBack: string;
  readonly reason: string;
  /** What of it still repairs, as status says it. */
  readonly known: string;
  /** Whether a run of the service then repairs nothing. */
  readonly stopsRuns?: true;
  /** The run of the timer would come between. */
  readonly withoutTimer?: true;
}

const onlyStart = 'only the start of the kubelet is known to';
const onlyTimer = 'only the timer is known to';
const nothing = 'nothing here is known to';
const things: readonly Thing[] = [
  {
    take: `systemctl stop ${timer}`,
    giveBack: `systemctl start ${timer}`,
    reason: `${timer} is not active`,
    known: onlyStart,
  },
  {
    take: `systemctl disable ${timer}`,
    giveBack: `systemctl enable ${timer}`,
    reason: `${timer} is not enabled`,
    known: onlyStart,
  },
  {
    take: narrow,
    giveBack: `${widened} && ${reload}`,
    reason: `"${unit}" is not as init host writes it`,
    known: onlyStart,
    stopsRuns: true,
  },
  {
    take: `${narrow} && ${widened}`,
    giveBack: reload,
    reason: `systemd has not loaded ${service} as it is on disk`,
    known: onlyStart,
    stopsRuns: true,
  },
  {
    take: drop('ExecStart=\\nExecStart=/bin/true\\n'),
    giveBack: `rm ${own} && ${reload}`,
    reason: `a drop-in of ${service} replaces what it runs`,
    known: onlyStart,
    stopsRuns: true,
  },
  {
    take: `printf '[Service]\\nExecStartPre=\\n' > ${later} && ${reload}`,
    giveBack: `rm ${later} && ${reload}`,
    reason: 'the start of kubelet.service does not run it',
    known: onlyTimer,
  },
  {
    take: move(dirname(dropIn), aside),
    giveBack: move(aside, dirname(dropIn)),
    reason: `"${dropIn}" absent`,
    known: onlyTimer,
  },
  {
    take: `${drop('ExecStartPre=/bin/false\\n')}; systemctl start ${service} || true`,
    giveBack: `rm ${own} && ${reload}`,
    reason: `${timer} is not active; the last run failed (exit-code 0)`,
    known: nothing,
    stopsRuns: true,
    withoutTimer: true,
  },
  {
    take: `chmod a-x ${executable}`,
    giveBack: `chmod a+x ${executable}`,
    reason: `"${started}", which the units start, does not run: "--version" ended EACCES; ${timer} is not active`,
    known: nothing,
    stopsRuns: true,
    withoutTimer: true,
  },
];

const kubectl = 'kubectl --kubeconfig=/etc/kubernetes/admin.conf';
const missing = 'rights in the API are missing (see the notes)';

/** Panels that have data where this program runs in containers. */
const ofContainers = ['Silence of watches', 'Queues', 'Approvals: 95 of 100 within'];

describe('a node that init host has armed', () => {
  let cluster: Cluster;
  let directory: string;
  let textFile: Awaited<ReturnType<typeof serveTextFile>>;
  let prometheus: Prometheus;

  beforeAll(async () => {
    cluster = await Cluster.create(inject('workshop'), { systemd: true });
    const { node } = cluster;
    await node.sh(`mkdir -p ${dirname(metrics)} ${aside} && cp -r ${dirname(programPath)} ${dirname(copy)}`);
    await node.sh(`${programPath} init host --preset=kubeadm --metrics-file=${metrics}`);
    directory = await mkdtemp(join(tmpdir(), 'armed-'));
    textFile = await serveTextFile(() => node.read(metrics));
    prometheus = await Prometheus.start(directory, [{ name: 'node', port: textFile.port }]);
  });
  afterAll(async () => {
    await (prometheus as Prometheus | undefined)?.[Symbol.asyncDispose]();
    await (textFile as AsyncDisposable | undefined)?.[Symbol.asyncDispose]();
    await (cluster as Cluster | undefined)?.[Symbol.asyncDispose]();
    if (directory !== undefined) await rm(directory, { recursive: true });
  });

  async function look(flags = '--at=2030-01-01') {
    const { code, output } = await cluster.node.run(`${copy} status -o json ${flags} 2>/dev/null`);
    const { armed, reasons } = JSON.parse(output) as { readonly armed: boolean; readonly reasons: readonly string[] };
    return { code, armed, reasons: reasons.join('; ') };
  }
  async function lastLine() {
    const { code, output } = await cluster.node.run(`${copy} rehearse --at=2030-01-01`);
    return { code, line: output.trim().split('\n').at(-1) };
  }
  const expire = (options: { readonly runs?: boolean } = {}): Promise<void> =>
    reissue(cluster.node, all, past(new Date()), options);
  const expired = async (): Promise<readonly string[]> =>
    (await leafProblems(cluster.node, all)).filter((line) => line.includes('certificate has expired'));
  /** When the timer fires next, in milliseconds since the epoch; it does so each minute. */
  async function nextRun(): Promise<number> {
    const show = `systemctl show --property=NextElapseUSecRealtime --value ${timer}`;
    return 1000 * Number(await cluster.node.sh(`date --date="$(${show})" +%s`));
  }
  /** As at a boot: it starts, fails, and is to start again. */
  async function kubeletFails(): Promise<void> {
    const { node } = cluster;
    await node.sh('systemctl restart kubelet.service', { seconds: 100 });
    await eventually(
      async () => {
        const { output } = await node.run('systemctl show --property=SubState --value kubelet.service');
        expect(output).toBe('auto-restart\n');
      },
      { everyMs: 200 },
    );
    await expect(cluster.api('/readyz')).rejects.toThrow();
  }
  /** Whether the clock of this machine is synchronised is not this node's to say. */
  const alerts = async (): Promise<readonly string[]> =>
    (await prometheus.firing()).filter((alert) => !alert.startsWith('CertRecoveryClockUnconfirmed'));
  const fires = (...wanted: readonly string[]): Promise<void> =>
    eventually(async () => expect(await alerts()).toEqual(wanted.toSorted()), { everyMs: 300, withinMs: 120_000 });

  it('is not armed when something that arms it is taken away, and says so', async () => {
    const { node } = cluster;
    const whole = await look();
    expect(whole).toMatchObject({ code: 4, armed: true });
    expect(whole.reasons).toMatch(
      /^service, timer and drop-in are loaded; (last run .*|no run since the boot|a run is under way); CAs valid until /,
    );
    expect(await lastLine()).toMatchObject({ code: 0 });
    for (const { take, giveBack, reason, known, withoutTimer = false } of things) {
      await node.sh(withoutTimer ? `systemctl stop ${timer} && ${take}` : take);
      expect(await look(), take).toEqual({ code: 3, armed: false, reasons: reason });
      const line = expect.stringContaining(`${known} run it: ${reason}`);
      expect(await lastLine(), take).toMatchObject({ code: 3, line });
      await node.sh(withoutTimer ? `${giveBack} && systemctl start ${service} ${timer}` : giveBack);
      expect(await look(), giveBack).toMatchObject({ code: 4, armed: true });
    }
    await node.sh(`mv ${authorityKey} ${aside}`);
    expect(await look()).toMatchObject({ code: 5, reasons: expect.stringContaining('CA key elsewhere: ca') });
    await node.sh(`mv ${aside}/ca.key ${authorityKey}`);
    const role = (await node.sh(`${kubectl} -n kube-system get roles -o name | grep kube-cert-recovery`)).trim();
    await node.sh(`${kubectl} -n kube-system delete ${role}`);
    expect(await look('')).toMatchObject({ armed: true, reasons: expect.stringContaining(missing) });
    await node.sh(`${programPath} init host`);
    expect((await look('')).reasons).not.toContain(missing);
    expect(await look()).toMatchObject({ code: 4, armed: true });
    await fires();
  });

  it('is repaired while it runs by the timer, and not without any of what its run rests on', async () => {
    const { node } = cluster;
    const next = await nextRun();
    await node.sh(`systemctl stop ${timer} ${service}`);
    await expire({ runs: true });
    await eventually(() => expect(cluster.api('/readyz')).rejects.toThrow('certificate has expired'));
    for (const { take, giveBack } of things.filter(({ stopsRuns }) => stopsRuns)) {
      await node.sh(take);
      await node.run(`systemctl start ${service}`); // as the timer does
      expect(await expired(), take).toHaveLength(all.length);
      await node.sh(giveBack);
    }
    // Nothing but the timer is missing when its time comes.
    await delay(((((next - Date.now()) % minute) + minute) % minute) + 2000);
    expect(await expired()).toHaveLength(all.length);
    const since = Date.now();
    await node.sh(`systemctl start ${timer}`);
    await cluster.ready(node, { since });
    await proveHealthy(cluster, node, all);
    await fires('CertRecoveryDone info node');
  });

  it('comes back from the dead, and not without any of what that rests on', async () => {
    const { node } = cluster;
    await node.sh(`chmod a-x ${executable}`);
    await node.off();
    await expire();
    await node.on();
    await node.runtimeReady();
    await kubeletFails();
    expect(await expired()).toHaveLength(all.length);
    await node.sh(`systemctl disable --now ${timer} && mv ${authorityKey} ${aside} && chmod a+x ${executable}`);
    await kubeletFails();
    expect((await expired()).map((line) => line.replace(/:.*/, '')).toSorted()).toEqual(ofCluster.toSorted());
    const stuck = [
      ...ofCluster.flatMap((name) => [`CertificateExpired critical ${name}`, `CertRecoveryBlocked warning ${name}`]),
      'CertRecoveryBlocked warning ca',
      'CertRecoveryNotSucceeding critical node',
      'CertRecoveryDone info node', // of the leaves by the CAs of etcd and of the front proxy
    ];
    await fires(...stuck, 'CertRecoveryUnitsNotLoaded critical node');
    await node.sh(`systemctl enable --now ${timer} && systemctl start ${service} || true`, { seconds: 320 });
    await fires(...stuck);
    await node.sh(`systemctl disable --now ${timer}; ${move(dirname(dropIn), aside)}`);
    await node.sh(`systemctl stop ${service}; mv ${aside}/ca.key ${authorityKey}`);
    await kubeletFails();
    expect(await expired()).toHaveLength(ofCluster.length);
    const since = Date.now();
    await node.sh(`systemctl enable --now ${timer}`);
    await cluster.ready(node, { since });
    await proveHealthy(cluster, node, all);
    await node.sh(`${move(aside, dirname(dropIn))} && systemctl start ${service}`, { seconds: 200 });
    await fires('CertRecoveryDone info node');
    const silent: string[] = [];
    for (const { title, expr } of panels) if ((await prometheus.ask(expr)).length === 0) silent.push(title);
    expect(silent).toEqual(ofContainers);
  });

  it('comes back at a boot without its service and its timer', async () => {
    const { node } = cluster;
    await node.sh(`systemctl disable --now ${timer}; ${drop('ExecStart=\\nExecStart=/bin/true\\n')}`);
    await powerCycle(cluster, { whileOff: () => expire() });
    await proveHealthy(cluster, node, all);
    await node.sh(`systemctl enable --now ${timer}; rm ${own}; ${reload}`);
  });

  it('comes back at a boot without what runs before the kubelet', async () => {
    const { node } = cluster;
    await node.sh(`printf '[Service]\\nExecStartPre=\\n' > ${later} && ${reload}`);
    await powerCycle(cluster, { whileOff: () => expire() });
    await proveHealthy(cluster, node, all);
    await node.sh(`rm ${later} && ${reload}`);
  });

  it('comes back at a boot without its rights in the API, and has them again', async () => {
    const { node } = cluster;
    const roles = 'role,rolebinding kube-cert-recovery-hosts';
    for (const namespace of ['kube-system', 'kube-public'])
      await node.sh(`${kubectl} --namespace=${namespace} delete ${roles}`);
    expect(await look('')).toMatchObject({ armed: true, reasons: expect.stringContaining(missing) });
    await powerCycle(cluster, { whileOff: () => expire() });
    await proveHealthy(cluster, node, all);
    await node.sh(`systemctl start ${service}`, { seconds: 200 });
    const { armed, reasons } = await look('');
    expect([armed, reasons]).toEqual([true, expect.not.stringContaining(missing)]);
  });
});
