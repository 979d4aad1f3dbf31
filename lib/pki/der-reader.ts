// Reads DER from front to back as strictly as Go's cryptobyte does (golang.org/x/crypto/cryptobyte, asn1.go): lengths,
// integers, object identifiers, bit strings and times have one encoding each. OpenSSL takes more than that, and what it takes
// no Kubernetes component can load. Throws RangeError.
import { tags } from './der.ts';

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

  /** The tag of the next value; undefined at the end. */
  get next(): number | undefined {
    return this.#rest[0];
  }

  /** Tag and content of the next value, whatever it is. */
  any(): { readonly tag: number; readonly content: Buffer; readonly raw: Buffer } {
    const bytes = this.#rest;
    const { tag, start, length } = header(bytes);
    const end = start + length;
    if (end > bytes.length) throw new RangeError('cut off');
    this.#rest = bytes.subarray(end);
    return { tag, content: bytes.subarray(start, end), raw: bytes.subarray(0, end) };
  }

  /** Goes on inside the next value, if it has this tag: encoding/asn1 does not ask where an explicit tag ends. */
  enter(tag: number): boolean {
    if (this.isEmpty || ((this.next ?? 0) & longTag) === longTag) return false; // a tag of more bytes is another one
    const { start, length, tag: found } = header(this.#rest);
    if (found !== tag) return false;
    if (length === 0) throw new RangeError('explicit tag without a value');
    this.#rest = this.#rest.subarray(start);
    if (((this.next ?? 0) & longTag) !== longTag) header(this.#rest);
    return true;
  }

  /** The content of the next value, which must have this tag. */
  content(tag: number, what: string): Buffer {
    if (this.next !== tag) throw new RangeError(`${what} is missing or of another type`);
    return this.any().content;
  }

  /** The same, to read on inside. */
  inside(tag: number, what: string): DerReader {
    return new DerReader(this.content(tag, what));
  }

  /** The same; undefined where the next value has another tag. */
  optional(tag: number): DerReader | undefined {
    return this.next === tag ? new DerReader(this.any().content) : undefined;
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

  /** The bytes of a bit string, and how many bits of the last one do not count. */
  bitString(what: string): { readonly bytes: Buffer; readonly unused: number } {
    const content = this.content(tags.bitString, what);
    const unused = content[0] ?? 8;
    const bytes = content.subarray(1);
    const isPadded = ((bytes.at(-1) ?? 0) & ((1 << unused) - 1)) !== 0;
    if (unused > 7 || (bytes.length === 0 && unused > 0) || isPadded) throw new RangeError(`${what} is not DER`);
    return { bytes, unused };
  }

  /** Checked, and as hex of its content: equal texts are equal identifiers. */
  oid(what: string): string {
    const content = this.content(tags.oid, what);
    if (content.length === 0) throw new RangeError(`${what} is not DER`);
    for (let at = 0; at < content.length;) at = endOfArc(content, at, what);
    return content.toString('hex');
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

function header(bytes: Buffer): { readonly tag: number; readonly start: number; readonly length: number } {
  const [tag, first] = bytes;
  if (tag === undefined || first === undefined) throw new RangeError('cut off');
  if ((tag & longTag) === longTag) throw new RangeError('tag of more than one byte');
  if (first < 0x80) return { tag, start: 2, length: first };
  const count = first & 0x7f;
  if (count === 0 || count > 4 || bytes.length < 2 + count) throw new RangeError('length is not DER');
  const length = bytes.readUIntBE(2, count);
  if (length < 0x80 || length < 2 ** (8 * (count - 1))) throw new RangeError('length is not DER');
  return { tag, start: 2 + count, length };
}

const utcTime = 0x17;
const generalizedTime = 0x18;

/** An arc below 2^31 in as few bytes as it takes. */
function endOfArc(content: Buffer, from: number, what: string): number {
  let value = 0;
  for (let at = from; at < content.length && at < from + 5; at += 1) {
    const byte = content[at] ?? 0;
    if ((at === from && byte === 0x80) || value >= 2 ** 24) break;
    value = value * 0x80 + (byte & 0x7f);
    if (byte < 0x80) return at + 1;
  }
  throw new RangeError(`${what} is no object identifier`);
}

/** As Go's time.Parse with "060102150405Z0700" (or without seconds) and "20060102150405Z0700", and back to the same text. */
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
