// The real `openssl`, as a second opinion that shares no code with what is tested.
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

export interface OpensslDir extends AsyncDisposable {
  /** Writes a file into the directory and returns its path. */
  file(name: string, content: string | Uint8Array): Promise<string>;
  path(name: string): string;
  /** Standard output and standard error of `openssl <args>`, run in the directory; rejects when it fails. */
  openssl(...args: readonly string[]): Promise<string>;
}

export async function opensslDir(): Promise<OpensslDir> {
  const dir = await mkdtemp(join(tmpdir(), 'pki-'));
  return {
    path: (name) => join(dir, name),
    async file(name, content) {
      await writeFile(join(dir, name), content, { mode: 0o600 });
      return join(dir, name);
    },
    async openssl(...args) {
      const { stdout, stderr } = await run('openssl', args, { cwd: dir });
      return stdout + stderr;
    },
    [Symbol.asyncDispose]: () => rm(dir, { recursive: true, force: true }),
  };
}
