// Holds the pages beside the README against the code, and all Markdown of the project against its house rules.
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { judgeRenewal, judgeSigned } from '../../lib/proof/api-proofs.ts';
import { encodePem } from '../../lib/pki/pem.ts';
import { systemClock } from '../../lib/clock.ts';
import { parseConfig } from '../../lib/config/load.ts';
import { errorText } from '../../lib/errors.ts';
import { loadInventory } from '../../lib/inventory/load.ts';
import { installedPresets, loadPreset, presetNames } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { artefactSchema } from '../../lib/inventory/schema.ts';
import { networkError, statusError, unavailable } from '../../lib/kube/api-error.ts';
import type { ArtefactFacts } from '../../lib/plan/facts.ts';
import { judgeClock } from '../../lib/plan/clock-rules.ts';
import { reasons as decisionReasons } from '../../lib/plan/reasons.ts';
import { plan } from '../../lib/plan/plan.ts';
import { understand } from '../../lib/plan/understand.ts';
import type { ClockFacts } from '../../lib/plan/clock-rules.ts';
import { attempt } from '../../lib/disk/disk.ts';
import { acquireLock } from '../../lib/host/lock.ts';
import { refuseBesideKubeadm } from '../../lib/host/sole-writer.ts';
import { kubeconfigLayout } from '../../lib/store/kubeconfig.ts';
import { layoutOf } from '../../lib/store/layouts.ts';
import { project } from '../../lib/syncer/project.ts';
import { authority as makeAuthority } from '../pki/authority.ts';
import { withReasons } from '../../scripts/reasons.ts';
import {
  at,
  ca,
  chain,
  day,
  healthy,
  leaf,
  onlyWhenExpired,
  present,
  signer,
  start,
  target,
  unknownClock,
} from '../support/facts.ts';
import {
  anchorOf,
  blocks,
  codes,
  firstCode,
  firstCodes,
  headings,
  page,
  relativeLinks,
  root,
  section,
  tables,
  unionMembers,
} from './markdown.ts';

const list = ['ls-files', '--cached', '--others', '--exclude-standard', '*.md'];
const pages = existsSync(join(root, '.git'))
  ? execFileSync('git', list, { cwd: root, encoding: 'utf8' }).trim().split('\n')
  : ['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'CHANGELOG.md'];
const flat = (text: string): string => text.replaceAll(/\s+/g, ' ').trim();
const sorted = (names: Iterable<string>): string[] => [...new Set(names)].toSorted();

describe.each(pages.filter((path) => existsSync(join(root, path))))('%s', (path) => {
  const text = page(path);

  it('has no link that leads nowhere', () => {
    const broken = relativeLinks(text).filter(({ path: to, anchor }) => {
      const file = to === '' ? path : join(dirname(path), to);
      if (!existsSync(join(root, file))) return true;
      return anchor !== undefined && !headings(page(file)).map(anchorOf).includes(anchor);
    });
    expect(broken).toEqual([]);
  });

  it('has no line of more than 120 characters', () => {
    const long = text.split('\n').flatMap((line, number) => (line.length > 120 ? [{ line, number }] : []));
    // Tables that programs write are as wide as they must be.
    const isWide = ['docs/benchmarks.md', 'docs/openshift.md'].includes(path);
    const written = { 'docs/reference.md': ['Flags'], 'docs/trust.md': ['The relations', 'With the API'] }[path];
    const rows = (written ?? []).flatMap((heading) => section(text, heading).split('\n'));
    const isWritten = (line: string): boolean => line.startsWith('|') && rows.includes(line);
    expect(isWide ? [] : long.filter(({ line }) => !isWritten(line))).toEqual([]);
  });

  it('names no place of one machine only', () => {
    expect(text).not.toMatch(/(?<![\w.-])\/(?:home|root|work|tmp|Users)\/|registry\.|docker\.io|npmjs/);
  });
});

describe('docs/reasons.md', () => {
  const reasons = page('docs/reasons.md');

  it('has the reasons of decisions as they are (node scripts/reasons.ts writes them)', () => {
    expect(firstCodes(section(reasons, 'Decisions'))).toEqual(Object.keys(decisionReasons));
    expect(withReasons(reasons)).toBe(reasons);
  });

  it('has every reason of the syncer', () => {
    const source = page('lib/syncer/project.ts');
    const { SyncDecision: decisions = '' } =
      /export type SyncDecision =(?<SyncDecision>[\s\S]*?)\n\n/.exec(source)?.groups ?? {};
    const own = [...decisions.matchAll(/reason: ((?:'\w+'(?: \| )?)+)/g)].flatMap(([, union = '']) =>
      [...union.matchAll(/'(\w+)'/g)].map(([, reason = '']) => reason),
    );
    const documented = [0, 1].flatMap((table) => firstCodes(section(reasons, 'Syncer'), table));
    expect(sorted(documented)).toEqual(sorted([...own, ...unionMembers(source, 'RefuseReason')]));
    expect(own.length).toBeGreaterThan(5);
  });

  it('has every reason why a component is not restarted', () => {
    const judged = unionMembers(page('lib/restart/decide.ts'), 'CannotReason');
    const failed = unionMembers(page('lib/restart/pod-restarts.ts'), 'FailureReason');
    expect(sorted(firstCodes(section(reasons, 'Restarts')))).toEqual(sorted([...judged, ...failed]));
  });

  it('has every reason why a Lease is kept', () => {
    const here = /KeptReason = LeaseReason((?: \| '\w+')+)/.exec(page('lib/regen/stale-leases.ts'))?.[1] ?? '';
    const more = [...here.matchAll(/'(\w+)'/g)].map(([, reason = '']) => reason);
    const judged = unionMembers(page('lib/regen/judge-lease.ts'), 'LeaseReason');
    expect(sorted(firstCodes(section(reasons, 'Leases')))).toEqual(sorted([...judged, ...more]));
  });
});

describe('docs/inventory.md', () => {
  const text = page('docs/inventory.md');

  it('shows an inventory that loads and resolves, with every kind of artefact but two', () => {
    const example = blocks(section(text, 'Writing one')).find(({ language }) => language === 'yaml');
    const inventory = loadInventory(example?.text ?? '');
    const resolved = resolve(inventory, { parameters: { hostnames: ['server.example.com'] } });
    expect(sorted(resolved.artefacts.map(({ kind }) => kind))).toEqual(
      sorted(firstCodes(section(text, 'Kinds of artefact'))).filter(
        (kind) => kind !== 'composedBundle' && kind !== 'kubeconfigs',
      ),
    );
  });

  it('names every kind of artefact', () => {
    const kinds = artefactSchema.options.map(({ shape }) => shape.kind.value);
    expect(sorted(firstCodes(section(text, 'Kinds of artefact')))).toEqual(sorted(kinds));
  });

  it('names every preset', () => {
    expect(sorted(firstCodes(section(text, 'Presets')))).toEqual(sorted(presetNames()));
  });

  it('names the parameters and directories of the preset kubernetes, with their defaults', () => {
    const { parameters, directories = {} } = loadPreset('kubernetes');
    const rows = tables(section(text, 'Presets'))[1] ?? [];
    expect(rows.map(([name]) => firstCode(name)).toSorted()).toEqual(
      Object.keys({ ...parameters, ...directories }).toSorted(),
    );
    for (const [name = '', given = ''] of rows) {
      const wanted = { ...parameters, ...directories }[codes(name)[0] ?? '']?.default;
      expect(codes(given), name).toEqual([wanted ?? []].flat());
    }
  });
});

const goodClock: ClockFacts = { builtAt: at(-100), synchronised: false };
const expired = present(leaf('leaf', [-30, -1], 'ca'));

function clockMessages(): (string | undefined)[] {
  const early = new Map(healthy())
    .set('signer', present(ca('ca', [1, 59])))
    .set('target', present(leaf('leaf', [1, 29], 'ca')));
  const slow = {
    of: '"node-b_2f1c", which renews the Lease "kube-system/kube-scheduler"',
    aheadMs: 365 * 86_400_000,
  };
  const settlesAt = new Date(start.getTime() + 60_000);
  const judged = { resolved: chain, facts: healthy(), clock: goodClock, now: start };
  return [
    judgeClock({ ...judged, clock: { ...goodClock, builtAt: start }, now: new Date('2020-01-01') }),
    judgeClock({ ...judged, facts: early }),
    judgeClock({ ...judged, clock: { ...goodClock, others: [slow] }, now: new Date('2027-06-01') }),
    judgeClock({ ...judged, clock: { ...goodClock, settlesAt } }),
  ].map((verdict) => verdict?.message);
}

/** What the plan says of the target. */
function targetMessage(name: string, facts: ArtefactFacts, resolved = chain): string | undefined {
  const all = new Map(healthy()).set('target', name === 'target' ? facts : expired).set(name, facts);
  const policy = { kind: 'OnlyWhenExpired', graceMs: 60_000, settleMs: 1000 } as const;
  return plan({ resolved, facts: all, policy, clock: goodClock, now: start }).decisions.at(-1)?.message;
}

function planMessages(): (string | undefined)[] {
  const wanted = { ...target, hostnames: [...target.hostnames, 'api2.example.com'] };
  const asked = { ...chain, artefacts: [...chain.artefacts.filter((one) => one !== target), wanted] };
  return [
    targetMessage('signer', { state: 'unavailable', message: 'x' }),
    targetMessage('target', present(leaf('leaf', [1, 29], 'ca'))),
    // fresh, so that it is not yet believed
    targetMessage('bundle', { ...present(ca('other', [-1, 59])), since: start }),
    targetMessage('target', present(leaf('leaf', [-1, 29], 'ca')), asked),
  ];
}

const body = (reason: string, message: string): string => JSON.stringify({ reason, message });
const coded = (code: string): Error => Object.assign(new Error('x'), { code });

function apiMessages(): string[] {
  const server = 'https://localhost:6443';
  const get = { verb: 'get', object: 'Secret "kube-cert-recovery/client"', server };
  const user = 'system:serviceaccount:kube-cert-recovery:kube-cert-recovery-regen';
  return [
    statusError(
      { ...get, verb: 'update' },
      500,
      body('InternalError', 'failed calling webhook "policy.example.com": x'),
    ),
    statusError(get, 403, body('Forbidden', `secrets "client" is forbidden: User "${user}" cannot get`)),
    statusError(get, 401, body('Unauthorized', 'Unauthorized')),
    statusError(
      { ...get, verb: 'apply' },
      403,
      body('Forbidden', 'secrets "client" is forbidden: exceeded quota: objects, x'),
    ),
    unavailable(get, `no answer within 3000 ms, server ${server}`),
    networkError(get, coded('CERT_HAS_EXPIRED')),
    networkError({ ...get, server: `${server} (localhost-recovery)` }, coded('ERR_TLS_CERT_ALTNAME_INVALID')),
  ].map(errorText);
}

async function publishMessage(code: string): Promise<string> {
  const directory = '/certs/secrets/client';
  const what = 'Secret "kube-cert-recovery/client"';
  return attempt({ code: 'WriteFailed', action: 'publish', what, directory }, () =>
    Promise.reject(Object.assign(new Error('x'), { code })),
  ).then(() => '', errorText);
}

/** A leaf of a kubeadm machine that has expired, and whose CA is external. */
function externalMessage(): string {
  const pair = (name: string) =>
    ({ kind: 'pemPair', certFile: `${pkiDir}/${name}.crt`, keyFile: `${pkiDir}/${name}.key` }) as const;
  const authority = { ...signer, name: 'ca', location: pair('ca'), owned: false };
  const apiserver = {
    ...target,
    name: 'apiserver',
    issuer: 'ca',
    location: pair('apiserver'),
    template: 'present',
  } as const;
  const kubernetes = { ...ca('ca', [-1, 59]), subject: 'CN=kubernetes' };
  const facts = new Map<string, ArtefactFacts>([
    ['ca', { state: 'broken', problem: 'keyAbsent', version: '1', message: 'x', certificates: [kubernetes] }],
    ['apiserver', expired],
  ]);
  const resolved = { name: 'kubeadm', artefacts: [authority, { ...apiserver, commonName: 'kube-apiserver' }] };
  const policy = { kind: 'OnlyWhenExpired', graceMs: 60_000, settleMs: 1000 } as const;
  return plan({ resolved, facts, policy, clock: goodClock, now: start }).decisions.at(-1)?.message ?? '';
}

/** A leaf in files that is due by a clock that nothing confirms. */
function unconfirmedMessage(): string {
  const pair = (name: string) =>
    ({ kind: 'pemPair', certFile: `${pkiDir}/${name}.crt`, keyFile: `${pkiDir}/${name}.key` }) as const;
  const authority = { ...signer, name: 'ca', location: pair('ca'), owned: false };
  const apiserver = { ...target, name: 'apiserver', issuer: 'ca', location: pair('apiserver') } as const;
  const facts = new Map<string, ArtefactFacts>([
    ['ca', present(ca('ca', [-1, 3649]))],
    ['apiserver', present(leaf('apiserver', [-335, 30], 'ca'))],
  ]);
  const resolved = {
    name: 'kubeadm',
    artefacts: [authority, { ...apiserver, validity: 365 * day, refresh: 292 * day }],
  };
  const ahead = { beforeMs: 30 * day, signerBeforeMs: 365 * day, jitter: 0, warnOnly: false };
  const policy = { ...onlyWhenExpired, ahead };
  return plan({ resolved, facts, policy, clock: unknownClock, now: at(1) }).decisions.at(-1)?.message ?? '';
}

async function damagedMessage(): Promise<string> {
  const files = { certFile: `${pkiDir}/etcd/ca.crt`, keyFile: `${pkiDir}/etcd/ca.key` };
  const etcdCa = { ...signer, name: 'etcd-ca', location: { kind: 'pemPair', ...files }, owned: false } as const;
  const { certificate } = await makeAuthority({ commonName: 'etcd-ca' });
  const der = Buffer.from(certificate.x509.raw);
  der.writeUInt8(der.readUInt8(der.length - 3) ^ 4, der.length - 3);
  const entries = { 'tls.crt': Buffer.from(encodePem({ label: 'CERTIFICATE', der })) };
  const { facts: fact } = understand(etcdCa, { entries, annotations: {}, version: '1' });
  const resolved = { name: 'kubeadm', artefacts: [etcdCa] };
  const policy = { kind: 'OnlyWhenExpired', graceMs: 60_000, settleMs: 1000 } as const;
  const facts = new Map([['etcd-ca', fact]]);
  return plan({ resolved, facts, policy, clock: goodClock, now: start }).decisions.at(-1)?.message ?? '';
}

function unknownMessage(): string {
  const files = { certFile: `${pkiDir}/etcd/ca.crt`, keyFile: `${pkiDir}/etcd/ca.key` };
  const etcdCa = { ...signer, name: 'etcd-ca', location: { kind: 'pemPair', ...files }, owned: false } as const;
  const leaves = ['etcd-server', 'etcd-peer', 'etcd-healthcheck-client', 'apiserver-etcd-client'];
  const own = ca('93a1c7e0'.repeat(8), [-1, 3649], { subject: 'CN=etcd-ca' });
  const unknownTo = { leaves, issuer: 'CN=etcd-ca', keyId: '5d0c42b1'.repeat(5) };
  const facts = new Map<string, ArtefactFacts>([['etcd-ca', { ...present(own), unknownTo }]]);
  const resolved = { name: 'kubeadm', artefacts: [etcdCa] };
  return plan({ resolved, facts, policy: onlyWhenExpired, clock: goodClock, now: start }).decisions[0]?.message ?? '';
}

/** Of a pair and a kubeconfig in whose places lie files of others. */
/** Its bundle still holds it. */
function broughtMessage(): string | undefined {
  const kubernetes = { commonName: 'kubernetes', subject: 'CN=kubernetes', issuer: 'CN=kubernetes' };
  const facts = new Map([...healthy(), ['bundle', present(ca('ca', [-1, 3650], kubernetes))] as const]);
  facts.set('signer', { state: 'absent' });
  const artefacts = chain.artefacts.map((one) => (one === signer ? { ...signer, adoptedFrom: 'ca' } : one));
  const input = { resolved: { ...chain, artefacts }, facts, policy: onlyWhenExpired, clock: goodClock, now: start };
  return plan(input).decisions.find(({ artefact }) => artefact === 'signer')?.message;
}

function othersMessages(): string[] {
  const pair = { kind: 'pemPair', certFile: `${pkiDir}/apiserver.crt`, keyFile: `${pkiDir}/apiserver.key` } as const;
  const kubeconfig = { kind: 'kubeconfig', file: '/etc/kubernetes/scheduler.conf', endpoint: 'local' } as const;
  const keyOfSsh = Buffer.from('-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n');
  const places = [
    [pair, layoutOf(pair), { role: 'tls.key', file: pair.keyFile, bytes: keyOfSsh }],
    [
      kubeconfig,
      kubeconfigLayout(kubeconfig),
      { role: 'kubeconfig', file: kubeconfig.file, bytes: Buffer.from('A=b\n') },
    ],
  ] as const;
  return places.map(([location, layout, part]) => {
    const { foreign = '' } = layout.understand([part]) ?? {};
    const fact = { state: 'broken', problem: 'foreign', message: foreign, isOtherDocument: true } as const;
    const resolved = { name: 'kubeadm', artefacts: [{ ...target, location }] };
    const facts = new Map<string, ArtefactFacts>([[target.name, { ...fact, version: '1' }]]);
    return plan({ resolved, facts, policy: onlyWhenExpired, clock: goodClock, now: start }).decisions[0]?.message ?? '';
  });
}

const pkiDir = '/etc/kubernetes/pki';

async function diskMessage(code: string): Promise<string> {
  const what = `pair "${pkiDir}/apiserver.crt"`;
  const failing = Object.assign(new Error('x'), { code, dest: `${pkiDir}/apiserver.crt` });
  const trying = { code: 'WriteFailed', action: 'write', what, directory: pkiDir } as const;
  return attempt(trying, () => Promise.reject(failing)).then(() => '', errorText);
}

async function kubeadmMessage(): Promise<string> {
  const proc = await mkdtemp(join(tmpdir(), 'proc-'));
  try {
    for (const pid of ['self', '4711']) {
      await mkdir(join(proc, pid, 'ns'), { recursive: true });
      await symlink('pid:[1]', join(proc, pid, 'ns/pid'));
    }
    await writeFile(join(proc, '4711/comm'), 'kubeadm\n');
    await writeFile(join(proc, '4711/stat'), `4711 (kubeadm) S ${'0 '.repeat(30)}`);
    await writeFile(join(proc, '4711/status'), 'Uid:\t0\t0\t0\t0\n');
    await symlink('/usr/bin/kubeadm', join(proc, '4711/exe'));
    refuseBesideKubeadm([], proc);
    return '';
  } catch (err) {
    return errorText(err);
  } finally {
    await rm(proc, { recursive: true });
  }
}

function leaseMessage(): string {
  const lease = { spec: { holderIdentity: 'node1', renewTime: at(-1).toISOString() } };
  return judgeRenewal({ lease, publishedAt: start, now: at(1) }).message;
}

function syncMessages(): string[] {
  const object = {
    location: { kind: 'secret', namespace: 'kube-cert-recovery', name: 'client' },
    published: 'required',
    expects: { kind: 'opaque' },
    what: 'Secret "kube-cert-recovery/client"',
  } as const;
  const lasting = (notAfter: Date) => ({ validity: [{ notBefore: at(-90), notAfter }] });
  const disk = { present: true, difference: 'written', material: lasting(at(30)) } as const;
  const material = lasting(start);
  return [
    project({ object, api: { state: 'absent' }, disk, now: start }),
    project({ object, api: { state: 'present', keys: ['a'], material }, disk, now: start }),
  ].map((decision) => ('message' in decision ? decision.message : ''));
}

async function lockMessage(): Promise<string> {
  const parent = await mkdtemp(join(tmpdir(), 'lock-'));
  const directory = join(parent, 'lock');
  const lock = await acquireLock({ directory, clock: systemClock });
  try {
    return await acquireLock({ directory, clock: systemClock }).then(() => '', errorText);
  } finally {
    await lock.release();
    await rm(parent, { recursive: true });
  }
}

function configMessage(): string {
  try {
    const flags = { preset: 'kubernets', mode: 'syncer', kubeconfig: '/k', destinationDir: '/d' };
    parseConfig({ flags, env: {}, cwd: '/', presets: installedPresets });
    return '';
  } catch (err) {
    return errorText(err);
  }
}

describe('docs/troubleshooting.md', () => {
  const documented = blocks(page('docs/troubleshooting.md'))
    .filter(({ language }) => language === 'text')
    .map(({ text }) => flat(text));
  let printed: string[];

  beforeAll(async () => {
    printed = [
      ...clockMessages(),
      ...planMessages(),
      ...apiMessages(),
      ...syncMessages(),
      await publishMessage('EROFS'),
      await publishMessage('ENOSPC'),
      (await lockMessage()).replace(/"\S+"/, '"/run/kube-cert-recovery"'),
      configMessage(),
      externalMessage(),
      unconfirmedMessage(),
      unknownMessage(),
      await damagedMessage(),
      broughtMessage(),
      ...othersMessages(),
      await diskMessage('EBUSY'),
      await diskMessage('EPERM'),
      await kubeadmMessage(),
      leaseMessage(),
      judgeSigned(undefined).message,
    ].map((message) => flat(message ?? ''));
  });

  it('quotes messages as the program prints them', () => {
    expect(printed.filter((message) => !documented.includes(message))).toEqual([]);
    expect(new Set(printed).size).toBe(33);
  });

  it('quotes nothing that is not in the code', () => {
    const code = execFileSync('cat', sourceFiles(), { encoding: 'utf8', maxBuffer: 2 ** 24 }).replaceAll(
      /['`] \+\s*['`]/g,
      '',
    );
    const others = documented.filter((message) => !printed.includes(message));
    // What stands between names: each part must be in the source as it is.
    const name =
      /"[^"]*"|\b\d{6} bytes\b|\b\d{6} at most\b|\((?:kube-controller-manager )?--[\w-]+\)|\b(?:localhost-recovery-serving: it has expired|kube-controller-manager|ConfigMap|Secret)\b/;
    const parts = others.flatMap((message) => message.split(name)).map((part) => part.trim());
    expect(parts.filter((part) => part.length > 10 && !code.includes(part))).toEqual([]);
    expect(others).toHaveLength(6);
  });
});

function sourceFiles(): string[] {
  const files = execFileSync('find', ['lib', 'cmd', '-name', '*.ts'], { cwd: root, encoding: 'utf8' });
  return files
    .trim()
    .split('\n')
    .map((file) => join(root, file));
}
