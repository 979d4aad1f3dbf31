// The whole observer on a published directory; the proof is a function of the test's.
import { mkdirSync } from 'node:fs';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { observeOwnFiles } from '../../lib/fileobserver/own-files.ts';
import { runFileObserver } from '../../lib/fileobserver/run.ts';
import { Health } from '../../lib/health.ts';
import type { Location, Reader, Resolved } from '../../lib/inventory/model.ts';
import { createLog } from '../../lib/log.ts';
import { publish } from '../../lib/publish/writer.ts';
import { createAuthority, createLeaf, type Pair } from '../support/certificates/certificates.ts';
import { hurried, TemporaryDirectory, soon } from './observation.ts';

const made = new TemporaryDirectory();
const pairs: Pair[] = [];
beforeAll(async () => {
  const ca = await createAuthority(join(made.path, 'ca'), { commonName: 'ca' });
  for (const name of ['first', 'second', 'third']) {
    pairs.push(await createLeaf(join(made.path, name), ca, { commonName: name }));
  }
});
afterAll(() => made[Symbol.asyncDispose]());

const readers: Reader[] = [{ component: 'kas', needs: 'nothing', proof: { kind: 'served', serverName: 'localhost' } }];
const secret = (name: string): Location => ({ kind: 'secret', namespace: 'a', name });
const leaf = { issuer: 'ca', usage: 'serving', organizations: [], hostnames: [], validity: 1, refresh: 1 } as const;
const resolved: Resolved = {
  name: 'test',
  artefacts: [
    { kind: 'target', name: 'serving', location: secret('serving-cert'), published: 'required', readers, ...leaf },
    {
      kind: 'copy',
      name: 'serving-copy',
      of: 'serving',
      location: secret('copy-cert'),
      published: 'required',
      readers,
    },
    { kind: 'target', name: 'unpublished', location: secret('elsewhere'), readers, ...leaf },
  ],
};

async function publishPair(destinationDir: string, name: string, { cert, key }: Pair): Promise<void> {
  const entries = { 'tls.crt': await readFile(cert), 'tls.key': await readFile(key) };
  await publish({ directory: join(destinationDir, 'secrets', name), what: `Secret "a/${name}"`, entries, mode: 0o600 });
}

interface Proven {
  readonly artefact: string;
  readonly after: number;
}

test('runFileObserver() reacts to each artefact when its pair is published, at once and only then', async () => {
  await using destination = new TemporaryDirectory();
  const stop = new AbortController();
  const lines: Record<string, unknown>[] = [];
  const proofs: Proven[] = [];
  let publishedAt = 0;
  const health = new Health();
  const running = runFileObserver({
    resolved,
    destinationDir: destination.path,
    prove: ({ name }) => {
      proofs.push({ artefact: name, after: performance.now() - publishedAt });
      return Promise.resolve({ state: 'proven', message: 'served', at: new Date() });
    },
    clock: systemClock,
    log: createLog({ write: (line) => lines.push(JSON.parse(line) as Record<string, unknown>) }),
    signal: stop.signal,
    health,
  });
  const given = (): unknown[] =>
    lines.filter(({ event }) => event === 'proof.succeeded').map(({ artefact }) => artefact);
  await publishPair(destination.path, 'serving-cert', pairs[0] as Pair);
  await soon(given).toEqual(['serving']);
  await publishPair(destination.path, 'copy-cert', pairs[0] as Pair);
  await soon(given).toEqual(['serving', 'serving-copy']);
  await publishPair(destination.path, 'elsewhere', pairs[0] as Pair);

  const reactions: number[] = [];
  for (let i = 1; i <= 21; i += 1) {
    const before = proofs.length;
    publishedAt = performance.now();
    await publishPair(destination.path, 'serving-cert', pairs[i % 3] as Pair);
    publishedAt = performance.now();
    await soon(() => proofs.length).toBeGreaterThan(before);
    reactions.push(proofs.at(-1)?.after ?? Infinity);
    await soon(() => given().length).toBe(2 + i);
  }
  expect(proofs.filter(({ artefact }) => artefact === 'unpublished')).toEqual([]);
  expect(proofs.slice(-21).map(({ artefact }) => artefact)).toEqual(Array.from({ length: 21 }, () => 'serving'));
  // The middle one, and generously: a busy machine must not decide.
  expect(reactions.toSorted((a, b) => a - b)[10]).toBeLessThan(1000);
  expect(health.report()).toEqual([{ name: 'files-in-use', kind: 'readiness', ok: true }]);
  expect(JSON.stringify(lines)).not.toContain('PRIVATE KEY');
  stop.abort();
  await running;
}, 30_000);

test('runFileObserver() proves what was there before it started', async () => {
  await using destination = new TemporaryDirectory();
  await publishPair(destination.path, 'serving-cert', pairs[0] as Pair);
  const stop = new AbortController();
  const asked: [string, Date][] = [];
  const started = new Date();
  const running = runFileObserver({
    resolved,
    destinationDir: destination.path,
    prove: ({ name }, publishedAt) => {
      asked.push([name, publishedAt]);
      return Promise.resolve({ state: 'proven', message: 'served', at: new Date() });
    },
    clock: systemClock,
    log: createLog({ write: () => {} }),
    signal: stop.signal,
  });
  await soon(() => asked.length).toBe(1);
  expect(asked[0]?.[0]).toBe('serving');
  expect(asked[0]?.[1].getTime()).toBeLessThanOrEqual(started.getTime());
  stop.abort();
  await running;
});

test('observeOwnFiles() reloads at the start and after a change, and again until that succeeds', async () => {
  await using directory = new TemporaryDirectory();
  const token = join(directory.path, 'sub', 'token');
  mkdirSync(dirname(token));
  await writeFile(token, 'one');
  const stop = new AbortController();
  const lines: Record<string, unknown>[] = [];
  const seen: string[] = [];
  const running = observeOwnFiles({
    files: () => [token],
    reload: async () => {
      const content = await readFile(token, 'utf8');
      seen.push(content);
      if (content === 'two' && seen.filter((each) => each === 'two').length < 3) throw new Error('half-written');
      return 'changed';
    },
    clock: hurried,
    log: createLog({ write: (line) => lines.push(JSON.parse(line) as Record<string, unknown>) }),
    signal: stop.signal,
  });
  await soon(() => seen).toEqual(['one']);
  for (const content of ['two', 'three']) {
    await writeFile(`${token}.new`, content);
    await rename(`${token}.new`, token);
    await soon(() => seen.filter((each) => each === content).length).toBe(content === 'two' ? 3 : 1);
  }
  const failed = lines.filter(({ event }) => event === 'reaction.failed');
  expect(failed).toMatchObject([{ err: 'half-written' }]); // told once, tried twice
  stop.abort();
  await running;
});

test('observeOwnFiles() observes the files that a changed kubeconfig names', async () => {
  await using directory = new TemporaryDirectory();
  const at = (name: string): string => join(directory.path, name);
  for (const name of ['kubeconfig', 'old-token', 'new-token']) await writeFile(at(name), 'one');
  const stop = new AbortController();
  let named = 'old-token';
  const seen: string[] = [];
  const running = observeOwnFiles({
    files: () => [at('kubeconfig'), at(named)],
    reload: async () => {
      if ((await readFile(at('kubeconfig'), 'utf8')) === 'two') named = 'new-token';
      seen.push(`${named} ${await readFile(at(named), 'utf8')}`);
      return 'changed';
    },
    clock: systemClock,
    log: createLog({ write: () => {} }),
    signal: stop.signal,
  });
  await soon(() => seen).toContain('old-token one');
  await writeFile(at('kubeconfig'), 'two');
  await soon(() => seen).toContain('new-token one');
  await writeFile(at('new-token'), 'two');
  await soon(() => seen).toContain('new-token two');
  stop.abort();
  await running;
});
