import { mkdir, mkdtemp, readdir, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { run } from '../../cmd/cli.ts';
import { createDiskStore } from '../../lib/store/disk-store.ts';
import type { LocationOf } from '../../lib/inventory/model.ts';
import { createAuthority, createLeaf, type Pair } from '../support/certificates/certificates.ts';

let directory: string;
let location: LocationOf<'pemPair'>;
let generations: readonly Pair[];
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'restore-'));
  const at = (name: string): string => join(directory, name);
  await mkdir(at('pki/etcd'), { recursive: true });
  const ca = await createAuthority(at('ca'), { commonName: 'etcd-ca' });
  location = { kind: 'pemPair', certFile: at('pki/etcd/peer.crt'), keyFile: at('pki/etcd/peer.key') };
  const store = createDiskStore({ backupDir: at('backups') });
  const signal = AbortSignal.timeout(20_000);
  generations = await Promise.all(
    [1, 2, 3].map((one) => createLeaf(at(`leaf${one}`), ca, { commonName: `node${one}` })),
  );
  for (const { cert, key } of generations) {
    const before = await store.read(location, signal);
    const entries = { 'tls.crt': await readFile(cert), 'tls.key': await readFile(key) };
    const seen = before === undefined ? 'absent' : { version: before.version };
    expect(await store.write(location, { entries, annotations: {} }, seen, signal)).toBe('written');
  }
  await writeFile(
    at('config.yaml'),
    `apiVersion: kube-cert-recovery/v1alpha1
kind: Configuration
preset: kubernetes
parameters: { apiServerHostnames: [127.0.0.1] }
directories: { pkiDir: ${at('pki')} }
regen: { backupDir: ${at('backups')}, lockDir: ${at('lock')} }
`,
  );
});
afterAll(() => rm(directory, { recursive: true, force: true }));

const restore = (...argv: readonly string[]): Promise<Outcome> => restoreBy('config.yaml', ...argv);

interface Outcome {
  readonly exit: number;
  readonly out: string;
  readonly err: string;
}

async function restoreBy(config: string, ...argv: readonly string[]): Promise<Outcome> {
  const [out, err]: [string[], string[]] = [[], []];
  const exit = await run({
    argv: ['restore', `--config=${config}`, ...argv],
    env: {},
    cwd: directory,
    stdout: { write: (text) => out.push(text) },
    stderr: { write: (text) => err.push(text) },
    signal: new AbortController().signal,
  });
  return { exit, out: out.join(''), err: err.join('') };
}
const present = (): Promise<string> => readFile(location.certFile, 'utf8');
const made = (at: number): Promise<string> => readFile(generations[at]?.cert ?? '', 'utf8');

it('restore lists what is kept, puts one back, and keeps what it replaces', async () => {
  const { out } = await restore();
  const rows = out
    .trim()
    .split('\n')
    .map((line) => line.split(/ {3,}/).slice(0, 2));
  expect(rows).toEqual([
    ['ARTEFACT', 'GENERATION'],
    ...['000002', '000001'].map((one) => ['etcd-peer', one]),
    ['Put the newest one back: kube-cert-recovery restore NAME'],
  ]);

  expect(await restore('etcd-peer', '--dry-run')).toMatchObject({
    exit: 0,
    out: expect.stringMatching(/^Would restore/),
  });
  expect(await present()).toBe(await made(2));

  expect(await restore('etcd-peer')).toMatchObject({ exit: 0, out: expect.stringMatching(/^Restored etcd-peer of /) });
  expect(await present()).toBe(await made(1));
  expect((await restore()).out).toContain('000003');

  await restore('etcd-peer', '--generation=1');
  expect(await present()).toBe(await made(0));
  expect(await restore('etcd-peer', '--generation', '000001')).toMatchObject({
    exit: 0,
    out: expect.stringMatching(/^Unchanged: /),
  });
});

it.each<[string, readonly string[], number, string]>([
  ['an artefact that there is not', ['etcd-per'], 2, '(did you mean "etcd-peer"?)'],
  ['an artefact without a copy', ['etcd-server'], 1, 'no generation that can be read is kept'],
  ['a generation that there is not', ['etcd-peer', '--generation=99'], 1, 'generation "99" is kept; there are 00000'],
  ['a generation that is no number', ['etcd-peer', '--generation=old'], 2, '--generation: must be a number'],
  ['a generation of nothing', ['--generation=1'], 2, '--generation: must be left out without an artefact'],
])('restore refuses %s', async (_, argv, exit, message) => {
  const before = await present();
  const outcome = await restore(...argv);
  expect(outcome).toMatchObject({ exit, out: '' });
  expect(outcome.err).toContain(message);
  expect(await present()).toBe(before);
});

it('restore puts back what can be read, and says what of the rest cannot', async () => {
  const shelf = join(directory, 'backups', encodeURIComponent(location.certFile));
  const [oldest = '', ...younger] = (await readdir(shelf)).toSorted();
  const youngest = younger.at(-1) ?? expect.unreachable();
  await mkdir(join(shelf, youngest, 'lost+found'));
  const shelfOfAnother = join(directory, 'backups', encodeURIComponent(location.certFile.replace('peer', 'server')));
  await writeFile(shelfOfAnother, 'no directory');
  try {
    const listed = await restore();
    expect(listed.exit).toBe(1);
    expect(listed.out).toMatch(new RegExp(`^etcd-peer +${youngest} +\\S+ +unreadable$`, 'm'));
    expect(listed.out).toMatch(new RegExp(`^etcd-peer +${oldest} +\\S+ +20\\S+$`, 'm'));
    expect(listed.err).toContain(`/${youngest}/lost+found": is a directory where a file or link is wanted`);
    expect(listed.err).toContain(`"${shelfOfAnother}": is not a directory`);
    expect(await restore('etcd-peer', '--dry-run')).toMatchObject({
      exit: 0,
      out: expect.stringMatching(/^Would restore etcd-peer of /) as string,
      err: expect.stringContaining(`Generation ${youngest} of etcd-peer: Cannot read backups of `) as string,
    });
    const asked = await restore('etcd-peer', `--generation=${youngest}`);
    expect(asked).toMatchObject({ exit: 1, err: expect.stringContaining('(EISDIR)') as string });
    const dry = await restore('etcd-peer', `--generation=${youngest}`, '--dry-run');
    expect(dry).toMatchObject({ exit: 1, out: '', err: expect.stringContaining('(EISDIR)') as string });
    const other = await restore('etcd-server');
    expect(other).toMatchObject({ exit: 1, err: expect.stringContaining('(ENOTDIR)') as string });
  } finally {
    await rm(join(shelf, youngest, 'lost+found'), { recursive: true });
    await rm(shelfOfAnother);
  }
});

it('restore notes what must be restarted for the next pass, and nothing where nothing changes', async () => {
  const at = (...names: readonly string[]): string => join(directory, 'machine', ...names);
  await mkdir(at('pki'), { recursive: true });
  await mkdir(at('manifests'));
  await writeFile(at('manifests/kube-apiserver.yaml'), 'kind: Pod');
  await writeFile(at('pki/apiserver.crt'), '');
  const scheduler = { kind: 'kubeconfig', file: at('scheduler.conf'), endpoint: 'local' } as const;
  const store = createDiskStore({ backupDir: at('backups'), endpoints: { local: 'https://10.0.0.1:6443' } });
  const signal = AbortSignal.timeout(20_000);
  for (const { cert, key } of generations) {
    const before = await store.read(scheduler, signal);
    const certificate = await readFile(cert);
    const entries = { 'tls.crt': certificate, 'tls.key': await readFile(key), 'ca.crt': certificate };
    const seen = before === undefined ? 'absent' : { version: before.version };
    expect(await store.write(scheduler, { entries, annotations: {} }, seen, signal)).toBe('written');
  }
  await writeFile(
    join(directory, 'machine.yaml'),
    `apiVersion: kube-cert-recovery/v1alpha1
kind: Configuration
preset: kubeadm
parameters: { nodeName: [node1], advertiseAddress: [10.0.0.1] }
directories: { kubernetesDir: ${at()}, pkiDir: ${at('pki')}, kubeletDir: ${at('kubelet')} }
regen: { backupDir: ${at('backups')}, lockDir: ${at('lock')} }
`,
  );
  const markers = async (): Promise<string[]> =>
    (await readdir(at('lock'))).filter((name) => name.startsWith('restart-'));
  expect(await restoreBy('machine.yaml', 'scheduler.conf', '--generation=2')).toMatchObject({
    exit: 0,
    out: expect.stringContaining(
      'kept as a new generation.\nkube-scheduler must be restarted: the next pass with --restart does it.\n',
    ) as string,
  });
  expect(await markers()).toEqual(['restart-kube-scheduler']);
  await rm(at('lock/restart-kube-scheduler'));
  expect((await restoreBy('machine.yaml', 'scheduler.conf', '--generation=2')).out).toMatch(/^Unchanged: .*\n$/);
  expect(await markers()).toEqual([]);
});

it('restore puts an expired copy over a valid certificate only when it is forced, and says which are expired', async () => {
  const at = (name: string): string => join(directory, name);
  const expired = await createLeaf(at('expired'), await createAuthority(at('other-ca'), { commonName: 'etcd-ca' }), {
    commonName: 'node9',
    notBefore: new Date('2025-01-01T00:00:00Z'),
    notAfter: new Date('2026-01-01T00:00:00Z'),
  });
  const healthy = generations[1] ?? expect.unreachable();
  const store = createDiskStore({ backupDir: at('backups') });
  const signal = AbortSignal.timeout(20_000);
  for (const { cert, key } of [expired, healthy]) {
    const before = await store.read(location, signal);
    const entries = { 'tls.crt': await readFile(cert), 'tls.key': await readFile(key) };
    await store.write(location, { entries, annotations: {} }, { version: before?.version ?? '' }, signal);
  }
  expect((await restore()).out).toMatch(/^etcd-peer .* 2026-01-01T00:00:00\.000Z \(expired\)$/m);
  const refused = await restore('etcd-peer');
  expect(refused.exit).toBe(1);
  expect(refused.err).toMatch(
    /^Cannot restore artefact "etcd-peer": generation \d+ expired at 2026-01-01T00:00:00\.000Z, and what is there is valid until \S+; generation \d+ is: kube-cert-recovery restore etcd-peer --generation=\d+\. --force restores it all the same/,
  );
  const [, next = ''] = /is: kube-cert-recovery restore (.*)\. --force/.exec(refused.err) ?? [];
  expect(await restore(...next.split(' '), '--dry-run')).toMatchObject({ exit: 0 });
  expect(await readFile(location.certFile)).toEqual(await readFile(healthy.cert));
  const forced = await restore('etcd-peer', '--force');
  expect({ exit: forced.exit, err: forced.err }).toEqual({
    exit: 0,
    err: expect.stringContaining(
      'expired at 2026-01-01T00:00:00.000Z: mode regen renews it at its next pass',
    ) as string,
  });
  expect(await readFile(location.certFile)).toEqual(await readFile(expired.cert));
});

it('restore puts back what no reader can use where nothing else is kept, and says what it is', async () => {
  const [certFile, keyFile] = [location.certFile, location.keyFile].map((path) => path.replace('peer', 'server'));
  const server = { ...location, certFile: certFile ?? '', keyFile: keyFile ?? '' };
  const store = createDiskStore({ backupDir: join(directory, 'backups') });
  const signal = AbortSignal.timeout(20_000);
  const torn = {
    [server.certFile]: '-----BEGIN CERTIFICATE-----\nAAAA',
    [server.keyFile]: '\0'.repeat(512),
  };
  for (const [path, content] of Object.entries(torn)) await writeFile(path, content, { mode: 0o600 });
  const { cert, key } = generations[0] ?? expect.unreachable();
  const entries = { 'tls.crt': await readFile(cert), 'tls.key': await readFile(key) };
  const before = await store.read(server, signal);
  await store.write(server, { entries, annotations: {} }, { version: before?.version ?? '' }, signal);
  expect((await restore()).out).toMatch(/^etcd-server +000001 +\S+ +unusable$/m);
  const refused = await restore('etcd-server');
  expect(refused).toMatchObject({ exit: 1, err: expect.stringContaining('is of no use to its readers') as string });
  expect(await readFile(server.certFile)).toEqual(await readFile(cert));
  const forced = await restore('etcd-server', '--force');
  expect(forced).toMatchObject({ exit: 0, err: expect.stringContaining('is put back as it was') as string });
  for (const [path, content] of Object.entries(torn)) expect(await readFile(path, 'utf8')).toBe(content);
  expect((await stat(server.keyFile)).mode & 0o777).toBe(0o600);
  expect((await restore()).out).toMatch(/^etcd-server +000002 +\S+ +20/m);
});

it('restore judges nothing where what is there cannot be read, and says why', async () => {
  const { certFile } = location;
  await rename(certFile, `${certFile}.aside`);
  await symlink(certFile, certFile);
  try {
    const refused = await restore('etcd-peer', '--dry-run');
    expect(refused).toMatchObject({ exit: 1, out: '' });
    expect(refused.err).toMatch(/^Cannot read pair .*peer\.crt.*ELOOP/);
  } finally {
    await rm(certFile);
    await rename(`${certFile}.aside`, certFile);
  }
});
