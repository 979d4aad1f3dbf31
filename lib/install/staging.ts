// The staging directory: every object of the first generation as one JSON manifest, mode 0600 in a 0700 directory,
// because signers' keys are among them. It is the record of an interrupted `init render`, and what `init` uploads.
import { join } from 'node:path';
import { ensurePrivateDirectory, replaceFile } from '../disk/files.ts';
import { RecoveryError } from '../errors.ts';
import type { ApiLocation, Resolved } from '../inventory/model.ts';
import { isFile } from '../inventory/places.ts';
import { locationText, type Material, privateKeyKey } from '../store/store.ts';
import { namesIn, readIfPresent, removeDirectory } from './existing-files.ts';
import type { HostLayout } from './layout.ts';

export interface ObjectManifest {
  readonly apiVersion: 'v1';
  readonly kind: 'Secret' | 'ConfigMap';
  readonly metadata: {
    readonly namespace: string;
    readonly name: string;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly type?: string;
  readonly data: Readonly<Record<string, string>>;
}

export function objectManifest({ kind, namespace, name }: ApiLocation, material: Material): ObjectManifest {
  const encoding = kind === 'secret' ? 'base64' : 'utf8';
  const data = Object.entries(material.entries).map(([key, bytes]) => [key, Buffer.from(bytes).toString(encoding)]);
  return {
    apiVersion: 'v1',
    kind: kind === 'secret' ? 'Secret' : 'ConfigMap',
    metadata: { namespace, name, annotations: material.annotations },
    ...(kind === 'secret' && { type: privateKeyKey in material.entries ? 'kubernetes.io/tls' : 'Opaque' }),
    data: Object.fromEntries(data) as Record<string, string>,
  };
}

function stagedFile({ staging }: HostLayout, { kind, namespace, name }: ApiLocation): string {
  return join(staging, `${kind === 'secret' ? 'secret' : 'configmap'}.${namespace}.${name}.json`);
}

export async function stage(layout: HostLayout, location: ApiLocation, material: Material): Promise<void> {
  await ensurePrivateDirectory(layout.staging);
  const content = `${JSON.stringify(objectManifest(location, material), null, 2)}\n`;
  const what = `staged ${locationText(location)}`;
  await replaceFile({ path: stagedFile(layout, location), content, mode: 0o600, what });
}

/** The objects that are staged, by artefact. Throws ReadFailed and MaterialInvalid. */
export async function readStaged(layout: HostLayout, { artefacts }: Resolved): Promise<Map<string, Material>> {
  const found = new Map<string, Material>();
  for (const { name, location } of artefacts) {
    if (isFile(location)) continue;
    const path = stagedFile(layout, location);
    const bytes = await readIfPresent(path, `staged ${locationText(location)}`);
    if (bytes !== undefined) found.set(name, materialOf(location, bytes, path));
  }
  return found;
}

function materialOf(location: ApiLocation, bytes: Buffer, path: string): Material {
  try {
    const { data, metadata } = JSON.parse(bytes.toString()) as ObjectManifest;
    const encoding = location.kind === 'secret' ? 'base64' : 'utf8';
    const entries = Object.entries(data).map(([key, value]) => [key, Buffer.from(value, encoding)] as const);
    return { entries: Object.fromEntries(entries), annotations: metadata.annotations ?? {} };
  } catch {
    // The parser's own error may quote the text, which holds keys.
    const message = `Cannot read staged ${locationText(location)}: "${path}" is not a manifest of ours; remove it`;
    throw new RecoveryError('MaterialInvalid', message, { details: { path } });
  }
}

export async function isStaged(layout: HostLayout): Promise<boolean> {
  return (await namesIn(layout.staging)).length > 0;
}

export function removeStaging(layout: HostLayout): Promise<void> {
  return removeDirectory(layout.staging);
}
