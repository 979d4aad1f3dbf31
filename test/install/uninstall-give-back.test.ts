import { lstatSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { giveBackFiles } from '../../lib/install/uninstall.ts';
import type { ResolvedArtefact } from '../../lib/inventory/model.ts';
import { publish } from '../../lib/publish/writer.ts';

let destinationDir: string;
beforeEach(() => {
  destinationDir = mkdtempSync(join(tmpdir(), 'give-back-'));
});
afterEach(() => rmSync(destinationDir, { recursive: true }));

const opaque = (kind: 'secret' | 'configMap', name: string): ResolvedArtefact => ({
  kind: 'opaque',
  name,
  location: { kind, namespace: 'n', name },
  published: 'required',
  readers: [],
});
const resolved = {
  name: 'test',
  artefacts: [opaque('secret', 'a'), opaque('configMap', 'b'), opaque('secret', 'never')],
};

it('giveBackFiles() leaves plain files of the same bytes and modes, and finds nothing the second time', async () => {
  const directories = { secret: join(destinationDir, 'secrets/a'), configMap: join(destinationDir, 'configmaps/b') };
  const entries = { token: Buffer.from('one') };
  await publish({ directory: directories.secret, what: 'Secret "n/a"', mode: 0o600, entries });
  await publish({ directory: directories.configMap, what: 'ConfigMap "n/b"', mode: 0o644, entries });
  const all = Object.values(directories);

  expect(await giveBackFiles({ resolved, destinationDir, dryRun: true })).toEqual(all);
  for (const directory of all) expect(lstatSync(join(directory, 'token')).isSymbolicLink()).toBe(true);

  expect(await giveBackFiles({ resolved, destinationDir })).toEqual(all);
  for (const directory of all) {
    expect(readdirSync(directory)).toEqual(['token']);
    expect(lstatSync(join(directory, 'token')).isFile()).toBe(true);
    expect(readFileSync(join(directory, 'token'), 'utf8')).toBe('one');
  }
  expect(lstatSync(join(directories.secret, 'token')).mode & 0o777).toBe(0o600);
  expect(lstatSync(join(directories.configMap, 'token')).mode & 0o777).toBe(0o644);
  expect(await giveBackFiles({ resolved, destinationDir })).toEqual([]);
});

it('giveBackFiles() goes on where it cannot look at one', async () => {
  const directory = join(destinationDir, 'configmaps/b');
  await publish({ directory, what: 'ConfigMap "n/b"', mode: 0o644, entries: { token: Buffer.from('one') } });
  writeFileSync(join(destinationDir, 'secrets'), 'a file where a directory belongs');
  expect(await giveBackFiles({ resolved, destinationDir })).toEqual([directory]);
});
