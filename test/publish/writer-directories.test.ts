// A directory where a link or a file belongs: a copy that follows links makes one of `..data`, a container runtime makes an
// empty one in place of a file that it is to mount. Below the object's directory it is taken over as any foreign state.
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { type Disk, realDisk } from '../../lib/disk/disk.ts';
import { readPublished } from '../../lib/publish/scan.ts';
import { giveBack } from '../../lib/publish/unpublish.ts';
import { compare, prune, type Publication, publish } from '../../lib/publish/writer.ts';
import { entriesOf, layoutProblems, newObjectPath, pairGeneration, what } from './object-directory.ts';

const pair = ['tls.crt', 'tls.key'];

function publicationOf(directory: string, generation: number): Publication {
  return { directory, what, entries: entriesOf(generation), mode: 0o600 };
}

/** Published as generation 1, then put back by a copy that follows every link, or only those to directories. */
async function copied(follows: 'all' | 'directories'): Promise<string> {
  const original = newObjectPath();
  await publish(publicationOf(original, 1));
  const directory = newObjectPath();
  mkdirSync(directory, { recursive: true });
  copyFollowing(original, directory);
  if (follows === 'directories') {
    for (const key of pair) {
      unlinkSync(join(directory, key));
      symlinkSync(`..data/${key}`, join(directory, key));
    }
  }
  expect(lstatSync(join(directory, '..data')).isDirectory()).toBe(true);
  return directory;
}

/** As `cp -rL`. */
function copyFollowing(from: string, to: string): void {
  for (const name of readdirSync(from)) {
    const [source, target] = [join(from, name), join(to, name)];
    if (!statSync(source).isDirectory()) writeFileSync(target, readFileSync(source), { mode: 0o600 });
    else {
      mkdirSync(target);
      copyFollowing(source, target);
    }
  }
}

/** The real disk, which looks after every call that changes a name whether readers have a whole pair. */
function watched(directory: string, seen: string[]): Disk {
  const look =
    <A extends unknown[]>(call: (...args: A) => Promise<void>) =>
    async (...args: A): Promise<void> => {
      await call(...args);
      seen.push(pairGeneration(directory));
    };
  return {
    ...realDisk,
    rename: look(realDisk.rename),
    rm: look(realDisk.rm as (...args: unknown[]) => Promise<void>) as Disk['rm'],
    unlink: look(realDisk.unlink),
  };
}

describe.each(['all', 'directories'] as const)(
  'publish() where `..data` is a directory, a copy that followed links to %s,',
  (follows) => {
    test('takes it over, and no path is ever absent', async () => {
      const directory = await copied(follows);
      const seen: string[] = [];
      expect(await publish({ ...publicationOf(directory, 2), disk: watched(directory, seen) })).toBe('written');
      expect(seen.join('')).toMatch(/^1+2+$/);
      expect(layoutProblems(directory, pair)).toEqual([]);
      expect(pairGeneration(directory)).toBe('2');
    });

    test('makes the layout right where the content is', async () => {
      const directory = await copied(follows);
      const publication = publicationOf(directory, 1);
      expect(await readPublished(publication)).toEqual(publication.entries);
      expect((await compare(publication)).published).toEqual(publication.entries);
      await publish(publication);
      expect(layoutProblems(directory, pair)).toEqual([]);
      expect(await publish(publication)).toBe('unchanged');
    });

    test('gives plain files back', async () => {
      const directory = await copied(follows);
      await giveBack({ directory, what, mode: 0o600 });
      expect(pairGeneration(directory)).toBe('1');
      expect(readdirSync(directory).toSorted()).toEqual(pair);
      expect(lstatSync(join(directory, 'tls.key')).isFile()).toBe(true);
    });

    test('goes on after a kill at any call that changes a name', async () => {
      for (let left = 0; ; left += 1) {
        const directory = await copied(follows);
        const dies = killedAfter(left);
        const isOver = await publish({ ...publicationOf(directory, 2), disk: dies }).then(
          () => true,
          () => false,
        );
        expect(['1', '2']).toContain(pairGeneration(directory));
        await prune({ directory, what });
        expect(['1', '2']).toContain(pairGeneration(directory));
        await publish(publicationOf(directory, 2));
        expect(layoutProblems(directory, pair)).toEqual([]);
        expect(pairGeneration(directory)).toBe('2');
        if (isOver) return;
      }
    });
  },
);

/** A disk on which nothing changes any more after `left` changes of names. */
function killedAfter(left: number): Disk {
  let changes = 0;
  const live =
    <A extends unknown[], R>(call: (...args: A) => Promise<R>) =>
    async (...args: A): Promise<R> => {
      changes += 1;
      if (changes > left) throw Object.assign(new Error('killed'), { code: 'EIO' });
      return call(...args);
    };
  const names = ['mkdir', 'mkdtemp', 'rename', 'rm', 'symlink', 'unlink'] as const;
  const calls = names.map((name) => [name, live(realDisk[name] as (...args: unknown[]) => Promise<unknown>)]);
  return { ...realDisk, ...(Object.fromEntries(calls) as Partial<Disk>) };
}

describe('publish() where a key has the name of a directory', () => {
  const withCa = [...pair, 'ca.crt'];

  test.each<readonly [string, (path: string) => void]>([
    ['an empty one', () => undefined],
    ['one with files', (path) => writeFileSync(join(path, 'of-somebody'), 'x')],
    ['one that holds a link', (path) => symlinkSync('/etc', join(path, 'elsewhere'))],
  ])('takes %s over', async (_, fill) => {
    const directory = newObjectPath();
    await publish(publicationOf(directory, 1));
    const path = join(directory, 'ca.crt');
    mkdirSync(path);
    fill(path);
    const publication = { ...publicationOf(directory, 2), entries: entriesOf(2, withCa) };
    expect((await compare(publication)).difference).toBe('written');
    expect(await publish(publication)).toBe('written');
    expect(layoutProblems(directory, withCa)).toEqual([]);
    expect(existsSync('/etc/hostname')).toBe(true);
  });

  test('puts the link in place of a directory where the content in use is right', async () => {
    const directory = newObjectPath();
    const publication = publicationOf(directory, 1);
    await publish(publication);
    unlinkSync(join(directory, 'tls.key'));
    mkdirSync(join(directory, 'tls.key'));
    expect((await compare(publication)).difference).toBe('repaired');
    expect(await publish(publication)).toBe('repaired');
    expect(layoutProblems(directory, pair)).toEqual([]);
  });

  test('leaves directories alone that no key is named for, and what links lead to', async () => {
    const [directory, elsewhere] = [newObjectPath(), join(newObjectPath(), 'elsewhere')];
    mkdirSync(elsewhere, { recursive: true });
    writeFileSync(join(elsewhere, 'kept'), 'x');
    await publish(publicationOf(directory, 1));
    mkdirSync(join(directory, 'of-somebody'));
    renameSync(join(directory, 'tls.key'), join(directory, '..moved'));
    symlinkSync(elsewhere, join(directory, 'tls.key'));
    await publish(publicationOf(directory, 2));
    expect(readdirSync(directory)).toContain('of-somebody');
    expect(readFileSync(join(elsewhere, 'kept'), 'utf8')).toBe('x');
    expect(pairGeneration(directory)).toBe('2');
  });
});
