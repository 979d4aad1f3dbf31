// Modes and owners that deny this process its own files. The tests give up the rights of root, because root with all
// capabilities is refused nothing; files of somebody else are told by a disk that says so, because only root makes them.
import { chmodSync, lstatSync, readFileSync, readdirSync, readlinkSync, rmSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { realDisk, type Disk } from '../../lib/disk/disk.ts';
import { compare, prune, type Publication, publish } from '../../lib/publish/writer.ts';
import { readPublished, scan } from '../../lib/publish/scan.ts';
import { giveBack } from '../../lib/publish/unpublish.ts';
import { entriesOf, layoutProblems, newObjectPath, pairGeneration, what, writePlain } from './object-directory.ts';

const pair = ['tls.crt', 'tls.key'];
const somebody = 65_534;
const isRoot = process.geteuid?.() === 0;

beforeAll(() => {
  if (isRoot) process.seteuid?.(somebody);
});
afterAll(() => {
  if (isRoot) process.seteuid?.(0);
});

async function published(): Promise<Publication> {
  const publication: Publication = { directory: newObjectPath(), what, entries: entriesOf(1), mode: 0o600 };
  await publish(publication);
  return publication;
}

const generationOf = (directory: string): string => join(directory, readlinkSync(join(directory, '..data')));

/** A disk on which `path` belongs to another user, who lets nobody read it. */
function foreignDisk(path: string): Disk {
  const denied = async (at: unknown): Promise<void> => {
    if (at === path) throw Object.assign(new Error('denied'), { code: 'EACCES', path });
  };
  return {
    ...realDisk,
    lstat: (async (at: string) => {
      const stats = lstatSync(at);
      return at === path ? Object.assign(stats, { uid: somebody - 1 }) : stats;
    }) as unknown as Disk['lstat'],
    chmod: async (at, mode) => {
      await denied(at);
      await realDisk.chmod(at, mode);
    },
    readFile: (async (at: string) => {
      await denied(at);
      return readFileSync(at);
    }) as unknown as Disk['readFile'],
    readdir: (async (at: string, options?: { withFileTypes: true }) => {
      await denied(at);
      return options === undefined ? readdirSync(at) : readdirSync(at, options);
    }) as unknown as Disk['readdir'],
  };
}

describe('a mode that denies', () => {
  const damages: readonly [string, (directory: string) => void][] = [
    ['reading the key', (at) => chmodSync(join(at, '..data/tls.key'), 0)],
    ['reading the generation', (at) => chmodSync(join(at, '..data/'), 0)],
    ['entering the generation', (at) => chmodSync(join(at, '..data/'), 0o600)],
    ['reading the directory of the object', (at) => chmodSync(at, 0)],
    ['entering the directory of the object', (at) => chmodSync(at, 0o600)],
  ];

  test.each(damages)('%s is repaired; nothing is written again', async (_, damage) => {
    const publication = await published();
    const { directory } = publication;
    const before = generationOf(directory);
    damage(directory);
    await scan(realDisk, directory, true);
    expect(await compare(publication)).toMatchObject({ difference: 'repaired' });
    expect(await publish(publication)).toBe('repaired');
    expect(generationOf(directory)).toBe(before);
    expect(layoutProblems(directory, pair)).toEqual([]);
  });

  test.each(damages)('%s does not stop the next generation, nor prune', async (_, damage) => {
    const publication = await published();
    const { directory } = publication;
    damage(directory);
    await scan(realDisk, directory, true);
    await prune({ directory, what });
    expect(await publish({ ...publication, entries: entriesOf(2) })).toBe('written');
    expect(pairGeneration(directory)).toBe('2');
    expect(layoutProblems(directory, pair)).toEqual([]);
  });

  test('reading the key makes its content unknown: without a repair it is published again', async () => {
    const publication = await published();
    const { directory } = publication;
    chmodSync(join(directory, '..data/tls.key'), 0);
    expect(await prune({ directory, what })).toBe(0);
    expect(Object.keys((await readPublished({ directory, what })) ?? {})).toEqual(['tls.crt']);
    expect((await compare(publication)).difference).toBe('written');
    expect(await publish(publication)).toBe('written');
    expect(layoutProblems(directory, pair)).toEqual([]);
  });

  test('reading the key stops giveBack(), which would make an empty file of it', async () => {
    const { directory } = await published();
    chmodSync(join(directory, '..data/tls.key'), 0);
    await expect(giveBack({ directory, what, mode: 0o600 })).rejects.toMatchObject({
      code: 'WriteFailed',
      message: expect.stringContaining('tls.key": permission denied; its mode or its owner shuts') as string,
    });
    expect(readlinkSync(join(directory, 'tls.key'))).toBe('..data/tls.key');
  });

  test('reading a plain file of an earlier tool does not stop its take-over', async () => {
    const directory = newObjectPath();
    writePlain(directory, entriesOf(1));
    chmodSync(join(directory, 'tls.key'), 0);
    await scan(realDisk, directory, true);
    expect(await publish({ directory, what, entries: entriesOf(2), mode: 0o600 })).toBe('written');
    expect(layoutProblems(directory, pair)).toEqual([]);
  });
});

/** A disk from which somebody takes `directory` away just before one of the calls. */
function vanishing(directory: string, { beforeCall }: { readonly beforeCall: number }): { disk: Disk; calls: number } {
  const counted = { disk: realDisk, calls: 0 };
  const entries = Object.entries(realDisk).map(([name, call]) => [
    name,
    (...args: unknown[]) => {
      if (counted.calls === beforeCall) rmSync(directory, { recursive: true });
      counted.calls += 1;
      return (call as (...all: unknown[]) => unknown)(...args);
    },
  ]);
  counted.disk = Object.fromEntries(entries) as Disk;
  return counted;
}

test('whoever removes the directory while it is looked at leaves nothing to open, and no failure', async () => {
  for (let beforeCall = 0; ; beforeCall += 1) {
    const { directory } = await published();
    const counted = vanishing(directory, { beforeCall });
    await scan(counted.disk, directory, true);
    expect(await compare({ directory, what, entries: entriesOf(1), mode: 0o600 })).toBeDefined();
    if (counted.calls <= beforeCall) {
      expect(beforeCall).toBeGreaterThan(5);
      return;
    }
  }
});

describe('what belongs to somebody else', () => {
  test.each(['tls.key', '.'])('"%s" in the generation makes it be replaced', async (name) => {
    const publication = await published();
    const { directory } = publication;
    const before = generationOf(directory);
    const disk = foreignDisk(join(before, name));
    await scan(disk, directory, true);
    expect(await prune({ directory, what, disk })).toBe(0);
    expect((await compare({ ...publication, disk })).difference).toBe('written');
    expect(await publish({ ...publication, disk })).toBe('written');
    expect(generationOf(directory)).not.toBe(before);
    expect(layoutProblems(directory, pair)).toEqual([]);
    expect(await publish({ ...publication, disk })).toBe('unchanged');
  });

  test.each(['tls.crt', '.'])('may be readable ("%s"): what it says now is not what it says later', async (name) => {
    const publication = await published();
    const before = generationOf(publication.directory);
    const { lstat } = foreignDisk(join(before, name));
    expect(await publish({ ...publication, disk: { ...realDisk, lstat } })).toBe('written');
    expect(generationOf(publication.directory)).not.toBe(before);
  });
});

test.each([
  ['in the generation', '..data/tls.key', published],
  [
    'of an earlier tool',
    'tls.key',
    async () => {
      const directory = newObjectPath();
      writePlain(directory, entriesOf(1));
      return { directory, what, entries: entriesOf(1), mode: 0o600 } as const;
    },
  ],
])('a file %s that is far too large is replaced, and not read', async (_, name, prepare) => {
  const publication = await prepare();
  const { directory } = publication;
  const path = join(directory, name);
  truncateSync(path, 1024 ** 3);
  const readFile = (async (at: string) => {
    expect(lstatSync(at).size).toBeLessThan(10_000);
    return readFileSync(at);
  }) as unknown as Disk['readFile'];
  const disk = { ...realDisk, readFile };
  expect(await prune({ directory, what, disk })).toBe(0);
  expect((await compare({ ...publication, disk })).difference).toBe('written');
  expect(await publish({ ...publication, disk })).toBe('written');
  expect(layoutProblems(directory, pair)).toEqual([]);
});
