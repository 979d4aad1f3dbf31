// Whether a file in the place of certificates or keys holds these, or what a power loss, a bad disk or a copy that was cut off
// has left of them; else what it holds. What is not evidently the rest of one is somebody else's, and is never replaced. Pure.
//
// Evidence of a rest, each enough:
//   - no bytes at all, or nothing but zeros and blanks: it says nothing, so nothing is lost with it
//   - the BEGIN or END line of a block of its role, whole or with one character damaged, whatever the block holds
//   - a text that ends within its first BEGIN line, or that begins within its last END line
//   - lines of base64 as PEM has them, where the rest was zeroed, or up to a part of an END line
import { contentKind, signedKind } from '../content-kind.ts';

export type PemRole = 'certificate' | 'key';

const labels: Readonly<Record<PemRole, readonly string[]>> = {
  certificate: ['CERTIFICATE'],
  key: ['PRIVATE KEY', 'RSA PRIVATE KEY', 'EC PRIVATE KEY', 'ENCRYPTED PRIVATE KEY', 'EC PARAMETERS'],
};
const words: Readonly<Record<PemRole, string>> = { certificate: 'a certificate', key: 'a private key' };
/** They differ from one of ours in a single character, and are whole. */
const notDamaged: ReadonlySet<string> = new Set(['DSA PRIVATE KEY']);

/** Names what it holds; undefined where that is PEM of one of the roles, or the rest of it. */
export function otherThanPem(bytes: Uint8Array, roles: readonly PemRole[]): string | undefined {
  const whole = Buffer.from(bytes).toString('latin1');
  const text = whole.replaceAll('\0', '');
  if (text.trim() === '') return undefined;
  const signed = signedKind(bytes);
  if (signed !== undefined) return signed;
  const wanted = roles.flatMap((role) => labels[role]);
  const there = [...text.matchAll(/-(?:BEGIN|END) ([^-\n]{3,40}?)-{2}/g)].flatMap(([, label]) => label ?? []);
  if (there.some((label) => wanted.some((one) => isLike(label, one)))) return undefined;
  const otherRole = (Object.keys(labels) as PemRole[]).find((role) =>
    there.some((label) => labels[role].includes(label)),
  );
  if (otherRole !== undefined) return words[otherRole];
  if (there.length === 0 && isRest(text, wanted, whole !== text)) return undefined;
  return contentKind(bytes);
}

function isLike(label: string, wanted: string): boolean {
  if (label === wanted) return true;
  if (label.length !== wanted.length || notDamaged.has(label)) return false;
  return label.split('').filter((character, at) => character !== wanted[at]).length === 1;
}

/** Without any BEGIN or END line. */
function isRest(text: string, wanted: readonly string[], wasZeroed: boolean): boolean {
  const lines = text.replaceAll('\r', '').trim().split('\n');
  const [first = ''] = lines;
  const last = lines.at(-1) ?? '';
  const begins = wanted.some((label) => `-----BEGIN ${label}-----`.startsWith(first));
  const ends = wanted.some((label) => `-----END ${label}-----`.endsWith(last));
  if (lines.length === 1 && (begins || ends)) return true;
  const isCutEnd = /^-{1,5}(E(ND?)?)?$/.test(last) || /^-{5}END [A-Z ]*-?$/.test(last);
  const body = isCutEnd || ends ? lines.slice(0, -1) : lines;
  const isBody = body.every((line) => /^[A-Za-z0-9+/]{1,64}={0,2}$/.test(line));
  return isBody && (isCutEnd || ends || (wasZeroed && body.some((line) => line.length === 64)));
}
