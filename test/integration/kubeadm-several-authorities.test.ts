// A CA file that holds other CAs as well, before or behind that of its key, on a machine that the real kubeadm has made: the
// CA that signs is the one whose key is there, and the others are trust and stay, to the byte. openssl says who has signed.
import { execFile } from 'node:child_process';
import { mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import type { Resolved } from '../../lib/inventory/model.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { createLog } from '../../lib/log.ts';
import type { RegenReport } from '../../lib/regen/journal.ts';
import { runRegen } from '../../lib/regen/run.ts';
import { createDiskStore } from '../../lib/store/disk-store.ts';
import { fastKeys } from '../regen/disk-world.ts';
import { dated } from '../support/certificates/dated.ts';
import { advertiseAddress, KubeadmMachine } from '../support/cluster/kubeadm-machine.ts';

const run = promisify(execFile);
const day = (count: number): Date => new Date(Math.floor(Date.now() / 1000) * 1000 + count * 86_400_000);

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
  const server = `https://${advertiseAddress}:6443`;
  resolved = resolve(loadPreset('kubeadm'), {
    parameters,
    directories: { kubernetesDir: machine.path(), pkiDir: machine.path('pki'), kubeletDir },
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
    log: createLog({ level: 'warn', write: () => undefined }),
    keyPool: fastKeys(),
    once: true,
    dryRun: false,
    signal: AbortSignal.timeout(60_000),
  });
}

const pki = (...names: readonly string[]): string => machine.path('pki', ...names);

/** A CA that openssl makes: `-subj`, and by whom it is signed. */
async function ca(name: string, ...more: readonly string[]): Promise<string> {
  const out = ['-keyout', join(machine.root, `tmp/${name}.key`), '-out', join(machine.root, `tmp/${name}.crt`)];
  const what = ['-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '3000'];
  await run('openssl', ['req', ...what, '-addext', 'keyUsage=critical,keyCertSign', ...more, ...out]);
  return readFile(join(machine.root, `tmp/${name}.crt`), 'utf8');
}

const keyOf = (name: string): Promise<string> => readFile(join(machine.root, `tmp/${name}.key`), 'utf8');

/** The own CA as a CA above it has signed it: the same key and name. */
async function issuing(file: string): Promise<string> {
  const [csr, made, ext] = ['issuing.csr', 'issuing.crt', 'issuing.ext'].map((name) => join(machine.root, 'tmp', name));
  const above = ['-CA', join(machine.root, 'tmp/root.crt'), '-CAkey', join(machine.root, 'tmp/root.key')];
  await writeFile(
    ext ?? '',
    'basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\nsubjectKeyIdentifier=hash',
  );
  const key = pki(file.replace(/crt$/, 'key'));
  await run('openssl', ['x509', '-x509toreq', '-in', pki(file), '-signkey', key, '-out', csr ?? '']);
  const what = [
    '-req',
    '-in',
    csr ?? '',
    '-days',
    '2000',
    '-extfile',
    ext ?? '',
    '-out',
    made ?? '',
    '-CAcreateserial',
  ];
  await run('openssl', ['x509', ...what, ...above]);
  return readFile(made ?? '', 'utf8');
}

/** By what lies beside the own CA, in which order: `own` is its place. */
const beside: Readonly<Record<string, (own: string, file: string) => Promise<readonly string[]>>> = {
  'a former CA of that name first': async (own) => [await ca('former', '-subj', '/CN=kubernetes'), own],
  'an expired former CA first': async (own) => {
    const former = await ca('former', '-subj', '/CN=kubernetes');
    return [dated(former, await keyOf('former'), day(-4000), day(-100)), own];
  },
  'the next CA first': async (own) => [await ca('next', '-subj', '/CN=next'), own],
  'a former CA behind it': async (own) => [own, await ca('former', '-subj', '/CN=kubernetes')],
  'one before and one behind it': async (own) => [
    await ca('former', '-subj', '/CN=kubernetes'),
    own,
    await ca('next', '-subj', '/CN=next'),
  ],
  'the root before the CA that issues': async (_own, file) => [
    await ca('root', '-subj', '/CN=root'),
    await issuing(file),
  ],
  'comments and Windows line ends': async (own) => [
    `# the former one\r\n${(await ca('former', '-subj', '/CN=kubernetes')).replaceAll('\n', '\r\n')}`,
    `\n  Subject: CN = kubernetes\n${own}`,
  ],
  'a revocation list, parameters and a key of others': async (own) => {
    const former = await ca('former', '-subj', '/CN=kubernetes');
    return [await curveParameters(), former, await revocations(), own, await keyOf('former')];
  },
};

/** A revocation list of the CA `former`. */
async function revocations(): Promise<string> {
  const [index, config, out] = ['index.txt', 'crl.cnf', 'former.crl'].map((name) => join(machine.root, 'tmp', name));
  await writeFile(index ?? '', '');
  const lines = ['[ca]', 'default_ca=own', '[own]', `database=${index}`, 'default_md=sha256', 'default_crl_days=30'];
  await writeFile(config ?? '', `${lines.join('\n')}\n`);
  const by = ['crt', 'key'].map((end) => join(machine.root, `tmp/former.${end}`));
  const own = ['-gencrl', '-config', config ?? '', '-cert', by[0] ?? '', '-keyfile', by[1] ?? '', '-out', out ?? ''];
  await run('openssl', ['ca', ...own]);
  return readFile(out ?? '', 'utf8');
}

async function curveParameters(): Promise<string> {
  const { stdout } = await run('openssl', ['ecparam', '-name', 'prime256v1']);
  return stdout;
}

const leafOf: Readonly<Record<string, string>> = {
  'ca.crt': 'apiserver.crt',
  'etcd/ca.crt': 'etcd/peer.crt',
  'front-proxy-ca.crt': 'front-proxy-client.crt',
};
/** What lies there during a test, and afterwards what was there. */
async function withFile(file: string, content: string, use: () => Promise<void>): Promise<void> {
  const leaf = pki(leafOf[file] ?? '');
  const paths = [pki(file), leaf, leaf.replace(/crt$/, 'key')];
  const whole = await Promise.all(paths.map((path) => readFile(path)));
  await writeFile(pki(file), content);
  try {
    await use();
  } finally {
    await Promise.all(paths.map((path, at) => writeFile(path, whole[at] ?? '')));
    expect((await repair()).converged).toBe(true);
  }
}

describe.each(Object.keys(leafOf))('%s', (file) => {
  test.each(Object.keys(beside))('%s: it stays as it is, and signs', { timeout: 60_000 }, async (what) => {
    const parts = await beside[what]?.(await readFile(pki(file), 'utf8'), file);
    const content = parts?.join('') ?? '';
    const own = what.startsWith('the root') ? parts?.[1] : await readFile(pki(file), 'utf8');
    await withFile(file, content, async () => {
      expect(await repair()).toMatchObject({ converged: true, writes: kubeconfigsOf(file, what) });
      const noted = (await machine.status()).stdout.includes('kubeadm signs by the first certificate in the file');
      expect(noted).toBe(!what.endsWith('behind it') || what.startsWith('one before'));
      await rm(pki(leafOf[file] ?? ''));
      expect(await repair()).toMatchObject({ converged: true, writes: 1 });
      expect(await readFile(pki(file), 'utf8')).toBe(content);
      const alone = join(machine.root, 'tmp/own.crt');
      await writeFile(alone, own ?? '');
      await run('openssl', ['verify', '-partial_chain', '-CAfile', alone, pki(leafOf[file] ?? '')]);
    });
  });

  it('is renewed in its place when it has expired, and what stands around it stays', { timeout: 60_000 }, async () => {
    const whole = await readFile(pki(file), 'utf8');
    const old = dated(whole, await readFile(pki(file.replace(/crt$/, 'key')), 'utf8'), day(-3000), day(-1));
    const [former, next] = [await ca('former', '-subj', '/CN=kubernetes'), await ca('next', '-subj', '/CN=next')];
    const around = [
      `# the former\n${former}`,
      `\n# the next\r\n${next.replaceAll('\n', '\r\n')}${await curveParameters()}`,
    ];
    await withFile(file, around.join(old), async () => {
      expect((await repair()).converged).toBe(true);
      const now = await readFile(pki(file), 'utf8');
      expect([now.startsWith(around[0] ?? '?'), now.endsWith(around[1] ?? '?')]).toEqual([true, true]);
      const made = now.slice(around[0]?.length, -(around[1]?.length ?? 0));
      expect(made).toMatch(/^-----BEGIN CERTIFICATE-----\n[^-]+-----END CERTIFICATE-----\n$/);
      const alone = join(machine.root, 'tmp/own.crt');
      await writeFile(alone, made);
      await run('openssl', ['verify', '-CAfile', alone, pki(leafOf[file] ?? '')]);
    });
  });
});

/** Kubeconfigs follow a CA whose certificate is another one. */
const kubeconfigsOf = (file: string, what: string): number =>
  file === 'ca.crt' && what.startsWith('the root') ? 5 : 0;

test('a CA whose key is another one is still by hand', async () => {
  const content = (await ca('former', '-subj', '/CN=kubernetes')) + (await ca('next', '-subj', '/CN=next'));
  await withFile('etcd/ca.crt', content, async () => {
    const { artefacts, writes } = await repair();
    expect(writes).toBe(0);
    expect(artefacts.find(({ artefact }) => artefact === 'etcd-ca')).toMatchObject({ action: 'blocked', byHand: true });
  });
});

/** Kubeconfigs know their server by these. */
async function embed(text: string): Promise<() => Promise<void>> {
  const names = ['admin.conf', 'super-admin.conf', 'controller-manager.conf', 'scheduler.conf', 'kubelet.conf'];
  const whole = await Promise.all(names.map((name) => readFile(machine.path(name), 'utf8')));
  const data = `certificate-authority-data: ${Buffer.from(text).toString('base64')}`;
  const put = (texts: readonly string[]): Promise<unknown> =>
    Promise.all(names.map((name, at) => writeFile(machine.path(name), texts[at] ?? '')));
  await put(whole.map((one) => one.replace(/certificate-authority-data: \S+/, data)));
  return async () => void (await put(whole));
}

test.each([
  ['torn', (whole: string) => whole.slice(0, -100)],
  ['empty', () => ''],
])('ca.crt is %s: put back with the former CA that kubeconfigs hold', { timeout: 60_000 }, async (_state, damage) => {
  const own = await readFile(pki('ca.crt'), 'utf8');
  const former = await ca('former', '-subj', '/CN=kubernetes');
  const expired = dated(await ca('old', '-subj', '/CN=kubernetes'), await keyOf('old'), day(-4000), day(-100));
  const others = await ca('balancer', '-subj', '/CN=load balancer');
  const giveBack = await embed(own + former + expired + others);
  await withFile('ca.crt', damage(own), async () => {
    expect((await repair()).converged).toBe(true);
    expect(await readFile(pki('ca.crt'), 'utf8')).toBe(own + former);
    expect(await repair()).toMatchObject({ converged: true, writes: 0 });
  });
  await giveBack();
});

test('CAs that are one by links are renewed once, and no write of another fails', { timeout: 60_000 }, async () => {
  await using copy = await machine.copy();
  const at = (name: string, end: string): string => copy.path('pki', `${name}.${end}`);
  const [own, key] = await Promise.all(['crt', 'key'].map((end) => readFile(at('ca', end), 'utf8')));
  for (const end of ['crt', 'key']) {
    for (const name of ['front-proxy-ca', 'etcd/ca', 'front-proxy-client']) await rm(at(name, end));
    await symlink(`ca.${end}`, at('front-proxy-ca', end));
    await symlink(at('ca', end), at('etcd/ca', end));
  }
  await writeFile(at('ca', 'crt'), dated(own ?? '', key ?? '', day(-3000), day(-1)));
  const { stdout, stderr, code } = await copy.regen();
  expect(code, stderr).toBe(0);
  expect(stdout + stderr).not.toContain('"level":"error"');
  expect((stdout + stderr).match(/"event":"signer\.\w+"/g)).toHaveLength(1);
  const signed = ['apiserver', 'front-proxy-client', 'etcd/server', 'etcd/peer', 'apiserver-etcd-client'];
  await run('openssl', ['verify', '-CAfile', at('ca', 'crt'), ...signed.map((name) => at(name, 'crt'))]);
});
