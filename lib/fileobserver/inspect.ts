// The files of one artefact taken together: whether they are all there and whether a certificate and its key belong
// together. Contents stay in here; what leaves is a word and a digest.
import { X509Certificate, createHash, createPrivateKey } from 'node:crypto';
import { realDisk } from '../disk/disk.ts';
import { readRegularFile } from '../disk/read.ts';
import { systemCode } from '../errors.ts';
import { pathsOf, type ArtefactFiles } from '../proof/published.ts';
import type { FilesState } from './decide.ts';

export interface Inspection {
  readonly state: FilesState;
  /** SHA-256 over all contents; empty unless the state is `complete`. */
  readonly digest: string;
  /** When the newest of the files came into its place (ctime), where the state is `complete`. */
  readonly changedAt?: Date;
}

export async function inspectFiles(files: ArtefactFiles): Promise<Inspection> {
  const paths = pathsOf(files);
  const contents: Buffer[] = [];
  let newest = 0;
  for (const path of paths) {
    try {
      const { ctimeMs } = await realDisk.stat(path); // before the content: what comes in between is a change of its own
      contents.push(await readRegularFile(realDisk, path));
      newest = Math.max(newest, ctimeMs);
    } catch (err) {
      const code = systemCode(err);
      if (code !== 'ENOENT' && code !== 'ENOTDIR') return incomplete('unreadable');
    }
  }
  if (contents.length === 0) return incomplete('absent');
  if (contents.length < paths.length) return incomplete('partial');
  const [certificate, key] = contents;
  if (files.kind === 'pair' && certificate !== undefined && key !== undefined && !belongTogether(certificate, key)) {
    return incomplete('mismatched');
  }
  const hash = createHash('sha256');
  for (const content of contents) hash.update(`${content.length}:`).update(content);
  return { state: 'complete', digest: hash.digest('hex'), changedAt: new Date(Math.ceil(newest)) };
}

const incomplete = (state: FilesState): Inspection => ({ state, digest: '' });

function belongTogether(certificate: Buffer, key: Buffer): boolean {
  try {
    return new X509Certificate(certificate).checkPrivateKey(createPrivateKey(key));
  } catch {
    return false; // cut off in the middle of a write, or broken: not something that a reader would load
  }
}
