// One node and what can happen to its certificates: all or some have expired, while it was off or while it stood still;
// files are gone or torn; the power fails in the middle of the repair; the disk is full.
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { powerCycle, proveHealthy } from '../support/node/boot.ts';
import { Cluster } from '../support/node/cluster.ts';
import { type Leaf, leafCheck, leafProblems, leaves, past, reissue, superAdmin } from '../support/node/leaves.ts';
import { beforeKubelet, type Node } from '../support/node/node.ts';

const all = [...leaves, superAdmin];
const named = (...names: readonly string[]): Leaf[] => all.filter(({ name }) => names.includes(name));
const expire = (which: readonly Leaf[]) => (node: Node) => reissue(node, which, past(new Date()));

let cluster: Cluster;

beforeAll(async () => {
  cluster = await Cluster.create(inject('workshop'), { encryptionAlgorithm: 'ECDSA-P256' });
});
afterAll(() => (cluster as Cluster | undefined)?.[Symbol.asyncDispose]());

async function comesBack(whileOff: (node: Node) => Promise<void>): Promise<void> {
  console.log('container runtime up to Ready, in ms:', await powerCycle(cluster, { whileOff }));
  await proveHealthy(cluster, cluster.node, all);
}

/** Serial numbers by leaf: which ones have been reissued. */
async function fingerprints(): Promise<Map<string, string>> {
  const script = all.map(({ name, file }) =>
    file.endsWith('.conf')
      ? `echo "${name} $(sed -n 's/.*client-certificate-data: //p' /${file} | sha256sum)"`
      : `echo "${name} $(openssl x509 -in /${file} -noout -fingerprint)"`,
  );
  const lines = (await cluster.node.sh(script.join('\n'))).trim().split('\n');
  return new Map(lines.map((line) => [line.slice(0, line.indexOf(' ')), line]));
}

describe('a node that was off', () => {
  it('comes back when all its leaves have expired', () => comesBack(expire(all)));

  it('comes back when only those of etcd have expired, and keeps the others', async () => {
    const before = await fingerprints();
    const expired = ['etcd-server', 'etcd-peer', 'etcd-healthcheck-client', 'apiserver-etcd-client'];
    await comesBack(expire(named(...expired)));
    const after = await fingerprints();
    const changed = all.map(({ name }) => name).filter((name) => before.get(name) !== after.get(name));
    expect(changed.toSorted()).toEqual(expired.toSorted());
  });

  it("comes back when only the kubelet's identity has expired", () => comesBack(expire(named('kubelet.conf'))));
});

describe('a node that stood still', () => {
  it('is repaired when it goes on past the end of its certificates', async () => {
    const { node } = cluster;
    // Short-lived and not yet expired, however slow this boot is: what its components hold in memory expires as well.
    let end = 0;
    for (let lifeMs = 60_000; Date.now() >= end; lifeMs *= 2) {
      end = Date.now() + lifeMs;
      const dates = { notBefore: new Date(end - 3_600_000), notAfter: new Date(end) };
      await powerCycle(cluster, {
        whileOff: (off) => reissue(off, all, dates).then(() => off.atBoot('touch /var/lib/machine/timer')),
      });
    }
    const kubelet = await node.sh('pidof kubelet');
    await node.freeze();
    await delay(Math.max(0, end + 2000 - Date.now()));
    await node.thaw();
    const since = Date.now();
    await eventually(async () => expect(await leafProblems(node, all)).toEqual([]), { everyMs: 1000 });
    // The kubelet's own lease proves that it has read its new identity.
    await cluster.ready(node, { since });
    await proveHealthy(cluster, node, all);
    await node.sh('rm /var/lib/machine/timer');
    expect(await node.sh('pidof kubelet')).not.toBe(kubelet);
  });
});

/** The certificate and the key of a leaf, as far as they are files of their own. */
const filesOf = ({ file, key }: Leaf): string[] =>
  [file, ...(key === undefined ? [] : [key])].map((path) => `/${path}`);

describe('a node whose files are damaged', () => {
  // An absent super-admin.conf or admin.conf is no damage: people remove them from their machines.
  const every = leaves.flatMap((leaf) => filesOf(leaf));
  const admin = '/etc/kubernetes/admin.conf';
  const remove = (path: string): string => (path === admin ? `: > ${path}` : `rm -f ${path}`);

  it.each([
    ['is gone', remove],
    ['is full of zeros', (path: string) => `head -c 900 /dev/zero > ${path}`],
    ['is cut off', (path: string) => `truncate -s 300 $(readlink -f ${path})`],
    ['is empty', (path: string) => `: > ${path}`],
  ])('repairs every leaf of which a file %s', async (_, damage) => {
    const { node } = cluster;
    // The static pods go on: only the program is asked, of one half of each pair and every other kubeconfig, then of the rest.
    for (const rest of [0, 1]) {
      const damaged = every.filter((_path, index) => index % 2 === rest);
      const script = [...damaged.map(damage), `${beforeKubelet} > /tmp/said 2>&1 || tail -2 /tmp/said`, leafCheck(all)];
      expect(await node.sh(script.join('\n'), { seconds: 300 }), damaged.join(' ')).toBe('');
    }
  });

  it('comes back when some are gone and others full of zeros, all at once', async () => {
    await comesBack((node) =>
      node.atBoot(
        every.map((path, index) => (index % 2 === 0 ? remove(path) : `head -c 900 /dev/zero > ${path}`)).join('\n'),
      ),
    );
  });
});

describe('a node whose leaves have all expired', () => {
  const answer = '/run/nobody-answers';

  it('comes back beside a kubeadm that waits for an answer, with a kubelet.conf cut inside the name of a field', async () => {
    await comesBack(async (node) => {
      await expire(all)(node);
      await node.atBoot(
        [
          'file=/etc/kubernetes/kubelet.conf',
          'sed -i "/client-certificate/,\\$d" $file && printf "    client-c" >> $file',
          // As it was left in a terminal; it is asked before anything is changed.
          `mkfifo ${answer} && (kubeadm reset --kubeconfig=/nowhere <> ${answer} > /tmp/asked 2>&1 & echo $! > /run/kubeadm.pid)`,
        ].join('\n'),
      );
    });
    expect(await cluster.node.sh('cat /tmp/asked')).toContain('[y/N]');
    await cluster.node.sh('test "$(cat /proc/$(cat /run/kubeadm.pid)/comm)" = kubeadm && kill $(cat /run/kubeadm.pid)');
  });
});

/** One of each kind of file (a pair, credentials embedded in a kubeconfig, behind a link): the same calls for all others. */
const oneOfEachKind = named('apiserver', 'admin.conf', 'kubelet.conf');
/** What changes a disk or makes a change last: the program is killed at each of these calls in turn (strace counts each kind). */
const calls = ['fsync', 'rename', 'symlink', 'unlink', 'mkdir'] as const;
const snapshot = `rm -rf /var/lib/machine/snapshot && mkdir /var/lib/machine/snapshot &&
  cp -a /etc/kubernetes /var/lib/kubelet/pki /var/lib/machine/snapshot`;
const restore = `rm -rf /etc/kubernetes/* /var/lib/kubelet/pki/* /var/lib/kube-cert-recovery &&
  cp -a /var/lib/machine/snapshot/kubernetes/. /etc/kubernetes && cp -a /var/lib/machine/snapshot/pki/. /var/lib/kubelet/pki`;
/** One thread for files, so that the calls are counted in one order. */
const killedAt = (call: string, count: number): string =>
  `UV_THREADPOOL_SIZE=1 strace -f -qq -o /dev/null -e trace=${call} -e inject=${call}:signal=KILL:when=${count} ${beforeKubelet}`;

describe('a node whose repair is cut short', () => {
  beforeAll(async () => {
    // Only the disk matters now: the kubelet stays off until the end.
    await cluster.node.off();
    await reissue(cluster.node, oneOfEachKind, past(new Date()));
    await cluster.node.atBoot('touch /var/lib/machine/no-kubelet');
    await cluster.node.on();
    await cluster.node.runtimeReady();
    await cluster.node.sh(snapshot);
  });

  it('is repaired by the next start, wherever the power was lost', async () => {
    const { node } = cluster;
    const absent = all.flatMap((leaf) => filesOf(leaf)).map((path) => `test -e ${path} || echo ${path} is absent`);
    // One script, because there are many calls: killed, nothing absent, repaired, every leaf sound.
    const script = (call: string, count: number): string =>
      [
        restore,
        `${killedAt(call, count)} > /tmp/said 2>&1`,
        'code=$?; [ "$code" = 0 ] && exit 99; [ "$code" = 137 ] || { cat /tmp/said; exit 1; }',
        ...absent,
        `${beforeKubelet} > /tmp/said 2>&1 || cat /tmp/said`,
        leafCheck(all),
      ].join('\n');
    const kills = new Map<string, number>();
    for (const call of calls) {
      for (let count = 1; ; count += 1) {
        const { code, output } = await node.run(script(call, count));
        if (code === 99) break; // it had fewer calls to make
        expect({ call, count, code, output }).toEqual({ call, count, code: 0, output: '' });
        kills.set(call, count);
      }
    }
    console.log('killed at each of these calls:', Object.fromEntries(kills));
    expect(kills.get('fsync')).toBeGreaterThan(oneOfEachKind.length * 4);
    expect(kills.get('rename')).toBeGreaterThan(oneOfEachKind.length);
    for (const call of calls) expect(kills.get(call), call).toBeGreaterThan(0);
  });

  it('keeps what it has when the disk is full, and is repaired once there is room', async () => {
    const { node } = cluster;
    await node.sh(restore);
    // A disk of a megabyte in the place of /etc/kubernetes, with no byte left.
    await node.sh(`mkdir -p /mnt/small && mount -t tmpfs -o size=1m tmpfs /mnt/small &&
      cp -a /etc/kubernetes/. /mnt/small && mount --bind /mnt/small /etc/kubernetes`);
    await node.run('dd if=/dev/zero of=/etc/kubernetes/filler bs=4k 2>/dev/null');
    const digest = 'cd /etc/kubernetes && find . -type f ! -name filler | sort | xargs sha256sum';
    const before = await node.sh(digest);
    const full = await node.run(beforeKubelet);
    expect(full.code).not.toBe(0);
    expect(full.output).toMatch(/ENOSPC|no space left|disk is full/i);
    expect(await node.sh(digest)).toBe(before);
    await node.sh(`rm /etc/kubernetes/filler && ${beforeKubelet}`);
    expect(await leafProblems(node, all)).toEqual([]);
    await node.sh('umount /etc/kubernetes && umount /mnt/small');
  });

  it('comes back after several losses of power in a row', async () => {
    const { node } = cluster;
    await node.sh(restore);
    for (const [call, count] of [
      ['fsync', 4] as const,
      ['rename', 2] as const,
      ['fsync', 7] as const,
      ['fsync', 10] as const,
    ])
      expect((await node.run(killedAt(call, count))).code, `${call} ${count}`).toBe(137);
    await comesBack((off) => off.atBoot('rm /var/lib/machine/no-kubelet'));
  });
});
