// Real files and links below a directory that only root, or who runs this, may write.
import { chmod, chown, lchown, mkdir, mkdtemp, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openPlaces, requireClosed } from '../../lib/host/closed-path.ts';

const isRoot = process.getuid?.() === 0;
let root: string;
let file: string;
beforeEach(async () => {
  root = await mkdtemp(join(isRoot ? tmpdir() : await realpath(homedir()), 'closed-path-'));
  await mkdir(join(root, 'a/b'), { recursive: true, mode: 0o755 });
  file = join(root, 'a/b/config.yaml');
  await writeFile(file, '', { mode: 0o644 });
});
afterEach(() => rm(root, { recursive: true, force: true }));

/** A link to the file, in a directory of its own, by way of another link. */
async function linked(): Promise<string> {
  for (const name of ['home', 'way']) await mkdir(join(root, name));
  await symlink('../a', join(root, 'way/a'));
  await symlink(join(root, 'way/a/b/config.yaml'), join(root, 'home/link'));
  return join(root, 'home/link');
}

describe('openPlaces()', () => {
  it("finds nothing where all is root's, whatever links lead there, and of what is not there", async () => {
    expect(openPlaces(file, await linked(), join(root, 'none/file'), '/dev/stdin')).toEqual([]);
  });

  it.each<[string, number, string]>([
    ['a/b/config.yaml', 0o646, 'everybody may write'],
    ['a/b/config.yaml', 0o664, 'may write'],
    ['a/b', 0o777, 'everybody may write'],
    ['a', 0o775, 'may write'],
    ['home', 0o777, 'everybody may write'],
    ['way', 0o777, 'everybody may write'],
  ])('names %s with mode %o, its owner and its mode, by a link as well', async (place, mode, why) => {
    const link = await linked();
    if (isRoot && (mode & 0o022) === 0o020) await chown(join(root, place), 0, 4712);
    await chmod(join(root, place), mode);
    const [found = '', ...others] = openPlaces(link);
    expect(others).toEqual([]);
    expect(found).toContain(`${why} "${join(root, place)}" (owner ${process.getuid?.()}:`);
    expect(found).toContain(`, mode ${mode.toString(8).padStart(4, '0')})`);
  });

  it('finds nothing in a sticky directory, as /tmp is, but what lies there and is of another user', async () => {
    await chmod(join(root, 'a'), 0o1777);
    expect(openPlaces(file)).toEqual([]);
    await chmod(join(root, 'a/b'), 0o777);
    expect(openPlaces(file)).toEqual([expect.stringContaining(`"${join(root, 'a/b')}"`)]);
  });

  it('names what its group may write, whichever that is: an ACL shows its mask there', async () => {
    for (const place of [file, join(root, 'a')]) {
      await chmod(place, 0o775);
      expect(openPlaces(file)).toEqual([expect.stringContaining(`may write "${place}"`)]);
      await chmod(place, 0o755);
    }
  });

  it('names what a group may make where it is not there', async () => {
    await chmod(join(root, 'a'), 0o1775);
    const absent = join(root, 'a/none');
    expect(openPlaces(absent)).toEqual([expect.stringContaining(`may make "${absent}", which is not there`)]);
  });

  it('names what anybody may make where it is not there', async () => {
    await chmod(join(root, 'a'), 0o1777);
    const absent = join(root, 'a/none');
    expect(openPlaces(absent)).toEqual([`everybody may make "${absent}", which is not there`]);
    expect(openPlaces(join(root, 'a/b/none'), join(root, 'none/file'))).toEqual([]);
  });

  // Takes root, as the next.
  it.skipIf(!isRoot && process.env['CI'] !== 'true')('names a link of another user, wherever it leads', async () => {
    await chmod(join(root, 'a'), 0o1777);
    await symlink(file, join(root, 'a/link'));
    await lchown(join(root, 'a/link'), 4711, 4711);
    expect(openPlaces(join(root, 'a/link'))).toEqual([
      expect.stringContaining(`"${join(root, 'a/link')}" belongs to user 4711`),
    ]);
  });

  it('ends with links that lead to each other', async () => {
    for (const [name, to] of [
      ['x', 'y'],
      ['y', 'x'],
    ] as const)
      await symlink(to, join(root, name));
    expect(openPlaces(join(root, 'x'))).toEqual([]);
  });

  // Takes root; where that cannot be had it is skipped, except where CI=true.
  it.skipIf(!isRoot && process.env['CI'] !== 'true').each(['a/b/config.yaml', 'a', 'way'])(
    'names the owner of %s',
    async (place) => {
      const link = await linked();
      await chown(join(root, place), 4711, 4712);
      expect(openPlaces(link)).toEqual([
        expect.stringContaining(`"${join(root, place)}" belongs to user 4711 (owner 4711:4712, mode 0`),
      ]);
    },
  );
});

it.skipIf(!isRoot && process.env['CI'] !== 'true')('requireClosed() says what is open and what to do', async () => {
  const asked = { code: 'ConfigInvalid', cannot: 'Cannot take it' } as const;
  requireClosed(file, asked);
  await chmod(file, 0o666);
  const told = `Cannot take it: root goes by it, and everybody may write "${file}" (owner 0:0, mode 0666); give it to root`;
  expect(() => requireClosed(file, asked)).toThrow(told);
  expect(() => requireClosed(file, asked)).toThrow(expect.objectContaining({ code: 'ConfigInvalid' }));
});
