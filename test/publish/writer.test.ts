import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { type Disk, realDisk } from '../../lib/disk/disk.ts';
import { compare, prune, type Publication, publish } from '../../lib/publish/writer.ts';
import { readPublished, scan } from '../../lib/publish/scan.ts';
import { pruneRemoved, unpublish } from '../../lib/publish/unpublish.ts';
import { entriesOf, generationAt, layoutProblems, newObjectPath, pairGeneration, what } from './object-directory.ts';

const pair = ['tls.crt', 'tls.key'];

function publicationOf(directory = newObjectPath(), generation: number | string = 1): Publication {
  return { directory, what, entries: entriesOf(generation), mode: 0o600, now: () => new Date('2026-11-20T08:30:00Z') };
}

/** An object published once, as generation 1. */
async function published(): Promise<Publication> {
  const publication = publicationOf();
  expect(await publish(publication)).toBe('written');
  return publication;
}

describe('publish()', () => {
  test('makes the directories, the generation and the links', async () => {
    const { directory } = await published();
    expect(layoutProblems(directory, pair)).toEqual([]);
    expect(pairGeneration(directory)).toBe('1');
    expect(readlinkSync(join(directory, '..data'))).toMatch(/^\.\.2026_11_20_08_30_00\.\w{6}$/);
    expect(statSync(join(directory, '..')).mode & 0o777).toBe(0o755);
  });

  test('gives files of ConfigMaps 0644 also under a narrow umask', async () => {
    const before = process.umask(0o077);
    try {
      const directory = newObjectPath();
      await publish({ ...publicationOf(directory), mode: 0o644 });
      expect(layoutProblems(directory, pair, 0o644)).toEqual([]);
    } finally {
      process.umask(before);
    }
  });

  test('writes nothing when bytes, modes and links are what they must be', async () => {
    const publication = await published();
    const { directory } = publication;
    const before = [readdirSync(directory), statSync(directory).mtimeMs, lstatSync(join(directory, '..data')).ino];
    expect((await compare(publication)).difference).toBe('unchanged');
    expect(await publish(publication)).toBe('unchanged');
    expect([readdirSync(directory), statSync(directory).mtimeMs, lstatSync(join(directory, '..data')).ino]).toEqual(
      before,
    );
  });

  test('replaces the generation and removes the superseded one', async () => {
    const publication = await published();
    const old = readlinkSync(join(publication.directory, '..data'));
    const next = { ...publication, entries: entriesOf(2) };
    expect(await compare(next)).toEqual({ difference: 'written', published: publication.entries });
    expect(await publish(next)).toBe('written');
    expect(pairGeneration(publication.directory)).toBe('2');
    expect(existsSync(join(publication.directory, old))).toBe(false);
    expect(layoutProblems(publication.directory, pair)).toEqual([]);
  });

  test('adds keys and takes away keys', async () => {
    const publication = await published();
    await publish({ ...publication, entries: entriesOf(2, [...pair, 'ca.crt']) });
    expect(layoutProblems(publication.directory, [...pair, 'ca.crt'])).toEqual([]);
    expect(generationAt(publication.directory, 'ca.crt')).toBe('2');
    await publish({ ...publication, entries: entriesOf(3) });
    expect(layoutProblems(publication.directory, pair)).toEqual([]);
  });

  test.each<[string, (directory: string) => void]>([
    ['a file mode that is too wide', (at) => chmodSync(join(at, 'tls.key'), 0o644)],
    ['a file mode that is too narrow', (at) => chmodSync(join(at, 'tls.crt'), 0o400)],
    ['the mode of the directory', (at) => chmodSync(at, 0o700)],
    ['the mode of the generation', (at) => chmodSync(join(at, '..data/'), 0o700)],
    ['a missing link', (at) => unlinkSync(join(at, 'tls.key'))],
    ['a stray file', (at) => writeFileSync(join(at, 'tls.key.bak'), 'x')],
    ['a stray link', (at) => symlinkSync('..data/gone', join(at, 'gone'))],
    [
      'a link that leads nowhere',
      (at) => {
        unlinkSync(join(at, 'tls.key'));
        symlinkSync('/nowhere/tls.key', join(at, 'tls.key'));
      },
    ],
    ['an orphan generation', (at) => mkdirSync(join(at, '..2020_01_01_00_00_00.abcdef'))],
    ['a stale temporary link', (at) => symlinkSync('..gone', join(at, '..data_tmp'))],
    [
      'a plain file of the same bytes in place of a link',
      (at) => {
        const bytes = readFileSync(join(at, 'tls.key'));
        unlinkSync(join(at, 'tls.key'));
        writeFileSync(join(at, 'tls.key'), bytes);
      },
    ],
  ])('repairs %s', async (_, damage) => {
    const publication = await published();
    damage(publication.directory);
    expect((await compare(publication)).difference).toBe('repaired');
    expect(await publish(publication)).toBe('repaired');
    expect(layoutProblems(publication.directory, pair)).toEqual([]);
    expect(pairGeneration(publication.directory)).toBe('1');
    expect(await publish(publication)).toBe('unchanged');
  });

  test.each<[string, (directory: string) => void]>([
    ['changed bytes', (at) => writeFileSync(join(at, 'tls.key'), 'x')],
    ['an emptied file', (at) => writeFileSync(join(at, 'tls.crt'), '')],
    ['a file that is gone', (at) => rmSync(join(at, '..data', 'tls.key'))],
    ['a stray file in the generation', (at) => writeFileSync(join(at, '..data', 'more'), 'x')],
    ['`..data` gone', (at) => unlinkSync(join(at, '..data'))],
    [
      '`..data` leading nowhere',
      (at) => {
        unlinkSync(join(at, '..data'));
        symlinkSync('..gone', join(at, '..data'));
      },
    ],
    [
      '`..data` leading out of the directory',
      (at) => {
        unlinkSync(join(at, '..data'));
        symlinkSync('/etc', join(at, '..data'));
      },
    ],
    [
      'other bytes as a plain file in place of a link',
      (at) => {
        unlinkSync(join(at, 'tls.key'));
        writeFileSync(join(at, 'tls.key'), 'x');
      },
    ],
  ])('writes again after %s', async (_, damage) => {
    const publication = await published();
    damage(publication.directory);
    expect(await publish(publication)).toBe('written');
    expect(layoutProblems(publication.directory, pair)).toEqual([]);
    expect(pairGeneration(publication.directory)).toBe('1');
  });

  test.each(['..', '../escape', '/etc/escape', 'a/b', '', '..data', 'a\0b'])(
    'refuses the key %j and keeps the files',
    async (key) => {
      const publication = await published();
      const entries = { ...entriesOf(2), [key]: Buffer.from('x') };
      await expect(publish({ ...publication, entries })).rejects.toMatchObject({
        code: 'MaterialInvalid',
        message: expect.stringContaining(`Cannot publish ${what}: the key ${JSON.stringify(key)} `),
      });
      expect(pairGeneration(publication.directory)).toBe('1');
      expect(layoutProblems(publication.directory, pair)).toEqual([]);
    },
  );
});

describe('publish() of a directory that was scanned before', () => {
  test('does not believe the scan where only modes would be repaired: bytes may have been changed in place', async () => {
    const publication = await published();
    const key = join(publication.directory, 'tls.key');
    chmodSync(key, 0o644);
    const scanned = await scan(realDisk, publication.directory);
    writeFileSync(key, 'changed in place');
    expect(await publish(publication, scanned)).toBe('written');
    expect(pairGeneration(publication.directory)).toBe('1');
  });

  test('does not read it again', async () => {
    const publication = await published();
    const scanned = await scan(realDisk, publication.directory);
    const read = (): never => {
      throw new Error('read again');
    };
    const disk = { ...realDisk, readdir: read as unknown as Disk['readdir'], readFile: read as Disk['readFile'] };
    expect(await publish({ ...publication, entries: entriesOf(2), disk }, scanned)).toBe('written');
    expect(layoutProblems(publication.directory, pair)).toEqual([]);
    expect(pairGeneration(publication.directory)).toBe('2');
  });

  test('reads it again when names have changed since, and takes over what has come', async () => {
    const publication = await published();
    const { directory } = publication;
    await delay(20); // changes within one tick of the kernel's clock look like one
    const scanned = await scan(realDisk, directory);
    const old = readFileSync(join(directory, 'tls.key'));
    unlinkSync(join(directory, 'tls.key'));
    writeFileSync(join(directory, 'tls.key'), old, { mode: 0o600 });
    writeFileSync(join(directory, 'stray'), 'x');
    const seen = new Set<string>();
    const rename: typeof realDisk.rename = async (from, to) => {
      await realDisk.rename(from, to);
      seen.add(`${generationAt(directory, 'tls.crt')}/${generationAt(directory, 'tls.key')}`);
    };
    const disk = { ...realDisk, rename };
    expect(await publish({ ...publication, entries: entriesOf(2), disk }, scanned)).toBe('written');
    expect([...seen]).toEqual(['1/1', '2/2']);
    expect(layoutProblems(directory, pair)).toEqual([]);
  });

  test('reads it again when it has gone since', async () => {
    const publication = await published();
    const scanned = await scan(realDisk, publication.directory);
    rmSync(publication.directory, { recursive: true });
    expect(await publish(publication, scanned)).toBe('written');
    expect(layoutProblems(publication.directory, pair)).toEqual([]);
  });
});

describe('readPublished()', () => {
  test('gives the entries that readers see', async () => {
    const publication = await published();
    expect(await readPublished(publication)).toEqual(publication.entries);
  });

  test('gives nothing for a directory that is not there', async () => {
    expect(await readPublished({ directory: newObjectPath(), what })).toBeUndefined();
  });
});

describe('prune()', () => {
  test('removes what a crash left, and nothing that is in use', async () => {
    const { directory } = await published();
    mkdirSync(join(directory, '..2020_01_01_00_00_00.abcdef'));
    writeFileSync(join(directory, '..2020_01_01_00_00_00.abcdef', 'tls.key'), 'half', { mode: 0o600 });
    symlinkSync('..gone', join(directory, '..link.0011'));
    expect(await prune({ directory, what })).toBe(2);
    expect(layoutProblems(directory, pair)).toEqual([]);
    expect(await prune({ directory, what })).toBe(0);
  });

  test('keeps generations while `..data` is gone: one of them may be the last good state', async () => {
    const { directory } = await published();
    unlinkSync(join(directory, '..data'));
    expect(await prune({ directory, what })).toBe(0);
    expect(readdirSync(directory)).toHaveLength(3);
  });
});

describe('unpublish()', () => {
  test('removes the object and leaves its neighbours', async () => {
    const { directory } = await published();
    const neighbour = { ...publicationOf(join(directory, '..', 'other')) };
    await publish(neighbour);
    expect(await unpublish({ directory, what })).toBe('removed');
    expect(readdirSync(join(directory, '..'))).toEqual(['other']);
    expect(await unpublish({ directory, what })).toBe('absent');
  });

  test('pruneRemoved() ends what was interrupted', async () => {
    const { directory } = await published();
    const parent = join(directory, '..');
    mkdirSync(join(parent, '..removed.0011'));
    writeFileSync(join(parent, '..removed.0011', 'tls.key'), 'x');
    await pruneRemoved({ directory: parent, what: 'the destination' });
    expect(readdirSync(parent)).toEqual(['serving']);
  });
});
