// A single file that is mounted into a container cannot be replaced: the real refusal of the kernel, in a mount
// namespace of its own.
import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { createAuthority, createLeaf } from '../support/certificates/certificates.ts';
import { layOut, materialIn } from './host-files.ts';

const run = promisify(execFile);
const child = fileURLToPath(new URL('../support/faults/store-child.ts', import.meta.url));
const script = 'mount --bind "$1" "$1" && exec "$2" "$3" "$4" "$5" -1';

// Mounting takes root; where that cannot be had it is skipped, except where CI=true.
it.skipIf(process.getuid?.() !== 0 && process.env['CI'] !== 'true')(
  'a bind-mounted certificate is said to be one, and its pair stays whole',
  async () => {
    const root = await mkdtemp(join(tmpdir(), 'bind-mount-'));
    try {
      const signer = await createAuthority(join(root, 'ca-second'), { commonName: 'kubernetes' });
      for (const name of ['first', 'second']) await createLeaf(join(root, name), signer, { commonName: 'a' });
      const directory = join(root, 'host');
      const first = await materialIn(root, 'first');
      const { pair } = await layOut(directory, first, await readFile(signer.cert));
      const before = await readdir(directory);
      const args = ['-m', 'sh', '-c', script, 'sh', pair.certFile, process.execPath, child, directory, root];
      await expect(run('unshare', args)).rejects.toMatchObject({
        stderr: expect.stringContaining(
          `Cannot write pair "${pair.certFile}": "${pair.certFile}": is a bind mount of its own (a single file mounted`,
        ) as string,
      });
      expect(await readFile(pair.keyFile)).toEqual(first.entries['tls.key']);
      expect(await readFile(pair.certFile)).toEqual(first.entries['tls.crt']);
      expect((await readdir(directory)).toSorted()).toEqual([...before, 'backup'].toSorted());
    } finally {
      await rm(root, { recursive: true, force: true });
    }
  },
);
