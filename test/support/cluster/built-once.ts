// Programs of Go that tests run, from modules of this project: built once for each version of their sources, and kept in the
// cache.
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { access, mkdir, mkdtemp, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { withBuildLock } from './build-lock.ts';
import { cacheRoot, compile, type Compilation, findGo } from './go-build.ts';
import { createProgress } from './progress.ts';

interface Program extends Pick<Compilation, 'name' | 'what' | 'duration' | 'package'> {
  /** Directory of its module, below the project's. */
  readonly module: string;
  /** Files of the module that it is made of, besides go.mod and go.sum. */
  readonly sources?: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
}

/** Path of the program. */
export async function builtOnce({ module, sources = [], env = process.env, ...wanted }: Program): Promise<string> {
  const moduleDirectory = fileURLToPath(new URL(`../../../${module}`, import.meta.url));
  const hash = createHash('sha256');
  for (const name of ['go.mod', 'go.sum', ...sources]) hash.update(await readFile(join(moduleDirectory, name)));
  const cache = join(cacheRoot(env), wanted.name, hash.digest('hex').slice(0, 16));
  const file = join(cache, wanted.name);
  if (await isExecutable(file)) return file;
  await mkdir(cache, { recursive: true });
  const progress = createProgress();
  await withBuildLock(join(cache, 'lock'), progress, async () => {
    if (await isExecutable(file)) return;
    const go = await findGo(env);
    if (go === undefined) throw new Error(`Cannot build ${wanted.name} of ${module}: install Go 1.25 or newer`);
    const scratch = await mkdtemp(join(cache, '.partial-'));
    try {
      const made = join(scratch, wanted.name);
      // As the control plane: what both are made of is compiled once.
      const flags = ['-trimpath', '-ldflags', '-s -w'];
      await compile({ go, moduleDirectory, file: made, env, progress, flags, ...wanted });
      await rename(made, file);
    } finally {
      await rm(scratch, { recursive: true, force: true });
    }
  });
  return file;
}

const isExecutable = (path: string): Promise<boolean> =>
  access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
