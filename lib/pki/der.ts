// Reads and writes DER (ITU-T X.690), as far as certificates, requests and keys need it and node:crypto does not expose
// it. Reads from front to back as strictly as Go's cryptobyte does (golang.org/x/crypto/cryptobyte, asn1.go): lengths,
// integers, object identifiers, bit strings and times have one encoding each. OpenSSL accepts more encodings, which no
// Kubernetes component can load. Throws RangeError; the caller adds the source to the message.

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

const longTag = 0x1f;

/** A position in bytes that are not copied. */
export class DerReader {
  #rest: Buffer;

  constructor(bytes: Buffer) {
    this.#rest = bytes;
  }

  get isEmpty(): boolean {
    return this.#rest.length === 0;
  }

  /** Tag of the next value; undefined after the last. */
  get next(): number | undefined {
    return this.#rest[0];
  }

  /** Returns the next value, of any tag. */
  any(): DerValue {
    const bytes = this.#rest;
    const { tag, start, length } = header(bytes);
    const end = start + length;
    if (end > bytes.length) throw new RangeError('cut off');
    this.#rest = bytes.subarray(end);
    return { tag, content: bytes.subarray(start, end), raw: bytes.subarray(0, end) };
  }

  /** Enters the next value, if it has this tag: encoding/asn1 does not check the length of an explicit tag. */
  enter(tag: number): boolean {
    if (this.isEmpty) return false;
    if (isLongTag(this.next)) {
      requireLongTag(this.#rest); // another tag, which has to be DER all the same
      return false;
    }
    const { start, length, tag: found } = header(this.#rest);
    if (found !== tag) return false;
    if (length === 0) throw new RangeError('explicit tag without a value');
    this.#rest = this.#rest.subarray(start);
    if (isLongTag(this.next)) requireLongTag(this.#rest);
    else header(this.#rest);
    return true;
  }

  /** Returns the next value, which must have this tag. */
  value(tag: number, what: string): DerValue {
    if (this.next !== tag) throw new RangeError(`${what} is missing or of another type`);
    return this.any();
  }

  content(tag: number, what: string): Buffer {
    return this.value(tag, what).content;
  }

  /** Variant of `content` that returns a reader. */
  inside(tag: number, what: string): DerReader {
    return new DerReader(this.content(tag, what));
  }

  /** Variant of `inside`; undefined where the next value has another tag. */
  optional(tag: number): DerReader | undefined {
    return this.next === tag ? new DerReader(this.any().content) : undefined;
  }

  /** Calls `read` until no value is left, and returns the results. */
  all<T>(read: (reader: this) => T): T[] {
    const found: T[] = [];
    while (!this.isEmpty) found.push(read(this));
    return found;
  }

  integer(what: string, tag: number = tags.integer): bigint {
    const content = this.content(tag, what);
    const [first, second = 0] = content;
    const isPadded = content.length > 1 && ((first === 0 && second < 0x80) || (first === 0xff && second >= 0x80));
    if (first === undefined || isPadded) throw new RangeError(`${what} is not DER`);
    return BigInt.asIntN(content.length * 8, BigInt(`0x${content.toString('hex')}`));
  }

  boolean(what: string): boolean {
    const content = this.content(tags.boolean, what);
    const [value] = content;
    if (content.length !== 1 || (value !== 0 && value !== 0xff)) throw new RangeError(`${what} is not DER`);
    return value === 0xff;
  }

  /** Returns the bytes of a bit string, and how many bits of the last one do not count. */
  bitString(what: string): { readonly bytes: Buffer; readonly unused: number } {
    const content = this.content(tags.bitString, what);
    const unused = content[0] ?? 8;
    const bytes = content.subarray(1);
    const isPadded = ((bytes.at(-1) ?? 0) & ((1 << unused) - 1)) !== 0;
    if (unused > 7 || (bytes.length === 0 && unused > 0) || isPadded) throw new RangeError(`${what} is not DER`);
    return { bytes, unused };
  }

  /** An object identifier in its dotted form: arcs below 2^31, each in the fewest bytes. */
  oid(what: string): string {
    const refuse = (): RangeError => new RangeError(`${what} is no object identifier`);
    const content = this.content(tags.oid, what);
    let text = '';
    let arc = 0;
    let isInArc = false;
    // By index: anybody may write an identifier of a megabyte, and an iterator takes ten times as long.
    for (let at = 0; at < content.length; at += 1) {
      const byte = content[at] ?? 0;
      if ((!isInArc && byte === 0x80) || arc >= 2 ** 24) throw refuse();
      arc = arc * 0x80 + (byte & 0x7f);
      isInArc = byte >= 0x80;
      if (isInArc) continue;
      const root = Math.min(Math.floor(arc / 40), 2);
      text += text === '' ? `${root}.${arc - root * 40}` : `.${arc}`;
      arc = 0;
    }
    if (isInArc || text === '') throw refuse();
    return text;
  }

  time(what: string): Date {
    const isUtc = this.next === utcTime;
    if (!isUtc && this.next !== generalizedTime) throw new RangeError(`${what} is no time`);
    const text = this.any().content.toString('latin1');
    const at = timeOf(text, isUtc);
    if (at === undefined) throw new RangeError(`${what} is no date that there is`);
    return at;
  }
}

const isLongTag = (tag = 0): boolean => (tag & longTag) === longTag;

/**
 * Checks a tag of several bytes and its length by the rules of encoding/asn1: a number from 31 to 2^31 - 1 in the
 * fewest bytes.
 */
function requireLongTag(bytes: Buffer): void {
  const size = bytes.subarray(1, 6).findIndex((byte) => byte < 0x80) + 1;
  const number = bytes.subarray(1, 1 + size).reduce((value, byte) => value * 0x80 + (byte & 0x7f), 0);
  if (size < 1 || bytes[1] === 0x80 || number < longTag || number >= 2 ** 31) {
    throw new RangeError('tag is not DER');
  }
  header(Buffer.concat([Buffer.of(0), bytes.subarray(1 + size, 8 + size)]));
}

function header(bytes: Buffer): { readonly tag: number; readonly start: number; readonly length: number } {
  const [tag, first] = bytes;
  if (tag === undefined || first === undefined) throw new RangeError('cut off');
  if (isLongTag(tag)) throw new RangeError('tag of more than one byte');
  if (first < 0x80) return { tag, start: 2, length: first };
  const count = first & 0x7f;
  if (count === 0 || count > 4 || bytes.length < 2 + count) throw new RangeError('length is not DER');
  const length = bytes.readUIntBE(2, count);
  // encoding/asn1 accepts no length from 2^31 on, also of a value that it skips
  if (length < 0x80 || length < 2 ** (8 * (count - 1)) || length >= 2 ** 31) throw new RangeError('length is not DER');
  return { tag, start: 2 + count, length };
}

const utcTime = 0x17;
const generalizedTime = 0x18;

/**
 * Parses a time by the rules of Go's time.Parse with "060102150405Z0700" (or without seconds) and
 * "20060102150405Z0700", and back to the same text.
 */
function timeOf(text: string, isUtc: boolean): Date | undefined {
  const pattern = isUtc
    ? /^(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)?(Z|[+-]\d{4})$/
    : /^(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(Z|[+-]\d{4})$/;
  const match = pattern.exec(text);
  if (match === null) return undefined;
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = match
    .slice(1, 7)
    .map((part) => Number(part ?? 0));
  const offset = offsetMinutes(match[7] ?? '');
  const full = isUtc ? year + (year >= 50 ? 1900 : 2000) : year;
  if (offset === undefined || hour > 23 || minute > 59 || second > 59) return undefined;
  const at = new Date(0);
  at.setUTCFullYear(full, month - 1, day);
  // a 30 February is a day in March for Date
  if (month < 1 || at.getUTCMonth() !== month - 1 || at.getUTCDate() !== day) return undefined;
  at.setUTCHours(hour, minute - offset, second);
  return at;
}

function offsetMinutes(zone: string): number | undefined {
  if (zone === 'Z') return 0;
  const [hours, minutes] = [Number(zone.slice(1, 3)), Number(zone.slice(3))];
  if (hours > 24 || minutes > 59 || hours + minutes === 0) return undefined;
  return (zone.startsWith('-') ? -1 : 1) * (hours * 60 + minutes);
}

/** Returns the single value in `bytes`. */
export function readDer(bytes: Buffer): DerValue {
  const reader = new DerReader(bytes);
  const value = reader.any();
  if (!reader.isEmpty) throw new RangeError('bytes after the end');
  return value;
}

/** Values inside a constructed value. */
export const childrenOf = ({ content }: DerValue): DerValue[] => new DerReader(content).all((values) => values.any());

/** The DER of a value with this content. */
export function writeDer(tag: number, ...content: readonly Uint8Array[]): Buffer {
  const body = Buffer.concat(content);
  if (body.length < 0x80) return Buffer.concat([Buffer.from([tag, body.length]), body]);
  const count = body.length < 0x100 ? 1 : body.length < 0x1_00_00 ? 2 : 3;
  const head = Buffer.from([tag, 0x80 | count, 0, 0, 0]).subarray(0, 2 + count);
  head.writeUIntBE(body.length, 2, count);
  return Buffer.concat([head, body]);
}

/**
 * Time in the format of certificates (RFC 5280, 4.1.2.5): UTCTime up to 2049, GeneralizedTime from then on; whole
 * seconds.
 */
export function derTime(at: Date): Buffer {
  const text = at.toISOString().replaceAll(/[-:T]|\.\d+/g, '');
  const isUtc = at.getUTCFullYear() >= 1950 && at.getUTCFullYear() < 2050;
  return writeDer(isUtc ? utcTime : generalizedTime, Buffer.from(isUtc ? text.slice(2) : text));
}

/** Text of a character string of any type that X.520 allows in names. */
export function stringText({ tag, content }: DerValue): string {
  switch (tag) {
    case 0x0c: // UTF8String
      return content.toString('utf8');
    case 0x1e: // BMPString: UTF-16, big-endian
      return Buffer.from(content.subarray(0, content.length & ~1))
        .swap16()
        .toString('utf16le');
    case 0x1c: {
      // UniversalString: UTF-32, big-endian
      let text = '';
      for (let at = 0; at + 4 <= content.length; at += 4) text += String.fromCodePoint(content.readUInt32BE(at));
      return text;
    }
    default: // PrintableString, IA5String, NumericString, VisibleString; T61String is read as Latin-1 everywhere
      return content.toString('latin1');
  }
}
