// The observer on the real file system. Unless a test says otherwise no rescan comes to its help: a change that is not
// hinted at leaves the test waiting until it fails.
import * as fs from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { publish } from '../../lib/publish/writer.ts';
import type { Hints } from '../../lib/fileobserver/hints.ts';
import { realDisk } from '../../lib/disk/disk.ts';
import { hurried, Observation, TemporaryDirectory, sha256, soon } from '../fileobserver/observation.ts';

const operations = 20;

interface Layout {
  /** Makes the first content and returns the file to observe. */
  readonly prepare: (root: string) => string;
  /** Makes the file have this content. */
  readonly operate: (file: string, content: string) => void | Promise<void>;
}

function plain(root: string): string {
  const file = join(root, 'd', 'tls.crt');
  fs.mkdirSync(dirname(file));
  fs.writeFileSync(file, 'first');
  return file;
}

function newGeneration(directory: string, content: string): string {
  const generation = fs.mkdtempSync(join(directory, '..generation-'));
  fs.writeFileSync(join(generation, 'tls.crt'), content);
  return basename(generation);
}

function prepareFlip(root: string): string {
  const directory = join(root, 'secrets', 'serving');
  fs.mkdirSync(directory, { recursive: true });
  fs.symlinkSync(newGeneration(directory, 'first'), join(directory, '..data'));
  fs.symlinkSync('..data/tls.crt', join(directory, 'tls.crt'));
  return join(directory, 'tls.crt');
}

/** As kubernetes pkg/volume/util/atomic_writer.go does it. */
function flip(file: string, content: string, old: 'deleted' | 'kept'): void {
  const directory = dirname(file);
  const superseded = fs.readlinkSync(join(directory, '..data'));
  fs.symlinkSync(newGeneration(directory, content), join(directory, '..data_tmp'));
  fs.renameSync(join(directory, '..data_tmp'), join(directory, '..data'));
  if (old === 'deleted') fs.rmSync(join(directory, superseded), { recursive: true });
}

function replaceByRename(file: string, content: string): void {
  fs.writeFileSync(`${file}.new`, content);
  fs.renameSync(`${file}.new`, file);
}

const layouts: Record<string, Layout> = {
  'a write in place': { prepare: plain, operate: (file, content) => fs.writeFileSync(file, content) },
  'a rename over the file': { prepare: plain, operate: replaceByRename },
  'a rename over the file with the same size and modification time': {
    prepare: plain,
    operate: (file, content) => {
      fs.writeFileSync(`${file}.new`, content.padEnd(40));
      fs.utimesSync(`${file}.new`, 1_700_000_000, 1_700_000_000);
      fs.renameSync(`${file}.new`, file);
    },
  },
  'a deletion and a new file at once': {
    prepare: plain,
    operate: (file, content) => {
      fs.rmSync(file);
      fs.writeFileSync(file, content);
    },
  },
  'a deletion and a new file a little later': {
    prepare: plain,
    operate: async (file, content) => {
      fs.rmSync(file);
      await delay(10);
      fs.writeFileSync(file, content);
    },
  },
  'its directory deleted and made again': {
    prepare: plain,
    operate: (file, content) => {
      fs.rmSync(dirname(file), { recursive: true });
      fs.mkdirSync(dirname(file));
      fs.writeFileSync(file, content);
    },
  },
  'its directory renamed away and a new one renamed in': {
    prepare: plain,
    operate: (file, content) => {
      const fresh = fs.mkdtempSync(join(file, '..', '..', 'fresh-'));
      fs.writeFileSync(join(fresh, 'tls.crt'), content);
      fs.renameSync(dirname(file), `${fresh}-old`);
      fs.renameSync(fresh, dirname(file));
    },
  },
  'a flip of ..data with the old generation deleted': {
    prepare: prepareFlip,
    operate: (file, content) => flip(file, content, 'deleted'),
  },
  'a flip of ..data with the old generation kept': {
    prepare: prepareFlip,
    operate: (file, content) => flip(file, content, 'kept'),
  },
  'a link to its directory flipped, the old directory kept': {
    prepare: (root) => {
      fs.mkdirSync(join(root, 'g'));
      fs.writeFileSync(join(root, 'g', 'tls.crt'), 'first');
      fs.symlinkSync('g', join(root, 'd'));
      return join(root, 'd', 'tls.crt');
    },
    operate: (file, content) => {
      const generation = fs.mkdtempSync(join(file, '..', '..', 'g-'));
      fs.writeFileSync(join(generation, 'tls.crt'), content);
      fs.symlinkSync(basename(generation), `${generation}.link`);
      fs.renameSync(`${generation}.link`, dirname(file));
    },
  },
  'publish()': {
    prepare: (root) => join(root, 'secrets', 'serving', 'tls.crt'),
    operate: async (file, content) => {
      const entries = { 'tls.crt': Buffer.from(content), 'tls.key': Buffer.from('key') };
      await publish({ directory: dirname(file), what: 'Secret "a/serving"', entries, mode: 0o600 });
    },
  },
  'all its ancestors removed and made again': {
    prepare: (root) => join(root, 'a', 'b', 'c', 'tls.crt'),
    operate: (file, content) => {
      fs.rmSync(join(file, '../../..'), { recursive: true, force: true });
      fs.mkdirSync(dirname(file), { recursive: true });
      fs.writeFileSync(file, content);
    },
  },
};

test.each(Object.entries(layouts))('observeFiles() sees %s, each of 20 times', async (_title, { prepare, operate }) => {
  await using root = new TemporaryDirectory();
  const file = prepare(root.path);
  await using observation = new Observation([file]);
  if (fs.existsSync(file)) await observation.until(file, 'first');
  for (let i = 0; i < operations; i += 1) {
    const content = `content ${i}`;
    await operate(file, content);
    const wanted = fs.readFileSync(file, 'utf8');
    expect(wanted.trim()).toBe(content);
    await observation.until(file, wanted);
  }
  expect(observation.lines).toEqual([]);
});

test('observeFiles() is the same with CHOKIDAR_USEPOLLING, and leaves the variable alone', async () => {
  await using root = new TemporaryDirectory();
  const file = plain(root.path);
  process.env['CHOKIDAR_USEPOLLING'] = 'true';
  process.env['CHOKIDAR_INTERVAL'] = '3600000';
  try {
    await using observation = new Observation([file]);
    await observation.until(file, 'first');
    // More than one, because the look that follows the start may find the first.
    for (const content of ['second', 'third', 'fourth']) {
      replaceByRename(file, content);
      await observation.until(file, content);
    }
    expect(process.env['CHOKIDAR_USEPOLLING']).toBe('true');
  } finally {
    delete process.env['CHOKIDAR_USEPOLLING'];
    delete process.env['CHOKIDAR_INTERVAL'];
  }
});

test('observeFiles() gives the first state of every file as found, with the time at which it came', async () => {
  await using root = new TemporaryDirectory();
  const file = plain(root.path);
  await using observation = new Observation([file, join(root.path, 'absent')]);
  const changes = await observation.next();
  expect(changes).toEqual([{ change: 'found', path: file, digest: sha256('first'), at: fs.statSync(file).ctime }]);
});

test('observeFiles() tells created, changed and removed apart', async () => {
  await using root = new TemporaryDirectory();
  const file = plain(root.path);
  await using observation = new Observation([file]);
  await observation.until(file, 'first');
  fs.writeFileSync(file, 'second');
  expect((await observation.until(file, 'second')).at(-1)?.change).toBe('changed');
  fs.rmSync(file);
  expect((await observation.until(file, undefined)).at(-1)?.change).toBe('removed');
  fs.writeFileSync(file, 'third');
  expect((await observation.until(file, 'third'))[0]?.change).toBe('created');
});

test('observeFiles() sees each of many files whose directories come one by one', async () => {
  await using root = new TemporaryDirectory();
  const files = Array.from({ length: 12 }, (_, i) => join(root.path, 'a', 'secrets', `s${i}`, 'tls.crt'));
  await using observation = new Observation(files);
  for (const file of files) {
    const pulled = observation.until(file, 'first');
    fs.mkdirSync(dirname(file), { recursive: true });
    fs.writeFileSync(file, 'first');
    await pulled;
  }
  for (const file of files) {
    replaceByRename(file, 'second');
    await observation.until(file, 'second');
  }
});

test('observeFiles() says nothing when the same bytes are written again', async () => {
  await using root = new TemporaryDirectory();
  const file = plain(root.path);
  await using observation = new Observation([file]);
  await observation.until(file, 'first');
  for (let i = 0; i < operations; i += 1) replaceByRename(file, 'first');
  fs.writeFileSync(join(dirname(file), 'neighbour'), 'x');
  const pulled = observation.next();
  await delay(50); // were it to say something, it would be said before the next change
  replaceByRename(file, 'second');
  expect(await pulled).toMatchObject([{ change: 'changed', digest: sha256('second') }]);
});

test('observeFiles() folds what happens while its reader is busy into one batch', async () => {
  await using root = new TemporaryDirectory();
  const files = Array.from({ length: 36 }, (_, i) => join(root.path, `f${i}`));
  await using observation = new Observation(files);
  for (const file of files) fs.writeFileSync(file, 'first');
  await observation.until(files[35] ?? '', 'first');
  for (let round = 0; round < 20; round += 1) for (const file of files) replaceByRename(file, `round ${round}`);
  const changes = await observation.until(files[35] ?? '', 'round 19');
  expect(changes.length).toBeLessThanOrEqual(36 * 2);
  for (const file of files) {
    expect(changes.findLast(({ path }) => path === file)).toMatchObject({ digest: sha256('round 19') });
  }
});

test('observeFiles() finds by rescan what no hint told', async () => {
  await using root = new TemporaryDirectory();
  const file = plain(root.path);
  const deaf: Hints = {
    complete: true,
    refresh: () => Promise.resolve(),
    close: () => Promise.resolve(),
  };
  await using observation = new Observation([file], { clock: hurried, hints: () => Promise.resolve(deaf) });
  await observation.until(file, 'first');
  replaceByRename(file, 'second');
  expect(await observation.until(file, 'second')).toMatchObject([{ change: 'changed' }]);
});

test('observeFiles() opens its watches again after one has failed, and reports that once', async () => {
  await using root = new TemporaryDirectory();
  const file = plain(root.path);
  let opened = 0;
  const failing = ({ onError }: { readonly onError: (code: string) => void }): Promise<Hints> => {
    opened += 1;
    onError('ENOSPC');
    const closed: Hints = {
      complete: false,
      refresh: () => Promise.resolve(),
      close: () => Promise.resolve(),
    };
    return Promise.resolve(closed);
  };
  await using observation = new Observation([file], { clock: hurried, hints: failing });
  await observation.until(file, 'first');
  const pulled = observation.next();
  await soon(() => opened).toBeGreaterThan(3);
  replaceByRename(file, 'second');
  await pulled;
  expect(observation.lines).toMatchObject([{ event: 'observe.failed', code: 'ENOSPC' }]);
});

test.each(['EACCES', 'EIO'])(
  'observeFiles() reports a file that cannot be read (%s) once and tries again',
  async (code) => {
    await using root = new TemporaryDirectory();
    const [file, other] = [plain(root.path), join(root.path, 'd', 'other')];
    let failing = true;
    let looks = 0;
    const disk = {
      ...realDisk,
      readFile: ((path: string) => {
        if (path !== file || !failing) return fs.promises.readFile(path);
        looks += 1;
        return Promise.reject(Object.assign(new Error(code), { code }));
      }) as typeof realDisk.readFile,
    };
    await using observation = new Observation([file, other], { disk, clock: hurried });
    const pulled = observation.next();
    await soon(() => looks).toBeGreaterThan(3);
    failing = false;
    expect(await pulled).toMatchObject([{ change: 'found', path: file, digest: sha256('first') }]);
    expect(observation.lines).toMatchObject([{ event: 'observe.failed', path: file, code }]);

    failing = true;
    fs.writeFileSync(other, 'neighbour');
    expect(await observation.next(), 'an unreadable file is not gone').toMatchObject([{ path: other }]);
  },
);

test('observeFiles() takes a directory in the place of a file for unreadable, not for gone', async () => {
  await using root = new TemporaryDirectory();
  await using observation = new Observation([root.path], { clock: hurried });
  const pulled = observation.next().catch(() => undefined);
  await soon(() => observation.lines).toMatchObject([{ event: 'observe.failed', code: 'EISDIR' }]);
  await observation[Symbol.asyncDispose]();
  await pulled;
});

test('observeFiles() ends when the signal aborts while it waits', async () => {
  await using root = new TemporaryDirectory();
  const stop = new AbortController();
  const observation = new Observation([plain(root.path)], { signal: stop.signal });
  await observation.next();
  const pulled = observation.next();
  stop.abort();
  await expect(pulled).rejects.toThrow('The observer has ended');
});
