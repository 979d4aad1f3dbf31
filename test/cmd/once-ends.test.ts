// What cannot be repaired must not hold up the kubelet, whose drop-in runs one pass: it ends within about five seconds of
// its clock, whatever stands in the way, and all that can be repaired has been repaired by then.
import { chmod, mkdir, mkdtemp, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { exitCodes, exitOfUnmet } from '../../cmd/exit-codes.ts';
import { resolveHere } from '../../cmd/read-config.ts';
import { unmetConditions } from '../../lib/regen/unmet.ts';
import { systemClock } from '../../lib/clock.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { createLog } from '../../lib/log.ts';
import { runRegen } from '../../lib/regen/run.ts';
import { createDiskStore } from '../../lib/store/disk-store.ts';
import { fastKeys, movedClock } from '../regen/disk-world.ts';
import { createAuthority } from '../support/certificates/certificates.ts';
import { createServiceAccountKey } from '../support/certificates/service-accounts.ts';
import { kubeadmCertificates } from '../support/kubeadm-names.ts';

let directory: string;
let pki: string;
let written: readonly string[];
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'once-'));
  pki = join(directory, 'pki');
  written = [];
  await mkdir(join(directory, 'manifests'));
  for (const [name, ...flags] of [
    ['kube-apiserver', '--advertise-address=192.0.2.1', '--secure-port=6443', '--etcd-servers=https://127.0.0.1:2379'],
    ['etcd', '--name=node-1'],
  ] as const) {
    const spec = { containers: [{ name, command: [name, ...flags] }] };
    const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace: 'kube-system' }, spec };
    await writeFile(join(directory, 'manifests', `${name}.yaml`), JSON.stringify(pod));
  }
  const notAfter = new Date(systemClock.now().getTime() + 20 * 366 * 86_400_000);
  for (const [file, commonName] of [
    ['ca', 'kubernetes'],
    ['front-proxy-ca', 'front-proxy-ca'],
    ['etcd/ca', 'etcd-ca'],
  ] as const) {
    const { cert, key } = await createAuthority(join(directory, 'made', file), { commonName, notAfter });
    await mkdir(dirname(join(pki, file)), { recursive: true });
    await rename(cert, join(pki, `${file}.crt`));
    await rename(key, join(pki, `${file}.key`));
  }
  await createServiceAccountKey(pki);
});
afterEach(() => rm(directory, { recursive: true, force: true }));

/** How the pass ended, and for how long it has slept. */
async function once(later = 0): Promise<{ readonly exit: number; readonly slept: number; readonly told: string }> {
  const inventory = loadPreset('kubeadm');
  const directories = { kubernetesDir: directory, pkiDir: pki, kubeletDir: join(directory, 'kubelet') };
  const parameters = { nodeName: ['node-1'], advertiseAddress: ['192.0.2.1'], serviceIP: ['10.96.0.1'] };
  const resolved = await resolveHere({ inventory, environment: { directories, parameters } });
  const clock = movedClock(later);
  const report = await runRegen({
    resolved,
    store: createDiskStore({
      backupDir: join(directory, 'backups'),
      ...(resolved.endpoints !== undefined && { endpoints: resolved.endpoints }),
    }),
    policy: { kind: 'OnlyWhenExpired', graceMs: 60_000, settleMs: 1000 },
    clockFacts: () => ({ builtAt: new Date('2025-01-01T00:00:00Z'), synchronised: true }),
    keyPool: fastKeys(),
    once: true,
    dryRun: false,
    clock,
    log: createLog({ level: 'error', write: () => undefined }),
    signal: AbortSignal.timeout(60_000),
  });
  const unmet = unmetConditions(report);
  written = report.artefacts.flatMap(({ artefact, writes }) => (writes > 0 ? [artefact] : []));
  return {
    exit: exitOfUnmet(unmet),
    slept: clock.slept,
    told: unmet.map(({ message }) => message).join('\n'),
  };
}

const year = 366 * 86_400_000;
/** Nobody makes the kubeconfigs of people. */
const names = [...kubeadmCertificates.filter((name) => !name.endsWith('admin.conf')), 'kubelet.conf'];
const allBut = (...left: readonly string[]): readonly string[] =>
  names.filter((name) => !left.includes(name)).toSorted();

async function replace(path: string, content: string): Promise<void> {
  await rm(path, { recursive: true, force: true });
  await writeFile(path, content, { mode: 0o600 });
}

/** A place where nothing can be made, by nobody: neither by root. */
async function unwritable(path: string): Promise<void> {
  await rm(path, { force: true });
  await symlink('/proc/none', path);
}

interface Case {
  readonly name: string;
  readonly harm: () => Promise<unknown>;
  readonly exit: number;
  readonly told?: string;
  /** What is renewed after a year all the same. */
  readonly renewed: readonly string[];
}

const cases: readonly Case[] = [
  {
    name: 'a disk that takes no file',
    harm: () => unwritable(join(pki, 'apiserver.crt')),
    exit: exitCodes.failed,
    told: 'apiserver: Cannot write pair',
    renewed: allBut('apiserver'),
  },
  {
    name: 'a directory in the place of a file',
    harm: async () => {
      await rm(join(pki, 'apiserver.crt'));
      await mkdir(join(pki, 'apiserver.crt'));
    },
    exit: exitCodes.byHand,
    told: 'is a directory',
    renewed: allBut('apiserver'),
  },
  {
    name: 'a CA whose key is elsewhere',
    harm: () => rm(join(pki, 'etcd/ca.key')),
    exit: exitCodes.byHand,
    told: 'the key of its signer is not on this machine',
    renewed: allBut('apiserver-etcd-client', 'etcd-server', 'etcd-peer', 'etcd-healthcheck-client'),
  },
  {
    name: 'a CA that is torn',
    harm: () => replace(join(pki, 'front-proxy-ca.crt'), '-----BEGIN CERTIFICATE-----\nAAAA'),
    exit: exitCodes.byHand,
    told: 'front-proxy-ca: it is broken',
    renewed: allBut('front-proxy-client'),
  },
  {
    name: "a kubeconfig whose credentials are others'",
    harm: async () => {
      const path = join(directory, 'scheduler.conf');
      const text = await readFile(path, 'utf8');
      await replace(
        path,
        text.replace(/client-certificate-data: \S+/, 'token: abc').replace(/ *client-key-data: \S+\n/, ''),
      );
    },
    exit: exitCodes.done,
    renewed: allBut('scheduler.conf'),
  },
  {
    name: 'a kubeconfig that is torn',
    harm: () => replace(join(directory, 'scheduler.conf'), '{'),
    exit: exitCodes.done,
    renewed: allBut(),
  },
  {
    name: 'a place for backups that takes none',
    harm: async () => {
      await rm(join(directory, 'backups'), { recursive: true, force: true });
      await symlink('/nowhere/at/all', join(directory, 'backups'));
    },
    exit: exitCodes.done,
    renewed: allBut(),
  },
  {
    name: 'files that anybody may read',
    harm: () => chmod(join(pki, 'apiserver.key'), 0o644),
    exit: exitCodes.done,
    renewed: allBut(),
  },
];

describe('one pass after a year ends soon, everything else repaired, beside', () => {
  beforeEach(async () => {
    expect(await once()).toMatchObject({ exit: exitCodes.done, told: '' });
  });

  it.each(cases)('$name', { timeout: 20_000 }, async ({ harm, exit, told = '', renewed }) => {
    await harm();
    const outcome = await once(year);
    expect(outcome.exit, outcome.told).toBe(exit);
    expect(outcome.told).toContain(told);
    expect(written.toSorted()).toEqual(renewed);
    expect(outcome.slept).toBeLessThanOrEqual(1000);
  });
});
