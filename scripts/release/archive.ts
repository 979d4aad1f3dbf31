// Directories as archives. The same files give the same bytes: names are sorted, times are one, all is root's. Node
// compresses, because its version is that of the project, and gzip's that of the machine.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { chmod, readdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip, type Gzip } from 'node:zlib';

const isProgram: ReadonlySet<string> = new Set(['kube-cert-recovery', 'node']);

/** Modes are independent of who builds. The kernel starts a loader as it starts a program. */
export async function settle(path: string): Promise<void> {
  for (const entry of await readdir(path, { withFileTypes: true })) {
    const inside = join(path, entry.name);
    const mode = isProgram.has(entry.name) || entry.name.startsWith('ld-linux-') ? 0o755 : 0o644;
    if (entry.isDirectory()) await settle(inside);
    else await chmod(inside, mode);
  }
  await chmod(path, 0o755);
}

/** Above it Node takes twice the time for 0.3 % of the size. */
const level = 6;
export const gzip = (): Gzip => createGzip({ level });

/** Has `take` read a tar of these entries of a directory. `seconds`: since 1970. */
export async function withTar<T>(
  {
    directory,
    entries,
    seconds,
  }: { readonly directory: string; readonly entries: readonly string[]; readonly seconds: number },
  take: (tar: Readable) => Promise<T>,
): Promise<T> {
  const same = ['--sort=name', '--format=ustar', '--owner=root:0', '--group=root:0', `--mtime=@${seconds}`];
  const tar = spawn('tar', [...same, '-C', directory, '-cf', '-', ...entries], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [[code], taken] = await Promise.all([once(tar, 'exit') as Promise<[number | null]>, take(tar.stdout)]);
  if (code !== 0) throw new Error(`Cannot make packages: tar of "${directory}" ended with ${String(code)}`);
  return taken;
}

/** As .tar.gz, whose top is the directory's name. */
export async function writeArchive(directory: string, file: string, seconds: number): Promise<void> {
  await withTar({ directory: dirname(directory), entries: [basename(directory)], seconds }, (tar) =>
    pipeline(tar, gzip(), createWriteStream(file)),
  );
}
