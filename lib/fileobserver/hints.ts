// Hints that files may have changed, from chokidar; this file is its home. A hint means "read again" and nothing else:
// chokidar folds bursts, misses a symlink that is swapped above a file while its old target stays, and a kernel queue
// can overflow. So hints carry no content, any number of them is one, and the caller also reads without hints now and
// then.
// Two watchers, because one cannot follow links and watch the links themselves:
// files: the paths, links followed. Sees writes, renames, deletions.
// links: every symlink on the way to the files, not followed. Sees flips whose old target stays.
// When directories are created or removed, both are opened again: a watcher that waits for several files below a
// missing directory loses some of them when it is created (chokidar 6.0.0).
import { watch, type FSWatcher } from 'chokidar';
import { lstat, readlink } from 'node:fs/promises';
import { dirname, join, resolve, sep } from 'node:path';
import { systemCode } from '../errors.ts';

export interface Hints {
  /** False after an error of the kernel's watch (too many watches, no permission): then hints may be missing. */
  readonly complete: boolean;
  /** Watches the links and directories that the paths lead through now. Called after every read. */
  refresh(): Promise<void>;
  close(): Promise<void>;
}

interface HintOptions {
  readonly files: readonly string[];
  /** Called at each hint. */
  readonly onHint: () => void;
  readonly onError: (code: string) => void;
}

/**
 * chokidar lets the environment override the code. A variable meant for a developer's editor must not turn a reaction
 * of milliseconds into polling, so it is hidden while chokidar reads it; no other code runs in between.
 */
function openWatcher(paths: readonly string[], of: 'files' | 'links'): FSWatcher {
  const hidden = ['CHOKIDAR_USEPOLLING', 'CHOKIDAR_INTERVAL'].map((name) => [name, process.env[name]] as const);
  for (const [name] of hidden) delete process.env[name];
  try {
    // The event for a link that exists or was added means that it is watched now, and causes one more read.
    const options = { followSymlinks: of === 'files', ignoreInitial: of === 'files' };
    return watch([...paths], { ...options, backend: 'native', atomic: false, depth: 0 });
  } finally {
    for (const [name, value] of hidden) if (value !== undefined) process.env[name] = value;
  }
}

/** Opens the watches. Hints follow soon; the first one means that the watch is established. */
export async function openHints({ files, onHint, onError }: HintOptions): Promise<Hints> {
  let complete = true;
  const listen = (watcher: FSWatcher): FSWatcher =>
    watcher
      .on('ready', onHint)
      .on('all', onHint)
      .on('raw', onHint)
      .on('error', (err) => {
        complete = false;
        onError(systemCode(err) ?? 'unknown');
        onHint();
      });
  const open = ({ links }: Way): FSWatcher[] => [
    listen(openWatcher(files, 'files')),
    listen(openWatcher(links, 'links')),
  ];
  let way = await wayTo(files);
  let watchers = open(way);
  return {
    get complete() {
      return complete;
    },
    async refresh() {
      const now = await wayTo(files);
      if (now.shape === way.shape) return;
      way = now;
      const former = watchers;
      watchers = open(now);
      await closeAll(former);
    },
    async close() {
      await closeAll(watchers);
    },
  };
}

const closeAll = (watchers: readonly FSWatcher[]) => Promise.all(watchers.map((watcher) => watcher.close()));

interface Way {
  /** Every symlink that the kernel follows, by the path at which it lies. */
  readonly links: readonly string[];
  /** Differs when another set of watches is needed: a directory was created, removed or replaced, or a link is new. */
  readonly shape: string;
}

const mostLinks = 40; // Linux follows as many; more is ELOOP

/**
 * Links and directories that the paths lead through. Directories behind a link have no part in the shape: the link's
 * watch sees a flip.
 */
export async function wayTo(files: readonly string[]): Promise<Way> {
  const links = new Set<string>();
  const directories = new Map<string, string>();
  for (const file of files) {
    let rest = partsOf(file);
    let at: string = sep;
    for (let passed = 0; rest.length > 0 && passed < mostLinks;) {
      const path = join(at, rest[0] ?? '');
      rest = rest.slice(1);
      // Directories are shared by many files; the last part is the file, which has its own watch.
      if (directories.has(path)) at = path;
      else {
        const { inode, target } = await look(path);
        if (target === undefined) {
          if (passed === 0 && rest.length > 0) directories.set(path, inode);
          at = path;
        } else {
          passed += 1;
          links.add(path);
          rest = [...partsOf(resolve(dirname(path), target)), ...rest];
          at = sep;
        }
      }
    }
  }
  return { links: [...links], shape: JSON.stringify([[...links], [...directories]]) };
}

const partsOf = (path: string): string[] =>
  resolve(path)
    .split(sep)
    .filter((part) => part !== '');

async function look(path: string): Promise<{ readonly inode: string; readonly target?: string }> {
  try {
    const stats = await lstat(path);
    const inode = `${stats.dev}:${stats.ino}`;
    return stats.isSymbolicLink() ? { inode, target: await readlink(path) } : { inode };
  } catch {
    return { inode: 'absent' }; // or unreadable for us: the read of the file itself reports it
  }
}
