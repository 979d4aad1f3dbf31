// Present state of the files that a component reads at its start only: the content that it loads of each, and when that
// was written.
import { createHash, X509Certificate } from 'node:crypto';
import { stat } from 'node:fs/promises';
import type { Clock } from '../clock.ts';
import { realDisk } from '../disk/disk.ts';
import { readRegularFile } from '../disk/files.ts';
import type { Resolved, ResolvedArtefact } from '../inventory/model.ts';
import { filesOf, isFile, pathOf } from '../inventory/places.ts';
import { readKubeconfigView, type Source } from '../kubeconfig/document.ts';
import { type Component, secondsOfChange } from './decide.ts';
import type { FileState } from './loaded.ts';

interface StartFile {
  readonly artefact: string;
  readonly file: string;
  readonly isKubeconfig: boolean;
}

/**
 * Files that a component reads at its start only. Not among them: certificates shown in a handshake, which is probed
 * instead, and credentials that the component rotates itself, and so has in memory before they are in the file.
 */
export function startFilesOf({ name, artefacts: own }: Pick<Component, 'name' | 'artefacts'>, { artefacts }: Resolved) {
  return artefacts.flatMap((artefact): readonly StartFile[] => {
    const reader = artefact.readers.find(({ component, needs }) => component === name && needs === 'restart');
    if (reader === undefined || reader.serves !== undefined || !own.includes(artefact.name)) return [];
    return pathsOfReader(artefact, name).map((file) => ({
      artefact: artefact.name,
      file,
      isKubeconfig: artefact.location.kind === 'kubeconfig',
    }));
  });
}

function pathsOfReader(artefact: ResolvedArtefact, component: string): readonly string[] {
  const { location } = artefact;
  if (!isFile(location)) return [];
  // The document alone: credentials in files of their own are read again by their reader, or rotated by it.
  if (location.kind === 'kubeconfig') return [location.file];
  if (artefact.kind === 'target' && artefact.rotatedBy === component) return [];
  // Only the certificate of a CA: its key is read by none of these components, or again when it changes.
  return artefact.kind === 'signer' ? [pathOf(location)] : filesOf(location).map(({ file }) => file);
}

/** Undefined where it cannot be read, or is being changed: a later run reads it again. */
export async function stateOfFile(
  { artefact, file, isKubeconfig }: StartFile,
  { endpoints = {} }: Resolved,
  clock: Pick<Clock, 'now' | 'uptimeSeconds'>,
): Promise<FileState | undefined> {
  try {
    const { ctimeMs } = await stat(file);
    const bytes = await readRegularFile(realDisk, file);
    const { mtimeMs, birthtimeMs, ctimeMs: later } = await stat(file);
    const uptimeSeconds = clock.uptimeSeconds();
    if (ctimeMs !== later || uptimeSeconds === undefined) return undefined;
    const content = isKubeconfig ? contentOfKubeconfig(file, bytes, endpoints) : contentOfPem(bytes);
    const writtenAt = startOf(Math.max(mtimeMs, birthtimeMs));
    const read = { since: 'found', now: clock.now(), uptimeSeconds, observedSinceSeconds: 0 } as const;
    const seconds = (changedAt: Date): number => secondsOfChange({ ...read, changedAt });
    const times = { writtenAt, writtenSeconds: seconds(writtenAt), touchedSeconds: seconds(startOf(ctimeMs)) };
    return { artefact, file, ...content, ...times };
  } catch {
    return undefined;
  }
}

/** Start of its millisecond, as clocks count: `Stats` rounds, and so dates a change of this moment in the future. */
const startOf = (ms: number): Date => new Date(Math.floor(ms));

const digestOf = (...parts: readonly Uint8Array[]): string => {
  const sum = createHash('sha256');
  for (const part of parts) sum.update(part);
  return sum.digest('hex');
};

const contentOfPem = (bytes: Uint8Array) => ({ digest: digestOf(bytes), until: endOf(bytes) });

/** Content that a client loads of a kubeconfig. A comment, another context or the order of its fields is no change. */
function contentOfKubeconfig(file: string, bytes: Uint8Array, endpoints: NonNullable<Resolved['endpoints']>) {
  const view = readKubeconfigView(file, bytes, endpoints);
  if ('problem' in view || 'foreign' in view) return { digest: digestOf(bytes) };
  const { certificate, key, authority, server, insecure } = view;
  const loaded = [certificate, key, authority].map(sourceText);
  return {
    digest: digestOf(Buffer.from(JSON.stringify([...loaded, server, insecure]))),
    until: endOfSource(certificate),
  };
}

const sourceText = (source: Source): string => {
  if (source.kind === 'data') return `data ${digestOf(source.bytes ?? Buffer.alloc(0))}`;
  return source.kind === 'file' ? `file ${source.file}` : '';
};

const endOfSource = (source: Source): number | undefined =>
  source.kind === 'data' && source.bytes !== undefined ? endOf(source.bytes) : undefined;

function endOf(pem: Uint8Array): number | undefined {
  try {
    return new X509Certificate(pem).validToDate.getTime();
  } catch {
    return undefined;
  }
}
