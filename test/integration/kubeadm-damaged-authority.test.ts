// One flipped bit in a CA certificate of a machine that the real kubeadm has made, all else healthy: no other file changes,
// and the CA is put back from its copies or said to need a person. openssl tells what is put back.
import { execFile } from 'node:child_process';
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import type { Resolved } from '../../lib/inventory/model.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { createLog } from '../../lib/log.ts';
import { runRegen } from '../../lib/regen/run.ts';
import type { RegenReport } from '../../lib/regen/journal.ts';
import { createDiskStore } from '../../lib/store/disk-store.ts';
import { advertiseAddress, KubeadmMachine } from '../support/cluster/kubeadm-machine.ts';
import { fastKeys } from '../regen/disk-world.ts';

const run = promisify(execFile);

let machine: KubeadmMachine;
let resolved: Resolved;
beforeAll(async () => {
  machine = await KubeadmMachine.create();
  const kubeletDir = join(machine.root, 'var/lib/kubelet');
  await mkdir(join(kubeletDir, 'pki'), { recursive: true });
  const parameters = {
    nodeName: ['node1'],
    advertiseAddress: [advertiseAddress],
    serviceIP: ['10.96.0.1'],
    clusterServiceNames: ['kubernetes.default.svc.cluster.local'],
  };
  const directories = { kubernetesDir: machine.path(), pkiDir: machine.path('pki'), kubeletDir };
  const server = `https://${advertiseAddress}:6443`;
  resolved = resolve(loadPreset('kubeadm'), {
    parameters,
    directories,
    endpoints: { controlPlane: server, local: server },
  });
  expect((await repair()).converged).toBe(true);
}, 120_000);
afterAll(() => machine[Symbol.asyncDispose]());

function repair(): Promise<RegenReport> {
  return runRegen({
    resolved,
    store: createDiskStore({ endpoints: resolved.endpoints ?? {} }),
    policy: { kind: 'OnlyWhenExpired', graceMs: 0, settleMs: 0 },
    clockFacts: () => ({ builtAt: new Date('2025-01-01T00:00:00Z'), synchronised: true }),
    clock: systemClock,
    log: createLog({ level: 'error', write: () => undefined }),
    keyPool: fastKeys(),
    once: true,
    dryRun: false,
    signal: AbortSignal.timeout(60_000),
  });
}

/** Every file below the root, by path. */
async function files(): Promise<Map<string, string>> {
  const entries = await readdir(machine.root, { recursive: true, withFileTypes: true });
  const plain = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  return new Map(await Promise.all(plain.map(async (path) => [path, await readFile(path, 'base64')] as const)));
}

/** Bits spread over the whole text. */
const flips = (bytes: Buffer, count: number): readonly number[] =>
  Array.from({ length: count }, (_, at) => Math.floor(((at + 0.5) * bytes.length * 8) / count) + (at % 8)).map(
    (bit) => bit % (bytes.length * 8),
  );

function flipped(bytes: Buffer, bit: number): Buffer {
  const copy = Buffer.from(bytes);
  copy.writeUInt8(copy.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3);
  return copy;
}

const derOf = (pem: Buffer): Buffer => Buffer.from(pem.toString().replaceAll(/-----[A-Z ]+-----|\s/g, ''), 'base64');
const pemOf = (der: Buffer): Buffer =>
  Buffer.from(
    `-----BEGIN CERTIFICATE-----\n${der.toString('base64').replaceAll(/.{64}(?=.)/g, '$&\n')}\n-----END CERTIFICATE-----\n`,
  );

interface Outcome {
  readonly restored: boolean;
  readonly reported: boolean;
}

/** Repairs with this in the place of the CA, and puts the CA back. What else has changed is a failure. */
async function withDamage(file: string, artefact: string, damaged: Buffer, what: string): Promise<Outcome> {
  const path = machine.path('pki', file);
  const whole = await readFile(path);
  const before = await files();
  await writeFile(path, damaged);
  const { artefacts, writes } = await repair();
  const after = await files();
  const changed = [...new Set([...before.keys(), ...after.keys()])].filter(
    (name) => name !== path && before.get(name) !== after.get(name),
  );
  expect(changed, what).toEqual([]);
  const last = await readFile(path);
  const restored = derOf(last).equals(derOf(whole));
  const decision = artefacts.find((one) => one.artefact === artefact);
  expect(writes, what).toBe(last.equals(damaged) ? 0 : 1);
  if (!restored) expect(last.equals(damaged), what).toBe(true);
  await writeFile(path, whole);
  return { restored, reported: decision?.action === 'blocked' && decision.byHand === true };
}

describe('a flipped bit in a CA certificate', () => {
  it.each([
    ['ca.crt', 'ca', true],
    ['etcd/ca.crt', 'etcd-ca', false],
    ['front-proxy-ca.crt', 'front-proxy-ca', false],
  ] as const)('in %s changes no other file', { timeout: 240_000 }, async (file, artefact, hasCopies) => {
    const text = await readFile(machine.path('pki', file));
    const der = derOf(text);
    const cases = [
      ...flips(der, 60).map((bit) => [`bit ${bit} of the DER of ${file}`, pemOf(flipped(der, bit))] as const),
      ...flips(text, 20).map((bit) => [`bit ${bit} of the text of ${file}`, flipped(text, bit)] as const),
    ];
    for (const [what, damaged] of cases) {
      const { restored, reported } = await withDamage(file, artefact, damaged, what);
      // What decodes to the same certificate is no damage.
      expect(restored || (!hasCopies && reported), what).toBe(true);
    }
  });

  it('is put back from copies although the key of the CA is elsewhere, and from the one of them that it was', async () => {
    const path = machine.path('pki/ca.crt');
    const whole = await readFile(path);
    const der = derOf(whole);
    const damaged = pemOf(flipped(der, der.length * 8 - 100));
    const key = machine.path('pki/ca.key');
    await rename(key, `${key}.away`);
    expect(await withDamage('ca.crt', 'ca', damaged, 'external')).toEqual({ restored: true, reported: false });
    await rename(`${key}.away`, key);

    // another certificate of the same key and name, as `ca renew` makes it
    const renewed = join(machine.root, 'tmp/renewed.crt');
    await run('openssl', ['x509', '-in', path, '-signkey', key, '-days', '900', '-out', renewed]);
    const conf = machine.path('admin.conf');
    const admin = await readFile(conf, 'utf8');
    const data = (await readFile(renewed)).toString('base64');
    await writeFile(conf, admin.replace(/certificate-authority-data: .*/, `certificate-authority-data: ${data}`));
    // Which of the two it was nobody can tell of a file that cannot be read.
    const torn = whole.subarray(0, -100);
    expect(await withDamage('ca.crt', 'ca', torn, 'different copies')).toEqual({ restored: false, reported: true });
    await writeFile(path, damaged);
    expect(await repair()).toMatchObject({ converged: true, writes: 2 }); // admin.conf gets the CA that it lacks
    expect(derOf(await readFile(path)).equals(der)).toBe(true);
    await writeFile(path, whole);
    await writeFile(conf, admin);
    await rm(renewed);
  });

  it('makes no leaf under the damaged CA when leaves have expired, and does once it is put back', async () => {
    const path = machine.path('pki/etcd/ca.crt');
    const whole = await readFile(path);
    const der = derOf(whole);
    await writeFile(path, pemOf(flipped(der, der.length * 8 - 100)));
    const leaf = machine.path('pki/etcd/peer.crt');
    await rm(leaf);
    const report = await repair();
    expect(report).toMatchObject({ writes: 0 });
    expect(report.artefacts.find(({ artefact }) => artefact === 'etcd-peer')).toMatchObject({
      action: 'blocked',
      reason: 'SignerUnusable',
      byHand: true,
    });
    await writeFile(path, whole);
    expect(await repair()).toMatchObject({ writes: 1, converged: true });
    await run('openssl', ['verify', '-CAfile', path, leaf]);
  });
});
