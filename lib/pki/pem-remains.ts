// Whether a file in the place of certificates or keys holds these, or their remains after a power loss, a disk fault or
// a truncated copy; else its content is named. A file without evidence of such remains belongs to another program, and
// is never replaced. Pure.
//
// Evidence of remains, each enough:
//   - no bytes at all, or nothing but zeros and blanks: no content is lost with it
//   - a whole block of its role, as Go's pem.Decode finds it behind any text
//   - the BEGIN or END line of a block of its role, whole or with one character damaged, whatever the block holds,
//     where only explanations and base64 precede the first line of this kind: unrelated documents quote such lines
//   - a text that stops within its first BEGIN line, or that begins within its last END line
//   - lines of base64 in PEM's form, where the rest was zeroed, or up to a part of an END line
import { contentKind, signedKind } from '../content-kind.ts';

export type PemRole = 'certificate' | 'key';

const labels: Readonly<Record<PemRole, readonly string[]>> = {
  certificate: ['CERTIFICATE'],
  key: ['PRIVATE KEY', 'RSA PRIVATE KEY', 'EC PRIVATE KEY', 'ENCRYPTED PRIVATE KEY', 'EC PARAMETERS'],
};
const words: Readonly<Record<PemRole, string>> = { certificate: 'a certificate', key: 'a private key' };
/** Labels that differ from a wanted one in a single character, and are undamaged. */
const notDamaged: ReadonlySet<string> = new Set(['DSA PRIVATE KEY']);

/** Names the content; undefined where it is PEM of one of the roles, or remains of it. */
export function otherThanPem(bytes: Uint8Array, roles: readonly PemRole[]): string | undefined {
  const whole = Buffer.from(bytes).toString('latin1');
  const text = whole.replaceAll('\0', '');
  if (text.trim() === '') return undefined;
  const signed = signedKind(bytes);
  if (signed !== undefined) return signed;
  const wanted = roles.flatMap((role) => labels[role]);
  const marks = [...text.matchAll(markAtBegin)];
  const there = marks.flatMap(([, , label]) => label ?? []);
  const hasMark = there.some((label) => wanted.some((one) => isLike(label, one)));
  if (hasMark && (hasBlock(text, wanted) || isOwnBefore(text, marks[0]))) return undefined;
  const otherRole = (Object.keys(labels) as PemRole[]).find(
    (role) => !roles.includes(role) && there.some((label) => labels[role].includes(label)),
  );
  if (otherRole !== undefined) return words[otherRole];
  if (there.length === 0 && isRest(text, wanted, whole !== text)) return undefined;
  return contentKind(bytes);
}

/** One of the dashes before it may be damaged, or some be cut off. */
const markAtBegin = /^(?:-{0,4}|-{0,3}[^\n-]-{0,3})-(BEGIN|END) ([^-\n]{3,40}?)-{2}/gm;
const bodyLine = /^[A-Za-z0-9+/]{1,64}={0,2}\s*$/;
/** Comments, and the lines that openssl(1) writes before a block: of x509 -text, s_client and pkcs12. */
const explanation = /^\s*(?:#|$)|^(?:subject|issuer)\s*=|^(?:Certificate|Bag Attributes|Key Attributes)\b/;

function hasBlock(text: string, wanted: readonly string[]): boolean {
  const blocks = text.matchAll(/^-----BEGIN ([A-Z ]+)-----[ \t\r]*\n([^-]*(?:-[^-]+)*)\n-----END \1-----[ \t\r]*$/gm);
  return [...blocks].some(([, label = '', body = '']) => wanted.includes(label) && isBase64(body));
}

const isBase64 = (body: string): boolean => /^[A-Za-z0-9+/=\s]+$/.test(body.replaceAll(/^[A-Za-z][\w-]*:.*$/gm, ''));

/**
 * Whether only explanations and base64 precede the first mark. Before an END line, the BEGIN line may be damaged, which
 * may split it in two.
 */
function isOwnBefore(text: string, first: RegExpExecArray | undefined): boolean {
  const before = text.slice(0, first?.index).split(/\r?\n/);
  // Indented lines without such a header are a document's.
  const isPrinted = /^\s*(?:Certificate:|Bag Attributes)/.test(text);
  const isExplained = (line: string): boolean => explanation.test(line) || (isPrinted && /^\s+\S/.test(line));
  const strange = before.filter((line) => !bodyLine.test(line) && !isExplained(line));
  return strange.length <= (first?.[1] === 'END' ? 2 : 0);
}

function isLike(label: string, wanted: string): boolean {
  if (label === wanted) return true;
  if (label.length !== wanted.length || notDamaged.has(label)) return false;
  return label.split('').filter((character, at) => character !== wanted[at]).length === 1;
}

/** Whether a text without any BEGIN or END line is remains. */
function isRest(text: string, wanted: readonly string[], wasZeroed: boolean): boolean {
  const lines = text.replaceAll('\r', '').trim().split('\n');
  const [first = ''] = lines;
  const last = lines.at(-1) ?? '';
  const begins = wanted.some((label) => `-----BEGIN ${label}-----`.startsWith(first));
  const ends = wanted.some((label) => `-----END ${label}-----`.endsWith(last));
  if (lines.length === 1 && (begins || ends)) return true;
  const isCutEnd = /^-{1,5}(E(ND?)?)?$/.test(last) || /^-{5}END [A-Z ]*-?$/.test(last);
  const body = isCutEnd || ends ? lines.slice(0, -1) : lines;
  // A word over a line of dashes is a heading; the lines of a block are 64 characters long.
  const isBody = body.every((line) => bodyLine.test(line)) && body.some((line) => line.length === 64);
  return isBody && (isCutEnd || ends || wasZeroed);
}
