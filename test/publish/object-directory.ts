// A reader that knows nothing of lib/publish: it opens the visible paths, as a component does, and looks at what lies
// around them. The content of a test pair names its generation: "tls.crt 7", "tls.key 7".
import { lstatSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Entries } from '../../lib/store/store.ts';

export const what = 'Secret "a/serving"';

/** Entries that all say `generation`, long enough to be written in more than one page. */
export function entriesOf(generation: number | string, keys: readonly string[] = ['tls.crt', 'tls.key']): Entries {
  return Object.fromEntries(keys.map((key) => [key, Buffer.from(`${key} ${generation}\n${'x'.repeat(5000)}\n`)]));
}

/** A path for one object below a new destination: `<temporary>/secrets/serving`. */
export function newObjectPath(): string {
  return join(mkdtempSync(join(tmpdir(), 'publish-')), 'secrets', 'serving');
}

/** A directory with plain files, as an earlier tool wrote it. */
export function writePlain(directory: string, entries: Entries, mode = 0o600): void {
  mkdirSync(directory, { recursive: true });
  for (const [name, bytes] of Object.entries(entries)) writeFileSync(join(directory, name), bytes, { mode });
}

/** The generation that a path's content names. */
export function generationAt(directory: string, key: string): string {
  const text = readFileSync(join(directory, key), 'utf8');
  const match = /^(\S+) (\S+)\nx{5000}\n$/.exec(text);
  if (match?.[1] !== key || match[2] === undefined)
    throw new Error(`"${key}" holds ${text.length} bytes of no generation`);
  return match[2];
}

/** The generation of the pair that readers get now. Throws when it is absent, empty, cut short or mixed. */
export function pairGeneration(directory: string): string {
  const [cert, key] = [generationAt(directory, 'tls.crt'), generationAt(directory, 'tls.key')];
  if (cert !== key) throw new Error(`mixed pair: certificate of ${cert}, key of ${key}`);
  return cert;
}

/** Every file below `directory` whose mode lets others in, hidden ones included. */
export function wideFiles(directory: string): string[] {
  return readdirSync(directory, { recursive: true, encoding: 'utf8' }).filter((name) => {
    const stats = lstatSync(join(directory, name));
    return stats.isFile() && (stats.mode & 0o077) !== 0;
  });
}

/** What is wrong with a directory that was left in peace: nothing but links, `..data` and one generation may be there. */
export function layoutProblems(directory: string, keys: readonly string[], mode = 0o600): string[] {
  const problems: string[] = [];
  const check = (holds: boolean, problem: string): void => {
    if (!holds) problems.push(problem);
  };
  const generation = readlinkSync(join(directory, '..data'));
  const wanted = ['..data', generation, ...keys].toSorted();
  const names = readdirSync(directory).toSorted();
  check(names.join() === wanted.join(), `names ${names.join(' ')}, wanted ${wanted.join(' ')}`);
  for (const path of [directory, join(directory, generation)]) {
    check((lstatSync(path).mode & 0o7777) === 0o755, `mode of "${path}"`);
  }
  check(
    readdirSync(join(directory, generation)).toSorted().join() === keys.toSorted().join(),
    'files of the generation',
  );
  for (const key of keys) {
    check(readlinkSync(join(directory, key)) === `..data/${key}`, `link "${key}"`);
    check((lstatSync(join(directory, generation, key)).mode & 0o7777) === mode, `mode of "${key}"`);
  }
  return problems;
}
