// HTTP for any client that can connect: of each connection one request is read, as far as the end of its header, and answered;
// then it ends. Node's own server keeps a request and a response of each that a client sends ahead, so that clients
// which never read an answer take all memory.
import type { Socket } from 'node:net';
import { bounds } from './bounds.ts';
import type { Clock } from './clock.ts';
import { errorText } from './errors.ts';

export interface SingleRequest {
  readonly method: string;
  /** Path with query, as sent. */
  readonly target: string;
}

/** Status lines of our answers. The table of node:http would load all of HTTP at each start. */
const statusTexts = {
  200: 'OK',
  400: 'Bad Request',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  431: 'Request Header Fields Too Large',
  500: 'Internal Server Error',
} as const;

export interface Answer {
  readonly status: keyof typeof statusTexts;
  readonly body: string;
  readonly type?: string;
  readonly allow?: string;
}

type Answering = (asked: SingleRequest) => Promise<Answer>;

/** Time of a connection, from its start to its end: an answer takes milliseconds. */
const longestMs = 5000;
const mostBytes = bounds.health.most.bytes;

/** Answers one request of a connection that may be half open, and ends it. */
export function answerOne(socket: Socket, clock: Clock, answering: Answering): void {
  const closed = new AbortController();
  socket.on('error', () => undefined).once('close', () => closed.abort());
  void clock.sleep(longestMs, closed.signal).then(() => socket.destroy());
  converse(socket, answering).catch(() => socket.destroy());
}

async function converse(socket: Socket, answering: Answering): Promise<void> {
  const asked = parseHeader(await readHeader(socket));
  const isRequest = 'method' in asked;
  const answer = isRequest ? await answering(asked).catch(failure) : asked;
  if (socket.destroyed) return;
  socket.end(textOf(answer, isRequest && asked.method === 'HEAD'));
  // A socket closed before all is read resets the connection, and a client may lose the answer.
  let left = mostBytes;
  for await (const piece of pieces(socket)) if ((left -= piece.length) < 0) socket.destroy();
}

const pieces = (socket: Socket): AsyncIterable<Buffer> => socket.iterator({ destroyOnReturn: false });

/** Up to the limit, with its end if that has come. Rejects when the client ends before. */
async function readHeader(socket: Socket): Promise<string> {
  let text = '';
  for await (const piece of pieces(socket)) {
    text += piece.toString('latin1');
    if (headerEnd.test(text) || text.length > mostBytes) return text.slice(0, mostBytes);
  }
  throw new Error('the client has gone');
}

const headerEnd = /\r?\n\r?\n/;
const requestLine = /^(?<method>[A-Z]+) (?<target>\S+) HTTP\/1\.(?<minor>[01])\r?\n/;
const hostLine = /\nhost:/i;

/** The request, or the answer to what is none. RFC 9112, 3.2: without a Host only HTTP/1.0 is answered. */
function parseHeader(text: string): SingleRequest | Answer {
  const end = headerEnd.exec(text)?.index;
  if (end === undefined) return { status: 431, body: 'header too large\n' };
  const { method, target, minor } = requestLine.exec(text)?.groups ?? {};
  const isComplete = minor === '0' || hostLine.test(text.slice(0, end));
  if (method === undefined || target === undefined || !isComplete) return { status: 400, body: 'bad request\n' };
  return { method, target };
}

const failure = (err: unknown): Answer => ({ status: 500, body: `${errorText(err)}\n` });

function textOf({ status, body, type = 'text/plain; charset=utf-8', allow }: Answer, isHead: boolean): string {
  const lines = [
    `HTTP/1.1 ${status} ${statusTexts[status]}`,
    `content-type: ${type}`,
    `content-length: ${Buffer.byteLength(body)}`,
    'cache-control: no-store',
    'x-content-type-options: nosniff',
    ...(allow === undefined ? [] : [`allow: ${allow}`]),
    'connection: close',
  ];
  return `${lines.join('\r\n')}\r\n\r\n${isHead ? '' : body}`;
}
