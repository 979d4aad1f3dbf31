// Stands for cmd/cli.ts in what is built: the same functions, from one text of all modules. Beside it lies the code that
// V8 has made of it when it was built (scripts/compile.ts), which saves a third of the processor time of a start. V8
// takes that code as it is, whatever the bytes are, so a damaged one must be known before. It takes none of another
// version of itself or for other flags; then, as without the file, the text is compiled.
import type * as cli from '../cmd/cli.ts';

// An `import` of them makes Node read each of their exports, for a hundredth of a second.
const { hash } = process.getBuiltinModule('node:crypto');
const { readFileSync } = process.getBuiltinModule('node:fs');
const { createRequire } = process.getBuiltinModule('node:module');
const { fileURLToPath } = process.getBuiltinModule('node:url');
const { Script } = process.getBuiltinModule('node:vm');

/** Name of the text, with its hash: a text and a code of two builds do not meet. */
declare const PROGRAM: string;

const digestBytes = 32;

function codeIn(path: string): Buffer | undefined {
  try {
    const bytes = readFileSync(path);
    const code = bytes.subarray(digestBytes);
    return hash('sha256', code, 'buffer').equals(bytes.subarray(0, digestBytes)) ? code : undefined;
  } catch {
    return undefined;
  }
}

type Wrapper = (require: NodeJS.Require, module: { exports: unknown }, url: string) => void;

function load(): typeof cli {
  const path = fileURLToPath(new URL(PROGRAM, import.meta.url));
  const run = process.argv.includes('--once') ? 'once' : 'waiting';
  const code = codeIn(`${path}.${process.version}-${process.arch}.${run}.code`);
  // All of the text is ASCII (scripts/build.ts).
  const script = new Script(readFileSync(path, 'latin1'), {
    filename: path,
    ...(code !== undefined && { cachedData: code }),
  });
  const module = { exports: {} as typeof cli };
  (script.runInThisContext() as Wrapper)(createRequire(path), module, import.meta.url);
  return module.exports;
}

export const { run } = load();
