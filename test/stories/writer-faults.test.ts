// Every call to the file system fails once, in every position: before it happens, and after it happened all the same.
// After each failure the readers have a whole old or new generation, no key lies in a file that others can read, and
// the next publish makes everything right.
import * as promises from 'node:fs/promises';
import { readdirSync } from 'node:fs';
import { describe, expect, test, vi } from 'vitest';
import { type Disk, realDisk } from '../../lib/disk/disk.ts';
import { publish } from '../../lib/publish/writer.ts';
import { giveBack, unpublish } from '../../lib/publish/unpublish.ts';
import {
  entriesOf,
  layoutProblems,
  newObjectPath,
  pairGeneration,
  what,
  wideFiles,
  writePlain,
} from '../publish/object-directory.ts';

vi.setConfig({ testTimeout: 120_000 }); // thousands of publishes, each with its fsyncs

const methods = [
  'chmod',
  'lstat',
  'mkdir',
  'mkdtemp',
  'open',
  'readFile',
  'readdir',
  'readlink',
  'rename',
  'rm',
  'stat',
  'symlink',
  'unlink',
] as const;
const handleMethods = new Set(['chmod', 'writeFile', 'sync', 'close']);

interface Faults {
  readonly disk: Disk;
  /** Calls until now: `rename`, `handle.sync`. */
  readonly calls: string[];
}

/** The real disk, whose `nth` call fails (counted from 0): without effect, or after it. */
function failingDisk(nth: number, afterEffect: boolean): Faults {
  const calls: string[] = [];
  const failOnce = async (name: string, call: () => Promise<unknown>): Promise<unknown> => {
    const position = calls.push(name) - 1;
    if (position !== nth) return call();
    // An open that fails gives no handle: what it opened must not stay open.
    if (afterEffect) await ((await call()) as Partial<promises.FileHandle> | undefined)?.close?.();
    throw Object.assign(new Error(`${name} failed`), { code: 'EIO', syscall: name });
  };
  const watchHandle = (handle: promises.FileHandle): promises.FileHandle =>
    new Proxy(handle, {
      get(target, property) {
        const value: unknown = Reflect.get(target, property, target);
        if (typeof value !== 'function') return value;
        const call = (...given: unknown[]): unknown => Reflect.apply(value, target, given);
        if (typeof property !== 'string' || !handleMethods.has(property)) return call;
        return async (...given: unknown[]) => {
          try {
            return await failOnce(`handle.${property}`, async () => call(...given));
          } catch (err) {
            if (property === 'close') await target.close(); // close frees the descriptor also when it fails
            throw err;
          }
        };
      },
    });
  const disk = Object.fromEntries(
    methods.map((name) => [
      name,
      async (...given: unknown[]) => {
        const call = promises[name] as (...args: unknown[]) => Promise<unknown>;
        const result = await failOnce(name, async () => call(...given));
        return name === 'open' ? watchHandle(result as promises.FileHandle) : result;
      },
    ]),
  ) as unknown as Disk;
  return { disk, calls };
}

interface Scenario {
  readonly title: string;
  readonly prepare: (directory: string) => Promise<unknown>;
  /** Generations that readers may have after a failure; `none` where nothing was there before. */
  readonly allowed: readonly string[];
}

const base = { what, mode: 0o600 as const };
const scenarios: readonly Scenario[] = [
  { title: 'the first generation', prepare: async () => undefined, allowed: ['none', '2'] },
  {
    title: 'the next generation',
    prepare: (directory) => publish({ ...base, directory, entries: entriesOf(1) }),
    allowed: ['1', '2'],
  },
  {
    title: 'a generation with other keys',
    prepare: (directory) => publish({ ...base, directory, entries: entriesOf(1, ['tls.crt', 'tls.key', 'gone']) }),
    allowed: ['1', '2'],
  },
  {
    title: 'take-over of plain files',
    prepare: async (directory) => writePlain(directory, entriesOf(1)),
    allowed: ['1', '2'],
  },
];

function generationNow(directory: string): string {
  try {
    return pairGeneration(directory);
  } catch (err) {
    if ((err as NodeJS.ErrnoException).code === 'ENOENT') return 'none';
    throw err;
  }
}

const wanted = (directory: string) => ({ ...base, directory, entries: entriesOf(2) });

describe.each(scenarios)('publish() of $title', ({ prepare, allowed }) => {
  test.each([false, true])('survives the failure of any one call (after its effect: %s)', async (afterEffect) => {
    const counted = failingDisk(-1, false);
    const first = newObjectPath();
    await prepare(first);
    await publish({ ...wanted(first), disk: counted.disk });
    expect(counted.calls.length).toBeGreaterThan(20);

    for (let nth = 0; nth < counted.calls.length; nth += 1) {
      const directory = newObjectPath();
      await prepare(directory);
      const { disk, calls } = failingDisk(nth, afterEffect);
      const outcome = await publish({ ...wanted(directory), disk }).catch((err: unknown) => err);
      const at = `call ${nth}, ${calls[nth]}`;
      if (outcome instanceof Error) {
        expect(outcome, at).toMatchObject({ code: 'WriteFailed' });
        expect(outcome.message, at).toMatch(
          /^Cannot publish Secret "a\/serving": ".+": the disk reports an I\/O error/,
        );
      }
      const generation = generationNow(directory);
      expect(allowed, at).toContain(generation);
      if (!(outcome instanceof Error)) expect(generation, at).toBe('2');
      if (generation !== 'none') expect(wideFiles(directory), at).toEqual([]);
      expect(['written', 'repaired', 'unchanged'], at).toContain(await publish(wanted(directory)));
      expect(pairGeneration(directory), at).toBe('2');
      expect(layoutProblems(directory, ['tls.crt', 'tls.key']), at).toEqual([]);
    }
  });
});

test('giveBack() keeps every path readable when any one call fails, and can be run again', async () => {
  const counted = failingDisk(-1, false);
  const first = newObjectPath();
  await publish(wanted(first));
  await giveBack({ ...base, directory: first, disk: counted.disk });
  for (let nth = 0; nth < counted.calls.length; nth += 1) {
    const directory = newObjectPath();
    await publish(wanted(directory));
    await giveBack({ ...base, directory, disk: failingDisk(nth, false).disk }).catch(() => undefined);
    expect(pairGeneration(directory), counted.calls[nth]).toBe('2');
    expect(wideFiles(directory)).toEqual([]);
    await giveBack({ ...base, directory });
    expect(pairGeneration(directory)).toBe('2');
    expect(readdirSync(directory)).toEqual(['tls.crt', 'tls.key']);
  }
});

test('unpublish() leaves all or nothing when any one call fails', async () => {
  const counted = failingDisk(-1, false);
  const first = newObjectPath();
  await publish(wanted(first));
  await unpublish({ directory: first, what, disk: counted.disk });
  for (let nth = 0; nth < counted.calls.length; nth += 1) {
    const directory = newObjectPath();
    await publish(wanted(directory));
    await unpublish({ directory, what, disk: failingDisk(nth, false).disk }).catch(() => undefined);
    expect(['2', 'none'], counted.calls[nth]).toContain(generationNow(directory));
  }
});

test.each([
  ['ENOSPC', 'no space left on the disk; free some space there, or inodes (df -i)'],
  ['EROFS', 'the file system is read-only; mount it writable'],
  [
    'EBUSY',
    'is a bind mount of its own (a single file mounted into a container), which cannot be replaced; mount its directory instead',
  ],
  ['EXDEV', 'the directory spans two file systems; mount its parent directory as one'],
  ['EACCES', 'permission denied; its mode or its owner shuts this process out, correct them (chmod, chown)'],
])('publish() says what to do after %s', async (code, hint) => {
  const directory = newObjectPath();
  await publish({ ...base, directory, entries: entriesOf(1) });
  const rename = async (): Promise<never> => {
    throw Object.assign(new Error('no'), { code, path: `${directory}/..data` });
  };
  await expect(publish({ ...wanted(directory), disk: { ...realDisk, rename } })).rejects.toMatchObject({
    code: 'WriteFailed',
    message: `Cannot publish ${what}: "${directory}/..data": ${hint} (${code}); the last good files stay in use`,
  });
  expect(pairGeneration(directory)).toBe('1');
  expect(layoutProblems(directory, ['tls.crt', 'tls.key'])).toEqual([]);
});

test('publish() tells of the same failure in the same words, whatever the generation under way was called', async () => {
  const directory = newObjectPath();
  await publish({ ...base, directory, entries: entriesOf(1) });
  for (const [call, at] of [
    ['open', 0],
    ['mkdtemp', 0],
    ['symlink', 1],
  ] as const) {
    const fails = async (...paths: readonly string[]): Promise<never> => {
      throw Object.assign(new Error('no'), { code: 'ENOSPC', path: paths[at] });
    };
    const disk = { ...realDisk, [call]: fails };
    const said: string[] = [];
    for (const _ of [1, 2])
      await publish({ ...wanted(directory), disk }).catch((err: unknown) => said.push(String(err)));
    expect(said[0], call).toMatch(/no space left on the disk/);
    expect(said[0], call).not.toContain('/..');
    expect(said[1], call).toBe(said[0]);
  }
});
