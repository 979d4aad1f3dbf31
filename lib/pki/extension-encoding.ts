// What Go demands of the extensions of a certificate (crypto/x509, parser.go): certificate-encoding.ts.
import { isIP } from 'node:net';
import { DerReader } from './der-reader.ts';
import { tags } from './der.ts';
import type { Later } from './later-refusals.ts';

/** Context-specific tags. */
export const context = (number: number): number => 0x80 | number;
export const contextConstructed = (number: number): number => 0xa0 | number;

/** Throws RangeError where no Go has ever accepted them. */
export function checkExtensions(part: DerReader | undefined, later: Later): void {
  if (part === undefined) return;
  const list = part.inside(tags.sequence, 'extensions');
  const found: { readonly oid: string; readonly critical: boolean; readonly value: Buffer }[] = [];
  while (!list.isEmpty) {
    const extension = list.inside(tags.sequence, 'extension');
    const oid = extension.oid('type of an extension');
    const critical = extension.next === tags.boolean && extension.boolean('critical');
    const value = extension.content(tags.octetString, 'value of an extension');
    if (found.some((other) => other.oid === oid)) throw new RangeError('an extension is there twice');
    found.push({ oid, critical, value });
  }
  for (const { oid, critical, value } of found) {
    const never = neverCritical[oid];
    if (critical && never !== undefined) later.note('1.23', `its ${never} is marked critical`);
    extensionChecks[oid]?.(new DerReader(value), later);
    const laterCheck = laterChecks[oid];
    if (laterCheck !== undefined) later.ask('1.24', () => laterCheck(new DerReader(value)));
  }
}

const neverCritical: Readonly<Record<string, string>> = {
  '551d0e': 'subject key identifier',
  '551d23': 'authority key identifier',
  '2b06010505070101': 'authority information access',
};

/** By type, what its value must be: 2.5.29.x is 551dxx. */
const extensionChecks: Readonly<Record<string, (value: DerReader, later: Later) => void>> = {
  '551d0e': (value) => void value.content(tags.octetString, 'subject key identifier'),
  '551d0f': (value) => void value.bitString('key usage'),
  '551d11': (value) => each(value, 'alternative names', checkAlternativeName),
  '551d13'(value, later) {
    const parts = value.inside(tags.sequence, 'basic constraints');
    if (parts.next === tags.boolean) parts.boolean('CA flag');
    if (parts.next !== tags.integer) return;
    const length = parts.integer('path length');
    isIn(length, -(2n ** 63n), 2n ** 63n);
    if (length < 0n) later.note('1.25', 'its path length is negative');
  },
  '551d1e': checkNameConstraints,
  '551d1f': (value) =>
    each(value, 'CRL distribution points', (points) => {
      const point = points.inside(tags.sequence, 'CRL distribution point');
      const uris = point.optional(contextConstructed(0))?.inside(contextConstructed(0), 'CRL distribution point');
      while (uris?.next === context(6)) uris.any();
    }),
  '551d20'(value, later) {
    const seen = new Set<string>();
    each(value, 'certificate policies', (policies) => {
      const oid = policies.inside(tags.sequence, 'policy').content(tags.oid, 'policy').toString('hex');
      if (!isOid(Buffer.from(oid, 'hex'))) throw new RangeError('certificate policies are damaged');
      if (seen.has(oid)) later.note('1.24', 'a certificate policy is there twice');
      seen.add(oid);
    });
  },
  '551d23'(value) {
    const parts = value.inside(tags.sequence, 'authority key identifier');
    if (parts.next === context(0)) parts.any();
  },
  '551d25': (value) => each(value, 'extended key usages', (usages) => void usages.oid('extended key usage')),
  '2b06010505070101': (value) =>
    each(value, 'authority info access', (accesses) => {
      const access = accesses.inside(tags.sequence, 'authority info access');
      access.oid('access method');
      if (access.next === context(6)) access.any();
    }),
};

/** The policy extensions, which older Go did not read. */
const laterChecks: Readonly<Record<string, (value: DerReader) => void>> = {
  '551d21': (value) =>
    each(value, 'policy mappings', (mappings) => {
      const mapping = mappings.inside(tags.sequence, 'policy mapping');
      for (const side of ['issuer', 'subject']) mapping.content(tags.oid, `policy of the ${side}`);
    }),
  '551d24'(value) {
    const parts = value.inside(tags.sequence, 'policy constraints');
    for (const number of [0, 1]) {
      if (parts.next === context(number))
        isIn(parts.integer('policy constraint', context(number)), -(2n ** 63n), 2n ** 63n);
    }
  },
  '551d36': (value) => isIn(value.integer('inhibitAnyPolicy'), -(2n ** 63n), 2n ** 63n),
};

function each(value: DerReader, what: string, check: (items: DerReader) => void): void {
  const items = value.inside(tags.sequence, what);
  while (!items.isEmpty) check(items);
}

function isIn(value: bigint, from: bigint, below: bigint): void {
  if (value < from || value >= below) throw new RangeError('number out of range');
}

const isAscii = (content: Buffer): boolean => content.every((byte) => byte < 0x80);

/** Without a limit for the size of an arc. */
function isOid(content: Buffer): boolean {
  const starts = (byte: number, at: number): boolean => byte === 0x80 && (at === 0 || (content[at - 1] ?? 0) < 0x80);
  return content.length > 0 && (content.at(-1) ?? 0) < 0x80 && !content.some(starts);
}

function checkAlternativeName(names: DerReader): void {
  const { tag, content } = names.any();
  const isAsciiKind = tag === context(1) || tag === context(2) || tag === context(6);
  if (isAsciiKind && !isAscii(content)) throw new RangeError('an alternative name is no text');
  if (tag === context(6) && !isUri(content.toString('latin1'))) throw new RangeError('an alternative name is no URI');
  if (tag === context(7) && content.length !== 4 && content.length !== 16) {
    throw new RangeError(`an IP address of ${content.length} bytes`);
  }
}

/** As far as net/url refuses what may stand in a certificate: control characters, broken escapes, a host that is none. */
function isUri(text: string): boolean {
  // oxlint-disable-next-line no-control-regex -- these are what is looked for
  if (/[\u0000-\u001f\u007f]/.test(text) || /%(?![0-9A-Fa-f]{2})/.test(text.split('?')[0] ?? '')) return false;
  const host = /^[a-z][a-z0-9+.-]*:\/\/(?:[^/?#]*@)?([^/?#]*)/i.exec(text)?.[1] ?? '';
  return !text.startsWith(':') && (host === '' || isDomain(host, false));
}

function isDomain(text: string, isConstraint: boolean): boolean {
  if (text === '') return isConstraint;
  const labels = (isConstraint && text.startsWith('.') ? text.slice(1) : text).split('.');
  return /^[!-~]*$/.test(text) && labels.every(({ length }) => length > 0);
}

function checkNameConstraints(value: DerReader): void {
  const parts = value.inside(tags.sequence, 'name constraints');
  const [permitted, excluded] = [parts.optional(contextConstructed(0)), parts.optional(contextConstructed(1))];
  const lists = [permitted, excluded].filter((list) => list !== undefined);
  if (!value.isEmpty || !parts.isEmpty || !lists.some((list) => !list.isEmpty)) {
    throw new RangeError('name constraints are empty or damaged');
  }
  for (const list of lists) while (!list.isEmpty) checkConstraint(list.inside(tags.sequence, 'name constraint').any());
}

function checkConstraint({ tag, content }: { readonly tag: number; readonly content: Buffer }): void {
  const text = content.toString('latin1');
  const isGood = ((): boolean => {
    if (tag === context(7)) return isNetwork(content);
    if (tag === context(2)) return isAscii(content) && isDomain(text, true);
    if (tag === context(6)) return isAscii(content) && isIP(text) === 0 && isDomain(text, true);
    if (tag === context(1)) return isAscii(content) && (/^[^@]+@/.test(text) || isDomain(text, true));
    return true;
  })();
  if (!isGood) throw new RangeError('a name constraint is damaged');
}

/** An address and a mask of ones followed by zeros. */
function isNetwork(content: Buffer): boolean {
  if (content.length !== 8 && content.length !== 32) return false;
  const bits = [...content.subarray(content.length / 2)].map((byte) => byte.toString(2).padStart(8, '0')).join('');
  return /^1*0*$/.test(bits);
}
