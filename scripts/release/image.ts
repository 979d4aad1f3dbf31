// The container image of all architectures as one archive, in the layout of OCI (image-layout.md of its image
// specification): what the Containerfile builds, without a container runtime.
import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { copyFile, cp, mkdir, readdir, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { PassThrough } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Stamp } from '../build-stamp.ts';
import { nodeFlags } from '../program.ts';
import type { Architecture } from './architectures.ts';
import { gzip, settle, withTar } from './archive.ts';
import { writeLibraries } from './libraries.ts';

/** Name under which a container runtime imports it. */
const reference = ({ version }: Stamp): string => `localhost/kube-cert-recovery:${version}`;

const types = 'application/vnd.oci.image';

interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

interface Making {
  readonly stamp: Stamp;
  readonly seconds: number;
  /** Directory of the layout. */
  readonly layout: string;
}

export interface Packed {
  readonly architecture: Architecture;
  /** Directory with the program and its Node. */
  readonly program: string;
  /** The licence of that Node. */
  readonly licence: string;
}

/** Writes the archive. `scratch`: a directory for what it is made of. */
export async function writeImage(
  file: string,
  packed: readonly Packed[],
  { stamp, seconds, scratch }: { readonly stamp: Stamp; readonly seconds: number; readonly scratch: string },
): Promise<void> {
  const making: Making = { stamp, seconds, layout: join(scratch, 'layout') };
  await mkdir(join(making.layout, 'blobs/sha256'), { recursive: true });
  const manifests = await Promise.all(packed.map(async (one) => writeManifest(one, making, scratch)));
  const mediaType = `${types}.index.v1+json`;
  const index = await writeBlob(making, mediaType, { schemaVersion: 2, mediaType, manifests });
  const annotations = {
    'io.containerd.image.name': reference(stamp),
    'org.opencontainers.image.ref.name': stamp.version,
  };
  const top = { schemaVersion: 2, mediaType, manifests: [{ ...index, annotations }] };
  await writeFile(join(making.layout, 'index.json'), JSON.stringify(top));
  await writeFile(join(making.layout, 'oci-layout'), JSON.stringify({ imageLayoutVersion: '1.0.0' }));
  const entries = ['oci-layout', 'index.json', 'blobs'];
  await withTar({ directory: making.layout, entries, seconds }, (tar) => pipeline(tar, createWriteStream(file)));
}

async function writeManifest({ architecture, program, licence }: Packed, making: Making, scratch: string) {
  const [system, app] = [join(scratch, `system-${architecture}`), join(scratch, `image-${architecture}`)];
  // A layer of its own for parts that change seldom.
  await mkdir(join(system, 'usr/bin'), { recursive: true });
  await mkdir(join(system, 'etc'));
  await copyFile(join(program, 'node'), join(system, 'usr/bin/node'));
  await symlink('usr/bin/node', join(system, 'node'));
  await writeLibraries(architecture, system);
  await copyFile(licence, join(system, 'licenses/node'));
  // Without it the name localhost cannot be resolved outside of a container runtime that brings its own.
  await writeFile(join(system, 'etc/hosts'), '127.0.0.1 localhost\n::1 localhost\n');
  await cp(join(program, 'app'), join(app, 'app'), { recursive: true });
  await copyFile(join(program, 'LICENSE'), join(app, 'app/LICENSE'));
  // With /app and /node it is the program of a host, which "init host --from-pod" copies there.
  await copyFile(join(program, 'kube-cert-recovery'), join(app, 'kube-cert-recovery'));
  const layers = [await writeLayer(system, making), await writeLayer(app, making)];
  const { version, commit, builtAt } = making.stamp;
  const labels = {
    title: 'kube-cert-recovery',
    description: 'Zero-touch certificate recovery for Kubernetes control planes',
    version,
    revision: commit,
    licenses: 'Apache-2.0',
  };
  const config = await writeBlob(making, `${types}.config.v1+json`, {
    created: builtAt,
    architecture,
    os: 'linux',
    config: {
      User: '0:0',
      Env: ['MALLOC_ARENA_MAX=1'],
      Entrypoint: ['/usr/bin/node', ...nodeFlags, '/app/main.mjs'],
      Labels: Object.fromEntries(
        Object.entries(labels).map(([name, value]) => [`org.opencontainers.image.${name}`, value]),
      ),
    },
    rootfs: { type: 'layers', diff_ids: layers.map(({ diffId }) => diffId) },
    history: layers.map(() => ({ created: builtAt, created_by: 'npm run release' })),
  });
  const mediaType = `${types}.manifest.v1+json`;
  const manifest = { schemaVersion: 2, mediaType, config, layers: layers.map(({ descriptor }) => descriptor) };
  return { ...(await writeBlob(making, mediaType, manifest)), platform: { architecture, os: 'linux' } };
}

const blobPath = ({ layout }: Making, digest: string): string => join(layout, 'blobs', digest.replace(':', '/'));

async function writeBlob(making: Making, mediaType: string, content: object): Promise<Descriptor> {
  const text = JSON.stringify(content);
  const digest = `sha256:${createHash('sha256').update(text).digest('hex')}`;
  await writeFile(blobPath(making, digest), text);
  return { mediaType, digest, size: Buffer.byteLength(text) };
}

/** The content of a directory. `diffId`: the digest without compression. */
async function writeLayer(directory: string, making: Making): Promise<{ descriptor: Descriptor; diffId: string }> {
  const partial = join(dirname(directory), `${createHash('sha256').update(directory).digest('hex')}.layer`);
  const plain = createHash('sha256');
  await settle(directory);
  const entries = await readdir(directory);
  await withTar({ directory, entries: entries.toSorted(), seconds: making.seconds }, async (tar) => {
    const seen = new PassThrough();
    seen.on('data', (chunk: Buffer) => plain.update(chunk));
    await pipeline(tar, seen, gzip(), createWriteStream(partial));
  });
  const packed = createHash('sha256');
  for await (const chunk of createReadStream(partial)) packed.update(chunk as Buffer);
  const digest = `sha256:${packed.digest('hex')}`;
  const { size } = await stat(partial);
  await rename(partial, blobPath(making, digest));
  await rm(directory, { recursive: true });
  return {
    descriptor: { mediaType: `${types}.layer.v1.tar+gzip`, digest, size },
    diffId: `sha256:${plain.digest('hex')}`,
  };
}
