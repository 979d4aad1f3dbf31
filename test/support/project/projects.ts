// Which tests belong to which project of vitest.config.ts, so that nobody keeps a list: a test that starts a process, or
// lies in test/stories, is a story; the rest of what is beside test/integration, e2e and long is a unit test.
import { globSync, readFileSync } from 'node:fs';
import { importsOf } from './architecture.ts';

const others = /^test\/(integration|e2e|long)\//;

/** Paths below `root` (the project's directory). */
export function testFiles(root: string): { readonly unit: readonly string[]; readonly stories: readonly string[] } {
  const files = globSync('test/**/*.ts', { cwd: root }).filter((path) => !others.test(path));
  const imports = new Map(
    files.map((path) => [path, importsOf(path, readFileSync(`${root}/${path}`, 'utf8')).map(({ to }) => to)]),
  );
  const startsProcesses = (path: string, seen: Set<string>): boolean => {
    if (seen.has(path)) return false;
    seen.add(path);
    const to = imports.get(path) ?? [];
    return to.includes('node:child_process') || to.some((next) => imports.has(next) && startsProcesses(next, seen));
  };
  const isStory = (path: string): boolean => path.startsWith('test/stories/') || startsProcesses(path, new Set());
  const tests = files.filter((path) => path.endsWith('.test.ts'));
  return { unit: tests.filter((path) => !isStory(path)), stories: tests.filter(isStory) };
}
