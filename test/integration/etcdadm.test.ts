// Three real members of etcd in etcdadm's layout, whose certificates have all expired: one run on each machine, and the
// cluster has its quorum and its data again. Or end soon: they are renewed while the members serve. Also as a user that is
// not root, and below the paths of Bottlerocket.
import { execFile } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { askEtcdMembers, judgeQuorum } from '../../lib/proof/etcd-health.ts';
import { EtcdMembers, type EtcdMember } from '../support/cluster/etcd-members.ts';
import { startEtcdWriter } from '../support/cluster/etcd-writer.ts';
import { eventually } from '../support/eventually.ts';
import { asRoot, unseen } from '../support/cluster/namespaces.ts';

const run = promisify(execFile);
const program = fileURLToPath(new URL('../../dist/app/main.mjs', import.meta.url));
const isRoot = process.getuid?.() === 0;

const day = 86_400_000;
const expired = { notBefore: new Date(Date.now() - 400 * day), notAfter: new Date(Date.now() - 35 * day) };

interface Outcome {
  readonly code: number;
  readonly text: string;
}

/** As the drop-in of etcd.service and the timer do. `mounts`: shell commands in a mount namespace of the run's own. */
async function started(member: EtcdMember, words: readonly string[], mounts = ''): Promise<Outcome> {
  const command = [process.execPath, program, ...words].map((word) => `'${word}'`).join(' ');
  const script = `${mounts}exec ${command}`;
  return new Promise((resolve) => {
    const own = ['--mount', ...unseen, 'sh', '-ec', script];
    execFile('unshare', [...asRoot, ...own], { cwd: member.root }, (err, stdout, stderr) =>
      resolve({ text: `${stdout}${stderr}`, code: err === null ? 0 : Number(err.code ?? -1) }),
    );
  });
}

async function configured({ root, pki }: EtcdMember): Promise<string> {
  const path = join(root, 'recovery.yaml');
  // Nothing valid is renewed by a clock that nothing confirms.
  const regen = { backupDir: join(root, 'backups'), lockDir: join(root, 'lock'), clockSynchronised: true };
  const directories = { etcdPkiDir: pki };
  await writeFile(
    path,
    `apiVersion: kube-cert-recovery/v1alpha1\nkind: Configuration\npreset: etcdadm\n` +
      `directories: ${JSON.stringify(directories)}\nregen: ${JSON.stringify(regen)}\n`,
  );
  return path;
}

const recover = async (member: EtcdMember, ...flags: readonly string[]): Promise<Outcome> =>
  started(member, ['--mode=regen', '--once', '--restart', `--config=${await configured(member)}`, ...flags]);
const status = async (member: EtcdMember, ...flags: readonly string[]): Promise<Outcome> =>
  started(member, ['status', `--config=${await configured(member)}`, ...flags]);

/** On Bottlerocket the machine's own /var/lib has the files. */
const onBottlerocket = (member: EtcdMember, ...words: readonly string[]): Promise<Outcome> =>
  started(
    member,
    [...words, '--preset=eks-anywhere-bottlerocket'],
    `mount --rbind '${join(member.root, 'var/lib')}' /var/lib; mount -t tmpfs tmpfs /run; ` +
      'mkdir -p /run/systemd/timesync; touch /run/systemd/timesync/synchronized; ',
  );

const isHealthy = async (etcd: EtcdMembers, member: EtcdMember): Promise<void> =>
  expect(await etcd.health(member)).toContain('"health":"true"');

const opensslOf = async (path: string, ...wanted: readonly string[]): Promise<string> =>
  (await run('openssl', ['x509', '-noout', '-nameopt', 'RFC2253', ...wanted, '-in', path])).stdout.trim();

const leaves = ['apiserver-etcd-client', 'etcdctl-etcd-client', 'peer', 'server'];

/** What a member that would be restarted is told of the others, while all run and when one is away. */
async function quorumWithout(etcd: EtcdMembers, member: EtcdMember): Promise<void> {
  const file = (name: string): Promise<string> => readFile(join(member.pki, name), 'utf8');
  const client = { cert: await file('etcdctl-etcd-client.crt'), key: await file('etcdctl-etcd-client.key') };
  const ca = await file('ca.crt');
  const ask = () => askEtcdMembers({ ...etcd.clientAddress(member), ca, client, signal: AbortSignal.timeout(60_000) });
  const names = etcd.members.map(({ name }) => `"${name}"`);
  const all = await eventually(async () => {
    const found = await ask();
    expect(judgeQuorum(found)).toMatchObject({ state: 'proven' });
    return found;
  });
  expect(all.map(({ name }) => name).toSorted()).toEqual(names.toSorted());
  expect(all.filter(({ isHere }) => isHere).map(({ name }) => name)).toEqual([`"${member.name}"`]);
  const away = etcd.members.find(({ name }) => name !== member.name) ?? expect.fail('no other member');
  await etcd.stop(away);
  // It may have been the leader.
  await eventually(async () => {
    const without = judgeQuorum(await ask());
    expect(without.state).toBe('unproven');
    expect(without.message).toContain(`1 are: member "${away.name}" is not healthy: No answer of etcd at`);
  });
  await etcd.stop(member);
  await expect(ask()).rejects.toThrow('ECONNREFUSED');
}

describe('three members whose certificates have all expired', () => {
  it('while they run: no member is restarted, and the cluster has its quorum again', async () => {
    await using etcd = await EtcdMembers.create(expired);
    for (const member of etcd.members) etcd.start(member);
    const [first] = etcd.members;
    if (first === undefined) throw new Error('no member');
    await eventually(() => expect(etcd.logOf(first)).toMatch(/certificate has expired/));
    expect(await etcd.health(first)).not.toContain('"health":"true"');
    expect((await status(first)).code).toBe(3);
    const pids = etcd.members.map((member) => etcd.pidOf(member));

    const subject = await opensslOf(join(first.pki, 'server.crt'), '-subject');
    const names = await opensslOf(join(first.pki, 'peer.crt'), '-ext', 'subjectAltName');
    const ca = await readFile(join(first.pki, 'ca.crt'));
    for (const member of etcd.members) {
      const { code, text } = await recover(member);
      expect(code, text).toBe(0);
    }
    for (const member of etcd.members) await eventually(() => isHealthy(etcd, member));
    await eventually(async () => expect(await etcd.put(first, 'a', 'b')).toContain('revision'));
    expect(await eventually(() => etcd.get(etcd.members[2] ?? first, 'a'))).toBe('b');
    expect(etcd.members.map((member) => etcd.pidOf(member))).toEqual(pids);
    expect(await opensslOf(join(first.pki, 'server.crt'), '-subject')).toBe(subject);
    expect(await opensslOf(join(first.pki, 'peer.crt'), '-ext', 'subjectAltName')).toBe(names);
    expect(await readFile(join(first.pki, 'ca.crt'))).toEqual(ca);
    const after = await status(first);
    expect(after.code, after.text).toBe(0);
    for (const leaf of leaves) expect(after.text).toMatch(new RegExp(`^${leaf} +\\w{3} \\d\\d, `, 'm'));
    // What a control-plane node would bring is accepted, too.
    expect(await etcd.health(first, 'apiserver-etcd-client')).toContain('"health":"true"');
    await quorumWithout(etcd, first);
  });

  it('a certificate that is lost comes back with the names of the member', async () => {
    await using etcd = await EtcdMembers.create(expired);
    const [member] = etcd.members;
    if (member === undefined) throw new Error('no member');
    for (const name of ['server.crt', 'server.key', 'etcdctl-etcd-client.crt']) await rm(join(member.pki, name));
    const { code, text } = await recover(member);
    expect(code, text).toBe(0);
    const names = await opensslOf(join(member.pki, 'server.crt'), '-ext', 'subjectAltName');
    for (const name of [`DNS:${member.name}`, `IP Address:${member.address}`]) expect(names).toContain(name);
    const client = await opensslOf(join(member.pki, 'etcdctl-etcd-client.crt'), '-subject');
    expect(client).toBe(`subject=CN=${member.name}-etcdctl,O=system:masters`);
  });

  it.runIf(isRoot)('as user 4711: files keep their owner and mode, and etcd starts with them', async () => {
    const uid = 4711;
    await using etcd = await EtcdMembers.create({ ...expired, uid });
    for (const member of etcd.members) {
      const { code, text } = await recover(member);
      expect(code, text).toBe(0);
      for (const name of await readdir(member.pki)) {
        const found = await stat(join(member.pki, name));
        expect([name, found.uid, found.gid], name).toEqual([name, uid, uid]);
        if (name.endsWith('.key')) expect(found.mode & 0o777, name).toBe(0o600);
      }
      etcd.start(member);
    }
    for (const member of etcd.members) await eventually(() => isHealthy(etcd, member));
  });

  it('where the key of the CA is elsewhere: nothing is written, exit 5', async () => {
    await using etcd = await EtcdMembers.create(expired);
    const [member] = etcd.members;
    if (member === undefined) throw new Error('no member');
    await rm(join(member.pki, 'ca.key'));
    const before = await readFile(join(member.pki, 'peer.crt'));
    const { code, text } = await recover(member);
    expect(code, text).toBe(5);
    expect(await readFile(join(member.pki, 'peer.crt'))).toEqual(before);
    expect((await status(member)).code).toBe(5);
  });
});

describe('three members whose certificates end in ten days', () => {
  const ending = { notBefore: new Date(Date.now() - 355 * day), notAfter: new Date(Date.now() + 10 * day) };
  const before = '--renew-before=30d';
  const certificateIn = async ({ pki }: EtcdMember, leaf: string): Promise<X509Certificate> =>
    new X509Certificate(await readFile(join(pki, `${leaf}.crt`)));
  const serials = (member: EtcdMember): Promise<readonly string[]> =>
    Promise.all(leaves.map(async (leaf) => (await certificateIn(member, leaf)).serialNumber));
  const notRoot = isRoot ? { uid: 4711 } : {};
  const aDay = 24 * 3600_000;
  /** An hour of the day after tomorrow. */
  const closed = `${new Date(Date.now() + 2 * aDay).toUTCString().slice(0, 3)}/02:00-03:00 UTC`;

  it.each([
    ['of etcdadm, etcd as a user that is not root', notRoot, recover],
    [
      'of Bottlerocket',
      { pkiDir: 'var/lib/etcd/pki' },
      (member: EtcdMember, ...flags: readonly string[]) => onBottlerocket(member, '--mode=regen', '--once', ...flags),
    ],
  ])('%s: all are renewed while a client writes, and no member is restarted', async (_, own, renew) => {
    // A busy machine causes no election; that members hear each other is shown by what they acknowledge.
    await using etcd = await EtcdMembers.create({ ...ending, ...own, electionTimeoutMs: 20_000 });
    const { members } = etcd;
    const [first] = members;
    if (first === undefined) throw new Error('no member');
    for (const member of members) etcd.start(member);
    for (const member of members) await eventually(() => isHealthy(etcd, member));
    const processes = members.map((member) => etcd.pidOf(member));
    const [elections, former] = [etcd.count(/became leader|lost leader/), await Promise.all(members.map(serials))];
    const writer = startEtcdWriter(etcd);

    // Not yet, and not at all: who asked for a window, or for a warning.
    for (const [index, flag] of [`--window=${closed}`, '--warn-only'].entries()) {
      const { code, text } = await renew(members[index] ?? first, before, flag);
      expect(code, text).toBe(0);
    }
    expect(await Promise.all(members.map(serials))).toEqual(former);

    for (const member of members) {
      const { code, text } = await renew(member, before);
      expect(code, text).toBe(0);
      const written = writer.acknowledged;
      await eventually(() => isHealthy(etcd, member));
      await eventually(() => expect(writer.acknowledged).toBeGreaterThan(written + 5));
    }
    expect(await writer.stop()).toEqual({ failed: [], lost: [] });
    expect(members.map((member) => etcd.pidOf(member))).toEqual(processes);
    expect(etcd.count(/became leader|lost leader/)).toBe(elections);
    for (const [index, member] of members.entries()) {
      for (const [place, leaf] of leaves.entries()) {
        const made = await certificateIn(member, leaf);
        expect(made.serialNumber).not.toBe(former[index]?.[place]);
        expect(new Date(made.validTo).getTime() - Date.now()).toBeGreaterThan(364 * day);
      }
      expect(await etcd.served(member, 'client')).toBe((await certificateIn(member, 'server')).serialNumber);
      expect(await etcd.served(member, 'peer')).toBe((await certificateIn(member, 'peer')).serialNumber);
      for (const client of ['etcdctl-etcd-client', 'apiserver-etcd-client'])
        expect(await etcd.health(member, client)).toContain('"health":"true"');
    }
    // Nothing is due any more.
    const again = await serials(first);
    expect((await renew(first, before)).code).toBe(0);
    expect(await serials(first)).toEqual(again);
  });

  it('status says when they are renewed, outside of the window and where that is only told', async () => {
    await using etcd = await EtcdMembers.create(ending);
    const [member] = etcd.members;
    if (member === undefined) throw new Error('no member');
    const due = await status(member, before);
    expect(due.code, due.text).toBe(4);
    for (const leaf of leaves)
      expect(due.text).toMatch(new RegExp(`^${leaf} +EXPIRING +reissued once armed +due for refresh`, 'm'));
    const waiting = await status(member, before, `--window=${closed}`);
    expect(waiting.code, waiting.text).toBe(4);
    for (const leaf of leaves)
      expect(waiting.text).toMatch(new RegExp(`^${leaf} +EXPIRING +reissued, if armed, \\w{3} \\d\\d`, 'm'));
    const told = await status(member, before, '--warn-only');
    expect(told.code, told.text).toBe(4);
    expect(told.text).toContain('only reported (warnOnly)');
  });
});

describe('the CA of three members that run', () => {
  /** Where the processes of this machine can be seen, as they can be by an administrator. */
  const here = async (member: EtcdMember, ...words: readonly string[]): Promise<Outcome> => {
    const config = await configured(member);
    return new Promise((resolve) => {
      execFile(process.execPath, [program, ...words, `--config=${config}`], (err, stdout, stderr) =>
        resolve({ text: `${stdout}${stderr}`, code: err === null ? 0 : Number(err.code ?? -1) }),
      );
    });
  };
  const look = (member: EtcdMember): Promise<Outcome> => here(member, 'status');
  const renew = (member: EtcdMember, ...flags: readonly string[]): Promise<Outcome> =>
    here(member, '--mode=regen', '--once', '--restart', ...flags);
  const notAfter = async ({ pki }: EtcdMember): Promise<number> =>
    new X509Certificate(await readFile(join(pki, 'ca.crt'))).validToDate.getTime();
  const restarted = 'runs since before it was renewed, and reads it at its start only: restart it';
  const lives = { notBefore: new Date(Date.now() - 65 * day), notAfter: new Date(Date.now() + 300 * day) };

  it('is renewed on disk ahead of time; status asks for restarts, and with them no write is lost', async () => {
    await using etcd = await EtcdMembers.create({ ...lives, caNotAfter: new Date(Date.now() + 20 * day) });
    const { members } = etcd;
    for (const member of members) etcd.start(member);
    for (const member of members) await eventually(() => isHealthy(etcd, member));
    const writer = startEtcdWriter(etcd);
    for (const member of members) {
      expect((await look(member)).text).not.toContain(restarted);
      const { code, text } = await renew(member, '--renew-before=30d');
      expect(code, text).toBe(0);
      expect(text).toContain('etcd reads it at its start only: restart it before ');
      expect(await notAfter(member)).toBeGreaterThan(Date.now() + 60 * day);
      await eventually(() => isHealthy(etcd, member));
    }
    // Each machine has come to the same certificate, but for the bytes of an ECDSA signature.
    const made = await Promise.all(
      members.map(({ pki }) => opensslOf(join(pki, 'ca.crt'), '-serial', '-subject', '-dates', '-pubkey')),
    );
    expect(new Set(made).size).toBe(1);
    for (const member of members) {
      const before = await look(member);
      expect(before.code, before.text).toBe(3);
      expect(before.text).toContain(`etcd-ca: etcd (process ${etcd.pidOf(member)}) ${restarted}`);
      await etcd.stop(member);
      etcd.start(member);
      await eventually(() => isHealthy(etcd, member));
      // That its file is another one now says nothing of who has read it.
      await utimes(join(member.pki, 'ca.crt'), new Date(), new Date());
      const after = await look(member);
      expect(after.code, after.text).toBe(0);
    }
    expect((await writer.stop()).lost).toEqual([]);
  });

  it('has expired: it is renewed at once, and the members serve again once they are restarted', async () => {
    await using etcd = await EtcdMembers.create({ ...lives, caNotAfter: new Date(Date.now() - day) });
    const { members } = etcd;
    // As if it had ended since their start: etcd does not look at its dates when it reads it.
    for (const member of members) etcd.start(member);
    const [first] = members;
    if (first === undefined) throw new Error('no member');
    await eventually(() => expect(etcd.logOf(first)).toMatch(/certificate has expired/));
    for (const member of members) {
      const { code, text } = await renew(member);
      expect(text).toContain(
        'has read a CA that has expired, and no unit of systemd has started it; restart it by hand',
      );
      expect(code, text).toBe(1);
    }
    expect(await etcd.health(first)).not.toContain('"health":"true"');
    expect((await look(first)).text).toContain(restarted);
    for (const member of members) {
      await etcd.stop(member);
      etcd.start(member);
    }
    for (const member of members) await eventually(() => isHealthy(etcd, member));
    const after = await look(first);
    expect(after.code, after.text).toBe(0);
  });
});

it('Bottlerocket: the preset eks-anywhere-bottlerocket finds the same below /var/lib', async () => {
  await using etcd = await EtcdMembers.create({ ...expired, pkiDir: 'var/lib/etcd/pki' });
  for (const member of etcd.members) {
    const { code, text } = await onBottlerocket(member, '--mode=regen', '--once');
    expect(code, text).toBe(0);
    etcd.start(member);
  }
  for (const member of etcd.members) await eventually(() => isHealthy(etcd, member));
});

it('eks-anywhere is etcdadm on a machine of etcd, and says what it lacks on any other', async () => {
  await using etcd = await EtcdMembers.create(expired);
  const [member] = etcd.members;
  if (member === undefined) throw new Error('no member');
  const elsewhere = await started(member, ['status', '--preset=etcdadm', `--directory=etcdPkiDir=${member.root}/none`]);
  expect(elsewhere.code).toBe(1);
  expect(elsewhere.text).toContain('Cannot find an etcd of etcdadm on this machine');
});
