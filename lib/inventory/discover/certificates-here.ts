// Certificates of this machine for discovery: in PEM files, and in kubeconfigs. Impure: it reads files, and nothing
// else. Never fails because of a file.
import { readKubeconfigView, type Source } from '../../kubeconfig/document.ts';
import { type Certificate, wholeCertificates } from '../../pki/certificate.ts';
import type { MachineFiles } from './machine-files.ts';

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
  return wholeCertificates(Buffer.from((await text(file)) ?? ''));
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
  return source.kind === 'data' ? wholeCertificates(source.bytes ?? Buffer.of())[0] : undefined;
}
