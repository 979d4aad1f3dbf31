// A renewal of four kinds of files is killed (SIGKILL) before each of its calls to the disk in turn. After every death
// each path is there and whole, with the former or the new content; no key lies in a file that others can read; and the
// next run finishes the work and leaves nothing behind.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createDiskStore } from '../../lib/store/disk-store.ts';
import { authorityKey, type Entries, type Material } from '../../lib/store/store.ts';
import { hostFiles, layOut, materialIn, withAuthority } from '../store/host-files.ts';
import { createAuthority, createLeaf } from '../support/certificates/certificates.ts';
import { certificateKey, privateKeyKey } from '../../lib/inventory/content.ts';

const child = fileURLToPath(new URL('../support/faults/store-child.ts', import.meta.url));
const lanes = 2;
const { signal } = new AbortController();

let root: string;
let first: Material;
let second: Material;
let authorities: readonly Buffer[];

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'store-kill-'));
  const signer = await createAuthority(join(root, 'ca-first'), { commonName: 'kubernetes' });
  await createAuthority(join(root, 'ca-second'), { commonName: 'kubernetes' });
  for (const name of ['first', 'second'])
    await createLeaf(join(root, name), signer, { commonName: 'kubernetes-admin' });
  [first, second] = await Promise.all([materialIn(root, 'first'), materialIn(root, 'second')]);
  authorities = await Promise.all(['ca-first', 'ca-second'].map((name) => readFile(join(root, name, 'tls.crt'))));
});

afterAll(() => rm(root, { recursive: true, force: true }));

async function renewUntil(directory: string, nth: number): Promise<{ signal: string | null; output: string }> {
  const running = spawn(process.execPath, [child, directory, root, String(nth)], {
    detached: true, // a process group of its own
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, NODE_COMPILE_CACHE: join(root, 'compiled') },
  });
  let output = '';
  running.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
  await once(running, 'close');
  await groupEnds(running.pid ?? 0);
  return { signal: running.signalCode, output };
}

/** Waits for the `cp` of a killed run: no unit of systemd starts again before all of its processes have ended. */
async function groupEnds(leader: number): Promise<void> {
  try {
    while (process.kill(-leader, 0)) await delay(10);
  } catch (err) {
    expect(err).toMatchObject({ code: 'ESRCH' });
  }
}

const textOf = (entries: Entries | undefined, key: string): string => Buffer.from(entries?.[key] ?? '').toString();
const whole = (key: string): string[] => [first, second].map(({ entries }) => textOf(entries, key));

/** What a reader finds that knows nothing of the store. Returns whether a pair is torn apart. */
async function look(directory: string, at: string): Promise<boolean> {
  const { pair, admin, kubelet, client, server, kubeletPki } = hostFiles(directory);
  const certificate = await readFile(pair.certFile, 'utf8');
  const key = await readFile(pair.keyFile, 'utf8');
  expect(whole(certificateKey), at).toContain(certificate);
  expect(whole(privateKeyKey), at).toContain(key);
  const combined = [first, second].map(
    ({ entries }) => textOf(entries, certificateKey) + textOf(entries, privateKeyKey),
  );
  for (const { file } of [client, server]) expect(combined, at).toContain(await readFile(file, 'utf8'));
  for (const location of [admin, kubelet]) {
    const found = await createDiskStore().read(location, signal);
    expect(found?.problem, at).toBeUndefined();
    const generation = whole(certificateKey).indexOf(textOf(found?.entries, certificateKey));
    expect(generation, at).not.toBe(-1);
    expect(textOf(found?.entries, privateKeyKey), at).toBe(whole(privateKeyKey)[generation]);
    expect(authorities.map(String), at).toContain(textOf(found?.entries, authorityKey));
  }
  for (const name of await readdir(kubeletPki)) expect((await stat(join(kubeletPki, name))).mode & 0o077, at).toBe(0);
  for (const name of (await readdir(directory)).filter((each) => each.startsWith('.') || each.endsWith('.key'))) {
    const mode = (await stat(join(directory, name))).mode & 0o077;
    if (!name.includes('.crt.')) expect(mode, `${at}, ${name}`).toBe(0);
  }
  return whole(certificateKey).indexOf(certificate) !== whole(privateKeyKey).indexOf(key);
}

async function heal(directory: string): Promise<void> {
  const store = createDiskStore({ backupDir: join(directory, 'backup') });
  const { pair, admin, kubelet, server } = hostFiles(directory);
  for (const location of [pair, server, kubelet, admin]) {
    const next = location.kind === 'kubeconfig' ? withAuthority(second, authorities[1] ?? Buffer.of()) : second;
    const found = await store.read(location, signal);
    const seen = found === undefined ? ('absent' as const) : { version: found.version };
    expect(await store.write(location, next, seen, signal)).toBe('written');
  }
}

test('a renewal that is killed before any of its disk calls leaves whole files, and the next run finishes it', async () => {
  const counting = join(root, 'counting');
  await layOut(counting, first, authorities[0] ?? Buffer.of());
  const calls = Number((await renewUntil(counting, -1)).output);
  expect(calls).toBeGreaterThan(100);

  let torn = 0;
  let residues = 0;
  let next = 0;
  const lane = async (): Promise<void> => {
    for (let nth = next++; nth < calls; nth = next++) {
      const at = `killed before call ${nth}`;
      const directory = join(root, `case-${nth}`);
      await layOut(directory, first, authorities[0] ?? Buffer.of());
      const { signal: killedBy } = await renewUntil(directory, nth);
      expect(killedBy, at).toBe('SIGKILL');
      if (await look(directory, at)) torn += 1;
      const { kubeletPki } = hostFiles(directory);
      const hidden = async (): Promise<string[]> =>
        [...(await readdir(directory)), ...(await readdir(kubeletPki))].filter((name) => name.startsWith('.'));
      residues += (await hidden()).length;
      await heal(directory);
      expect(await look(directory, at)).toBe(false);
      expect(await hidden(), at).toEqual([]);
      const backup = join(directory, 'backup');
      for (const shelf of await readdir(backup)) {
        for (const name of await readdir(join(backup, shelf))) expect(name, at).toMatch(/^\d{6}$/);
      }
      await rm(directory, { recursive: true });
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  // Otherwise no death came in the middle of anything, and the test has proven nothing.
  expect(residues).toBeGreaterThan(20);
  expect(torn).toBe(1); // between the two renames of a pair
}, 900_000);
