// Files of this machine, or below another root, as far as discovery reads them, and the certificates in them: in PEM files,
// and in kubeconfigs. Impure: it reads files, and nothing else. Never fails because of a file.
import type { Dirent } from 'node:fs';
import { access, readdir, readlink } from 'node:fs/promises';
import { join } from 'node:path';
import { realDisk } from '../../disk/disk.ts';
import { readRegularFile } from '../../disk/files.ts';
import { errorText, systemCode } from '../../errors.ts';
import { yamlText } from '../../yaml.ts';
import type { Environment } from '../resolve.ts';
import { readKubeconfigView, type Source } from '../../kubeconfig/document.ts';
import { type Certificate, wholeCertificates } from '../../pki/certificate.ts';

/** An environment that was found on this machine. */
export interface Discovered {
  readonly environment: Environment;
  /** Files that could not be read or that no component reads, as sentences. */
  readonly notes: readonly string[];
}

export interface MachineFiles {
  /** Undefined for a file that is absent or cannot be read. */
  readonly text: (file: string) => Promise<string | undefined>;
  /** Names of all entries except directories, sorted; none where the directory is absent or cannot be read. */
  readonly names: (directory: string) => Promise<readonly string[]>;
  /** Names of directories, sorted; none where the directory is absent or cannot be read. */
  readonly directories: (directory: string) => Promise<readonly string[]>;
  /** The literal target of a symbolic link; undefined where there is none. */
  readonly link: (file: string) => Promise<string | undefined>;
  /** A sentence for each place that exists and could not be read. */
  readonly unread: string[];
}

/** Returns a reader of files below `root`. Reading never fails because of a file. */
export function readerBelow(root: string): MachineFiles {
  const unread: string[] = [];
  const attempt = async <T, E>(place: string, read: () => Promise<T>, otherwise: E): Promise<T | E> => {
    try {
      return await read();
    } catch (err) {
      const code = systemCode(err);
      if (code !== 'ENOENT' && code !== 'ENOTDIR') unread.push(`"${place}" could not be read: ${errorText(err)}`);
      return otherwise;
    }
  };
  const listed = (directory: string, wanted: (entry: Dirent) => boolean): Promise<readonly string[]> =>
    attempt(directory, async () => {
      const entries = await readdir(join(root, directory), { withFileTypes: true });
      return entries.flatMap((entry) => (wanted(entry) ? [entry.name] : [])).toSorted();
    }, []);
  return {
    text: (file) => attempt(file, async () => yamlText(await readRegularFile(realDisk, join(root, file))), undefined),
    names: (directory) => listed(directory, (entry) => !entry.isDirectory()),
    directories: (directory) => listed(directory, (entry) => entry.isDirectory()),
    link: (file) => readlink(join(root, file)).catch(() => undefined),
    unread,
  };
}

/** Whether the file exists: a file without read permission does. */
export async function isOnMachine(path: string): Promise<boolean> {
  try {
    await access(path);
    return true;
  } catch (err) {
    const code = systemCode(err);
    return code !== 'ENOENT' && code !== 'ENOTDIR';
  }
}

/** The current context of a kubeconfig, which its component uses, whatever its names are. */
interface HeldByKubeconfig {
  readonly server: string | undefined;
  /** Whether it verifies the host of that URL against the names of the server's certificate. */
  readonly checksHost: boolean;
  /** A kubeconfig may have a token instead, or nothing. */
  readonly namesCertificate: boolean;
  /** Undefined where there is none, or it cannot be read. */
  readonly leaf: Certificate | undefined;
}

/** Returns none where the file is absent or holds none. */
export async function certificatesIn(file: string, text: MachineFiles['text']): Promise<readonly Certificate[]> {
  return wholeCertificates(await text(file));
}

/** Undefined where the file is absent, broken or no kubeconfig, or another program maintains its credentials. */
export async function heldByKubeconfig(
  file: string,
  text: MachineFiles['text'],
): Promise<HeldByKubeconfig | undefined> {
  const view = readKubeconfigView(file, Buffer.from((await text(file)) ?? ''), {});
  if (!('user' in view)) return undefined;
  const { certificate, server, insecure, serverName } = view;
  const checksHost = !insecure && serverName === undefined;
  return { server, checksHost, namesCertificate: certificate.kind !== 'none', leaf: await leafOf(certificate, text) };
}

async function leafOf(source: Source, text: MachineFiles['text']): Promise<Certificate | undefined> {
  if (source.kind === 'file') return (await certificatesIn(source.file, text))[0];
  return source.kind === 'data' ? wholeCertificates(source.bytes)[0] : undefined;
}
