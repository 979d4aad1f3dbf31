// Changes of a kubeconfig's document and of the files that it names for its credentials. Pure.
import type { Source } from '../kubeconfig/document.ts';
import { certificateKey, privateKeyKey } from '../inventory/content.ts';
import type { Change, Part } from './disk-layout.ts';
import { certificateFile, holdsCertificate, holdsKey, putTogether } from './pem-files.ts';
import type { Entries } from './store.ts';

/** Those of the files that a kubeconfig names for its certificate and its key. */
export function credentialChanges(
  next: Entries,
  parts: readonly Part[],
  at: { certificate: Source; key: Source },
): Change[] {
  const { certificate, key } = at;
  const { [certificateKey]: newCertificate, [privateKeyKey]: newKey } = next;
  if (newCertificate === undefined || newKey === undefined) return [];
  const formerOf = (file: string): Uint8Array | undefined => parts.find((part) => part.file === file)?.bytes;
  const one = certificate.kind === 'file' && key.kind === 'file' && certificate.file === key.file;
  const changes: Change[] = [];
  if (key.kind === 'file' && !one) {
    const former = formerOf(key.file);
    changes.push(credentialChange(key.file, holdsCertificate(former) ? putTogether(next, former) : newKey));
  }
  if (certificate.kind === 'file') {
    const former = formerOf(certificate.file);
    const both = one || holdsKey(former);
    changes.push(
      credentialChange(certificate.file, both ? putTogether(next, former) : certificateFile(newCertificate, former)),
    );
  }
  // Credentials that stay are not replaced by themselves.
  return changes.filter(
    ({ file, bytes }) => formerOf(file) === undefined || !Buffer.from(bytes).equals(formerOf(file) ?? bytes),
  );
}

export function credentialChange(file: string, bytes: Uint8Array): Change {
  const secret = holdsKey(bytes);
  return { file, bytes, mode: secret ? 0o600 : 0o644, secret, dated: secret && holdsCertificate(bytes) };
}

export function documentChange(file: string, bytes: Uint8Array): Change {
  return { file, bytes, mode: 0o600, secret: Buffer.from(bytes).includes('client-key-data') };
}
