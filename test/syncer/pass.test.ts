// One pass over one object while nobody listens where the API server should be: files that are gone come back from what
// the watch has said, and nothing that is there is touched.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { openConnection } from '../../lib/kube/connection.ts';
import type { KubeConnection } from '../../lib/kube/kube.ts';
import { realDisk } from '../../lib/disk/disk.ts';
import { scan } from '../../lib/publish/scan.ts';
import { publish } from '../../lib/publish/writer.ts';
import { type KnownContent, remember } from '../../lib/syncer/known-content.ts';
import { type SyncedObject, syncedObjects } from '../../lib/syncer/synced-objects.ts';
import { syncObject } from '../../lib/syncer/pass.ts';
import { createAuthority, type Pair } from '../support/certificates/certificates.ts';
import { writeKubeconfig } from '../support/certificates/kubeconfig.ts';

const signal = new AbortController().signal;
let directory: string;
let connection: KubeConnection;
let pair: Pair;
let object: SyncedObject;
let known: KnownContent;

beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'sync-object-'));
  pair = await createAuthority(join(directory, 'ca'), { commonName: 'ca' });
  // Nobody listens on port 1.
  const access = { server: 'https://127.0.0.1:1', certificateAuthority: pair.cert, token: 't' };
  const kubeconfigFile = await writeKubeconfig(join(directory, 'kubeconfig'), access);
  connection = await openConnection({ kubeconfigFile, clock: systemClock, userAgent: 'test' });
  const location = { kind: 'secret', namespace: 'n', name: 'serving' } as const;
  const artefact = { kind: 'opaque', name: 'serving', location, published: 'required', readers: [] } as const;
  object = syncedObjects({ name: 'test', artefacts: [artefact] }, join(directory, 'certs'))[0] as SyncedObject;
  known = remember({ version: '7', entries: content(), keys: Object.keys(content()) });
  await publish({ directory: object.directory, what: object.what, entries: content(), mode: object.mode });
});
afterEach(async () => {
  await connection.close();
  rmSync(directory, { recursive: true });
});

const content = () => ({ 'tls.crt': readFileSync(pair.cert), 'tls.key': readFileSync(pair.key) });
const onDisk = () =>
  Object.fromEntries(
    readdirSync(object.directory)
      .filter((name) => !name.startsWith('..'))
      .map((name) => [name, readFileSync(join(object.directory, name))]),
  );
const pass = async (published: string | undefined = '7') => {
  const scanned = await scan(realDisk, object.directory);
  const context = { connection, clock: systemClock, dryRun: false, signal, hold: () => Promise.resolve() };
  return syncObject({ ...context, object, scanned, suggested: { version: '7' }, known, published });
};

describe('syncObject() while the API is away', () => {
  it.each([
    ['the whole directory', () => rmSync(object.directory, { recursive: true })],
    ['one file', () => rmSync(join(object.directory, 'tls.key'))],
    ['the content of one file', () => rmSync(join(object.directory, '..data/tls.crt'))],
  ])('puts %s back from memory', async (_, remove) => {
    remove();
    expect(await pass()).toMatchObject({ action: 'write' });
    expect(onDisk()).toEqual(content());
  });

  it('leaves a file alone that holds something else', async () => {
    rmSync(join(object.directory, 'tls.key'));
    writeFileSync(join(object.directory, 'tls.key'), 'by hand');
    await expect(pass()).rejects.toMatchObject({ code: 'KubeUnavailable' });
    expect(onDisk()['tls.key']?.toString()).toBe('by hand');
  });

  it('leaves a file alone that it does not know', async () => {
    rmSync(join(object.directory, 'tls.key'));
    writeFileSync(join(object.directory, 'ours.pem'), 'by hand');
    await expect(pass()).rejects.toMatchObject({ code: 'KubeUnavailable' });
    expect(onDisk()['ours.pem']?.toString()).toBe('by hand');
  });

  it.each(['', '6'])('writes nothing that was not in step before (version "%s")', async (published) => {
    rmSync(object.directory, { recursive: true });
    await expect(pass(published)).rejects.toMatchObject({ code: 'KubeUnavailable' });
  });
});
