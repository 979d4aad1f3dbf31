// The kind of a file's content, in a few words for people, by its first bytes (file(1)). Nothing of its content is
// repeated but the kind that a document or a PEM block gives itself. Pure.
import { isMapping, yamlMapping } from './yaml.ts';

interface Signature {
  readonly name: string;
  /** First bytes in Latin-1. */
  readonly begins: string | RegExp;
  /** Their offset. Default: 0. */
  readonly at?: number;
}

const signatures: readonly Signature[] = [
  { name: 'a script', begins: '#!' },
  { name: 'an archive (gzip)', begins: '\x1f\x8b' },
  { name: 'an archive (zip)', begins: 'PK\x03\x04' },
  { name: 'an archive (xz)', begins: '\xfd7zXZ\0' },
  { name: 'an archive (bzip2)', begins: 'BZh' },
  { name: 'an archive (zstd)', begins: '\x28\xb5\x2f\xfd' },
  { name: 'an archive (tar)', begins: 'ustar', at: 257 },
  { name: 'a program (ELF)', begins: '\x7fELF' },
  { name: 'a Java keystore', begins: '\xfe\xed\xfe\xed' },
  { name: 'a certificate, a key or a PKCS #12 store in DER', begins: /^0[\x81-\x83]/ },
  { name: 'a database (SQLite)', begins: 'SQLite format 3' },
  { name: 'an image', begins: /^(\x89PNG|\xff\xd8\xff|GIF8)/ },
  { name: 'a PDF document', begins: '%PDF-' },
  { name: 'an encrypted file', begins: /^(\$ANSIBLE_VAULT;|age-encryption\.org\/|Salted__)/ },
  { name: 'a public key of SSH', begins: /^(ssh-(rsa|ed25519|dss)|ecdsa-sha2-\S+|sk-\S+) / },
  { name: 'a key of PuTTY', begins: 'PuTTY-User-Key-File-' },
  { name: 'an XML or HTML document', begins: /^\s*<[!?a-z]/i },
];

/** Lines of an EnvironmentFile (systemd.exec(5)). */
const assignment = /^\s*(export\s+)?[A-Za-z_]\w*=/;
const comment = /^\s*([#;]|$)/;

/** Reads line by line: the writer of the file determines how many there are. */
export function isEnvironmentFile(text: string): boolean {
  let isAssigned = false;
  for (let from = 0; from < text.length;) {
    const end = text.indexOf('\n', from);
    const line = text.slice(from, end === -1 ? text.length : end);
    from += line.length + 1;
    if (comment.test(line)) continue;
    if (!assignment.test(line)) return false;
    isAssigned = true;
  }
  return isAssigned;
}

/** The kind by an unambiguous first signature, whatever follows it: an archive may hold a kubeconfig. */
export function signedKind(bytes: Uint8Array): string | undefined {
  const binary = Buffer.from(bytes).toString('latin1');
  return signatures.find(({ begins, at = 0 }) =>
    typeof begins === 'string' ? binary.startsWith(begins, at) : begins.test(binary),
  )?.name;
}

/**
 * The kind of content that is not empty, with its article: `an archive (gzip)`, `a document of kind
 * KubeletConfiguration`.
 */
export function contentKind(bytes: Uint8Array): string {
  const signed = signedKind(bytes);
  if (signed !== undefined) return signed;
  const binary = Buffer.from(bytes).toString('latin1');
  const label = /^-----BEGIN ([A-Z0-9 ]{1,40})-----\r?$/m.exec(binary)?.[1];
  if (label !== undefined) return `a PEM block "${label}"`;
  // oxlint-disable-next-line no-control-regex -- these are what is looked for
  if (/[\0-\x08\x0e-\x1f]/.test(binary)) return 'binary data';
  const text = Buffer.from(bytes).toString('utf8');
  if (isEnvironmentFile(text)) return 'a file of environment variables';
  return documentKind(yamlMapping(text)) ?? (/^\s*[[{]/.test(text) ? 'a JSON document, or a part of one' : 'text');
}

/** The kind of a parsed YAML or JSON text. Undefined for a value that is no mapping, or an empty one. */
export function documentKind(value: unknown): string | undefined {
  if (!isMapping(value) || Object.keys(value).length === 0) return undefined;
  const { kind } = value;
  return typeof kind === 'string' && /^[A-Za-z]{1,63}$/.test(kind)
    ? `a document of kind ${kind}`
    : 'another YAML document';
}
