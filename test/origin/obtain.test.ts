// Which places are reached between two passes by a run, a dry run and `status`, and what is noted of that. Files and a
// real program stand for the places.
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { RunState } from '../../lib/host/state.ts';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { make } from '../../lib/issue/issue.ts';
import { createLog } from '../../lib/log.ts';
import { obtain, sourcesOf } from '../../lib/origin/obtain.ts';
import type { Obtaining } from '../../lib/origin/obtaining.ts';
import { origins } from '../../lib/origin/origins.ts';
import { createDiskStore } from '../../lib/store/disk-store.ts';
import { createAuthority } from '../support/certificates/certificates.ts';

const worker = resolve(loadPreset('kubeadm-worker'), {
  files: { clientFile: '/pki/client.pem', clientCaFile: '/pki/ca.crt' },
});
let directory: string;
let pair: { readonly cert: string; readonly key: string };
let notes: RunState;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'obtain-'));
  pair = await createAuthority(join(directory, 'pair'), { commonName: 'client' });
  notes = new RunState(join(directory, 'run'));
});
afterEach(() => rm(directory, { recursive: true }));

function asked(purpose: Obtaining['purpose'], sources: Obtaining['sources'] = {}): Obtaining {
  return {
    resolved: worker,
    store: createDiskStore({ backupDir: join(directory, 'backup') }),
    sources,
    tokenFile: join(directory, 'token'),
    tlsServerNameOverride: undefined,
    purpose,
    notes,
    isUrgent: () => false,
    leftMs: () => 0,
    connect: () => Promise.reject(new Error('nothing is connected to')),
    clock: systemClock,
    log: createLog({ level: 'error', format: 'json', write: () => undefined }),
    signal: AbortSignal.timeout(60_000),
  };
}

const files = (): Obtaining['sources'] => ({ pair: { pemPair: { certFile: pair.cert, keyFile: pair.key } } });
const wanted = [{ artefact: 'pair', obtains: 'fetch' }] as const;
const noted = (): Promise<string[]> => readdir(join(directory, 'run')).catch(() => []);

describe('obtain()', () => {
  it('answers with the pair of a source, and notes when a run has read it', async () => {
    const run = asked('run', files());
    expect((await sourcesOf(run)).get('pair')).not.toHaveProperty('askedAt');
    const answer = (await obtain(wanted, run)).get('pair')?.answer;
    if (answer === undefined || !('key' in answer)) throw new Error('no pair');
    expect(Buffer.from(answer.certificate).toString()).toBe(await readFile(pair.cert, 'utf8'));
    expect((await sourcesOf(run)).get('pair')).toHaveProperty('askedAt');
    const elsewhere = { pair: { pemPair: { certFile: pair.key, keyFile: pair.key } } };
    expect((await sourcesOf(asked('run', elsewhere))).get('pair')).not.toHaveProperty('askedAt');
  });

  it.each(['dryRun', 'report'] as const)('notes nothing in a %s', async (purpose) => {
    const answers = await obtain(wanted, asked(purpose, files()));
    expect(answers.get('pair')?.answer).toHaveProperty('key');
    expect(await noted()).toEqual([]);
  });

  it('starts no program in a dry run', async () => {
    const ran = join(directory, 'ran');
    const program = join(directory, 'program');
    await writeFile(program, `#!/bin/sh\n: > ${ran}\n`, { mode: 0o700 });
    const answers = await obtain(wanted, asked('dryRun', { pair: { command: [program] } }));
    expect(answers.get('pair')?.answer).toMatchObject({ notRun: true });
    expect(await readdir(directory)).not.toContain('ran');
  });

  it('requests nothing of the cluster but in a run', async () => {
    const ofCluster = [
      { artefact: 'kubelet.conf', obtains: 'follow' },
      { artefact: 'kubelet-client', obtains: 'request' },
    ] as const;
    const names = ofCluster.map(({ artefact }) => artefact);
    expect([...(await sourcesOf(asked('run'))).keys()]).toEqual(expect.arrayContaining(names));
    expect([...(await obtain(ofCluster, asked('run'))).keys()]).toEqual(names);
    for (const purpose of ['dryRun', 'report'] as const) {
      expect(await sourcesOf(asked(purpose))).toEqual(new Map());
      expect(await obtain(ofCluster, asked(purpose))).toEqual(new Map());
    }
  });
});

it.each(['fetch', 'request'] as const)('%s signs nothing where no pair was obtained', async (origin) => {
  const target = worker.artefacts.find(({ kind }) => kind === 'target');
  if (target === undefined) throw new Error('no target');
  const takeKey = (): Promise<never> => Promise.reject(new Error('a key was taken'));
  const from = { resolved: worker, material: new Map(), takeKey, now: systemClock.now() };
  await expect(make(target, from, origins[origin].make)).rejects.toThrow('was not obtained');
});
