// Reads and writes DER (ITU-T X.690), as far as certificates need it and node:crypto does not tell: raw names, path length,
// key usage. Strict: definite lengths, single-byte tags, nothing after the value. Throws RangeError; the caller knows
// what was read and says so.

export interface DerValue {
  readonly tag: number;
  readonly content: Buffer;
  /** Tag, length and content. */
  readonly raw: Buffer;
}

export const tags = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  oid: 0x06,
  utf8String: 0x0c,
  printableString: 0x13,
  sequence: 0x30,
  set: 0x31,
} as const;

function readAt(bytes: Buffer, offset: number): DerValue {
  const tag = bytes[offset];
  const first = bytes[offset + 1];
  if (tag === undefined || first === undefined) throw new RangeError('cut off');
  if ((tag & 0x1f) === 0x1f) throw new RangeError('tag of more than one byte');
  let length = first;
  let start = offset + 2;
  if (first >= 0x80) {
    const count = first & 0x7f;
    if (count === 0 || count > 4 || start + count > bytes.length) throw new RangeError('length is not DER');
    length = bytes.readUIntBE(start, count);
    start += count;
  }
  const stop = start + length;
  if (stop > bytes.length) throw new RangeError('cut off');
  return { tag, content: bytes.subarray(start, stop), raw: bytes.subarray(offset, stop) };
}

/** The one value that `bytes` are. */
export function readDer(bytes: Buffer): DerValue {
  const value = readAt(bytes, 0);
  if (value.raw.length !== bytes.length) throw new RangeError('bytes after the end');
  return value;
}

/** The values that a constructed value consists of. */
export function childrenOf(value: DerValue): DerValue[] {
  const children: DerValue[] = [];
  for (let offset = 0; offset < value.content.length;) {
    const child = readAt(value.content, offset);
    children.push(child);
    offset += child.raw.length;
  }
  return children;
}

/** The DER of a value with this content. */
export function writeDer(tag: number, ...content: readonly Uint8Array[]): Buffer {
  const body = Buffer.concat(content);
  if (body.length < 0x80) return Buffer.concat([Buffer.from([tag, body.length]), body]);
  const count = body.length < 0x100 ? 1 : body.length < 0x1_00_00 ? 2 : 3;
  const head = Buffer.from([tag, 0x80 | count, 0, 0, 0]).subarray(0, 2 + count);
  head.writeUIntBE(body.length, 2, count);
  return Buffer.concat([head, body]);
}

/** Dotted form of an object identifier. */
export function oidText({ content }: DerValue): string {
  const arcs: number[] = [];
  let arc = 0;
  for (const byte of content) {
    arc = arc * 128 + (byte & 0x7f);
    if (byte >= 0x80) continue;
    if (arcs.length === 0) {
      const root = Math.min(Math.floor(arc / 40), 2);
      arcs.push(root, arc - root * 40);
    } else {
      arcs.push(arc);
    }
    arc = 0;
  }
  return arcs.join('.');
}

/** Text of a character string of any type that X.520 allows in names. */
export function stringText({ tag, content }: DerValue): string {
  switch (tag) {
    case 0x0c: // UTF8String
      return content.toString('utf8');
    case 0x1e: // BMPString: UTF-16, big end first
      return Buffer.from(content.subarray(0, content.length & ~1))
        .swap16()
        .toString('utf16le');
    case 0x1c: {
      // UniversalString: UTF-32, big end first
      let text = '';
      for (let at = 0; at + 4 <= content.length; at += 4) text += String.fromCodePoint(content.readUInt32BE(at));
      return text;
    }
    default: // PrintableString, IA5String, NumericString, VisibleString; T61String is read as Latin-1 everywhere
      return content.toString('latin1');
  }
}
