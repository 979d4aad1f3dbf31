// The image of a release as that of another version: one layer more, in which the launcher differs.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { withScratch } from './node.ts';

const run = promisify(execFile);

interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
  readonly platform?: { readonly architecture: string };
}
interface Index {
  readonly manifests: readonly Descriptor[];
}
interface Manifest {
  readonly config: Descriptor;
  readonly layers: readonly Descriptor[];
}
interface Configuration {
  readonly rootfs: { readonly diff_ids: readonly string[] };
  readonly history: readonly object[];
}

/** `line`: of a shell, at the beginning of the launcher. `archive`, `file`: in the layout of OCI, for `architecture`. */
export async function writeNewerImage(
  archive: string,
  { file, name, line, architecture }: Readonly<Record<'file' | 'name' | 'line' | 'architecture', string>>,
): Promise<void> {
  await withScratch(async (scratch) => {
    const layout = join(scratch, 'layout');
    await mkdir(layout);
    await run('tar', ['-xf', archive, '-C', layout]);
    const blob = (digest: string): string => join(layout, 'blobs', digest.replace(':', '/'));
    const read = async <T>(path: string): Promise<T> => JSON.parse(await readFile(path, 'utf8')) as T;
    const put = async (mediaType: string, content: Buffer): Promise<Descriptor> => {
      const digest = `sha256:${createHash('sha256').update(content).digest('hex')}`;
      await writeFile(blob(digest), content);
      return { mediaType, digest, size: content.length };
    };
    const top = await read<Index>(join(layout, 'index.json'));
    const { manifests } = await read<Index>(blob(top.manifests[0]?.digest ?? ''));
    const own = manifests.find(({ platform }) => platform?.architecture === architecture);
    if (own === undefined) throw new Error(`${archive} has no image for ${architecture}`);
    const manifest = await read<Manifest>(blob(own.digest));
    const launcher = 'kube-cert-recovery';
    const { stdout: text } = await run('tar', ['-xzOf', blob(manifest.layers.at(-1)?.digest ?? ''), launcher]);
    await writeFile(join(scratch, launcher), text.replace('#!/bin/sh\n', `#!/bin/sh\n${line}\n`));
    const same = ['--owner=root:0', '--group=root:0', '--mode=755', '-C', scratch];
    const options = { encoding: 'buffer', maxBuffer: 2 ** 20 } as const;
    const { stdout: bytes } = await run('tar', [...same, '-cf', '-', launcher], options);
    const layer = await put('application/vnd.oci.image.layer.v1.tar', bytes);
    const before = await read<Configuration>(blob(manifest.config.digest));
    const history = [...before.history, { created_by: 'a test' }];
    const after = {
      ...before,
      rootfs: { ...before.rootfs, diff_ids: [...before.rootfs.diff_ids, layer.digest] },
      history,
    };
    const config = await put(manifest.config.mediaType, Buffer.from(JSON.stringify(after)));
    const made = { ...manifest, config, layers: [...manifest.layers, layer] };
    const described = await put(own.mediaType, Buffer.from(JSON.stringify(made)));
    const named = { ...described, annotations: { 'io.containerd.image.name': name } };
    await writeFile(join(layout, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests: [named] }));
    await run('tar', ['-cf', file, '-C', layout, 'oci-layout', 'index.json', 'blobs']);
  });
}
