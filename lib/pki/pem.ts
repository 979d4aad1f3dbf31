// Reads PEM text strictly: every line like a mark belongs to a block, whole and well-formed, or the text is refused.
// Lenient readers drop a damaged block silently, and a bundle that lost a certificate to a torn write then seems
// healthy. Text and comments between blocks are allowed, headers inside a block (RFC 1421) are not, but in blocks that
// are no certificates where only certificates are wanted: Go and OpenSSL pass over those.
import { bounds } from '../bounds.ts';
import { isCode, RecoveryError } from '../errors.ts';

export interface PemBlock {
  readonly label: string;
  /** Empty: it was not read (`Foreign`). */
  readonly der: Buffer;
  /** Number of its BEGIN line, counted from 1. */
  readonly line: number;
}

const begin = /^-----BEGIN ([A-Z0-9 ]{1,64})-----$/;
const end = /^-----END ([A-Z0-9 ]{1,64})-----$/;
const boundary = /-----(?:BEGIN|END)\b/;
const base64Line = /^[A-Za-z0-9+/=]*$/;

/** No other kind of space: Go's encoding/pem knows none. A loop: `[ \t]+$` backtracks at each blank inside a line. */
function withoutBlanksAtEnd(line: string): string {
  let length = line.length;
  while (length > 0 && (line[length - 1] === ' ' || line[length - 1] === '\t')) length -= 1;
  return line.slice(0, length);
}

interface OpenBlock extends Pick<PemBlock, 'label' | 'line'> {
  readonly body: string[];
  isUnread: boolean;
}

/**
 * Whether blocks that are no certificates are read. `skipped`: one with headers only has to be closed. `unread`: all
 * that Go's pools of CAs do not count (another label, headers) only have to be closed.
 */
type Foreign = 'read' | 'skipped' | 'unread';

/** Error of a problem found with `subject`. */
export const unreadable =
  (subject: string) =>
  (problem: string): RecoveryError =>
    new RecoveryError('MaterialInvalid', `Cannot read ${subject}: ${problem}`);

type ValueOrProblem<T> =
  { readonly value: T; readonly problem?: undefined } | { readonly problem: string; readonly value?: undefined };

/** Result of `read`, or why the bytes cannot be used (MaterialInvalid). Other errors are faults, and thrown. */
export function valueOrProblem<T>(read: () => T): ValueOrProblem<T> {
  try {
    return { value: read() };
  } catch (err) {
    if (isCode(err, 'MaterialInvalid')) return { problem: err.message };
    throw err;
  }
}

/** Result of `read`; undefined where the bytes cannot be used. */
export const unlessInvalid = <T>(read: () => T): T | undefined => valueOrProblem(read).value;

export const mostBlocks = bounds.pem.most.blocks;

/**
 * Returns the blocks of `text` in their order, a thousand at most. `subject` names the content in messages:
 * `certificates of Secret "a/b"`.
 */
export function readPem(text: Uint8Array, subject: string, foreign: Foreign = 'read'): PemBlock[] {
  const refuse = (line: number, problem: string): RecoveryError =>
    unreadable(subject)(`${problem} (line ${line}), wanted whole PEM blocks`);
  const blocks: PemBlock[] = [];
  let open: OpenBlock | undefined;
  // latin1: one character for each byte, so that decoding swallows nothing (a byte order mark)
  for (const [at, untrimmed] of numberedLines(Buffer.from(text).toString('latin1'))) {
    const line = withoutBlanksAtEnd(untrimmed);
    // Most lines are base64: a text of a megabyte may have a hundred thousand.
    const isMark = line.includes('-----');
    if (!isMark && open === undefined) continue;
    if (!isMark && open !== undefined && base64Line.test(line)) {
      open.body.push(line);
      continue;
    }
    const label = begin.exec(line)?.[1];
    if (open === undefined) {
      if (label !== undefined)
        open = { label, line: at, body: [], isUnread: foreign === 'unread' && label !== 'CERTIFICATE' };
      else if (boundary.test(line)) throw refuse(at, 'a BEGIN or END mark is damaged');
      continue;
    }
    const endLabel = end.exec(line)?.[1];
    if (endLabel === open.label) {
      const der = open.isUnread ? Buffer.alloc(0) : decode(open.body.join(''));
      if (der === undefined) throw refuse(open.line, `block "${open.label}" is not base64`);
      if (blocks.length === mostBlocks) throw refuse(open.line, `more than ${mostBlocks} blocks`);
      blocks.push({ label: open.label, der, line: open.line });
      open = undefined;
    } else if (boundary.test(line)) {
      throw refuse(open.line, `block "${open.label}" is cut off`);
    } else if (line.includes(':')) {
      const isPassed = foreign === 'unread' || (foreign === 'skipped' && open.label !== 'CERTIFICATE');
      open.isUnread ||= isPassed && open.body.length === 0;
      if (!open.isUnread) throw refuse(at, `block "${open.label}" has headers`);
    } else {
      open.body.push(line.replaceAll(/[ \t]/g, ''));
    }
  }
  if (open !== undefined) throw refuse(open.line, `block "${open.label}" is cut off`);
  return blocks;
}

/** Lines with their numbers, from 1, without empty ones: a text of a megabyte may have a million of those. */
function* numberedLines(text: string): Generator<readonly [at: number, line: string]> {
  for (let at = 1, from = 0; from < text.length; at += 1) {
    const to = text.indexOf('\n', from);
    const stop = to < 0 ? text.length : to;
    const last = to > from && text[to - 1] === '\r' ? to - 1 : stop;
    if (last > from) yield [at, text.slice(from, last)];
    from = stop + 1;
  }
}

function decode(base64: string): Buffer | undefined {
  const der = Buffer.from(base64, 'base64');
  // Buffer skips invalid characters: only text that encodes to itself again was base64
  return base64 !== '' && der.toString('base64') === base64 ? der : undefined;
}

/** PEM text of a block, lines of 64 characters, a newline at the end. */
export function encodePem({ label, der }: Pick<PemBlock, 'label' | 'der'>): string {
  const lines = der.toString('base64').match(/.{1,64}/g) ?? [];
  return [`-----BEGIN ${label}-----`, ...lines, `-----END ${label}-----`, ''].join('\n');
}
