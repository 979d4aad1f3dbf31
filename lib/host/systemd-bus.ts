// systemd of the machine over its private socket, for a pod that has the socket and no systemctl. The protocol is that of
// D-Bus (D-Bus specification, "Message Protocol"), without a bus: systemd answers root there before any other service
// runs. Calls take texts and are made one after the other.
import { createConnection, type Socket } from 'node:net';
import type { Clock } from '../clock.ts';
import { errorText, RecoveryError } from '../errors.ts';

const destination = 'org.freedesktop.systemd1';
const managerPath = '/org/freedesktop/systemd1';
const kinds = { call: 1, answer: 2, error: 3 } as const;
const everyMs = 250;
/** Of a process that has ended by itself (waitid(2), CLD_EXITED). */
const exited = 1;
/** An answer may take as long as systemd loads its units; a job ends by the unit's own TimeoutStartSec, ten minutes at most. */
const limits = { answerMs: 90_000, jobMs: 11 * 60_000 };

interface Asking {
  readonly clock: Pick<Clock, 'sleep'>;
  readonly signal: AbortSignal;
  readonly socketPath?: string;
  readonly limits?: typeof limits;
}

/** A unit's end: systemd's result (`success`, `exit-code`, `timeout`), and the exit code of its command. */
export interface UnitEnd {
  readonly result: string;
  readonly exitCode: number;
  /** Whether its command has ended by itself; false of a unit that systemd has no more, whose result is `success`. */
  readonly hasExited: boolean;
}

/** Loads the units anew, starts one and waits for the end of its job. Throws PreconditionFailed where systemd does not answer. */
export async function runUnit(unit: string, asking: Asking): Promise<UnitEnd> {
  return withSystemd('start', unit, asking, async ({ manager, property, jobEnds }) => {
    await manager('Reload');
    await jobEnds(); // a start would join one that is under way, such as that of a former version
    await manager('StartUnit', unit, 'replace');
    await jobEnds();
    const result = textAt(await property('Service', 'Result'), 4); // a variant of type s
    const number = async (name: string) => (await property('Service', name)).readInt32LE(4); // of type i
    return { result, exitCode: await number('ExecMainStatus'), hasExited: (await number('ExecMainCode')) === exited };
  });
}

/** Stops a unit, which may be none by now, and waits until it has ended; afterwards it does not count as failed. Throws as runUnit. */
export async function stopUnit(unit: string, asking: Asking): Promise<void> {
  await withSystemd('stop', unit, asking, async ({ manager, jobEnds }) => {
    await manager('StopUnit', unit, 'replace').catch(() => undefined); // it is not loaded
    await jobEnds();
    await manager('ResetFailedUnit', unit).catch(() => undefined);
  });
}

interface Systemd {
  readonly manager: (method: string, ...texts: readonly string[]) => Promise<Buffer>;
  readonly property: (of: string, name: string) => Promise<Buffer>;
  readonly jobEnds: () => Promise<void>;
}

async function withSystemd<T>(does: string, unit: string, asking: Asking, work: (systemd: Systemd) => Promise<T>) {
  const { clock, signal, socketPath = '/run/systemd/private', limits: { answerMs, jobMs } = limits } = asking;
  const socket = createConnection({ path: socketPath, signal });
  socket.setTimeout(answerMs, () => void socket.destroy(new Error(`no answer within ${answerMs} ms`)));
  const read = reader(socket);
  const call = async (path: string, member: string, ...texts: readonly string[]): Promise<Buffer> => {
    socket.write(messageOf(path, member, texts));
    return answerTo(read, member);
  };
  const manager: Systemd['manager'] = async (method, ...texts) =>
    call(managerPath, `${destination}.Manager.${method}`, ...texts);
  const property: Systemd['property'] = async (of, name) =>
    call(unitPath(unit), 'org.freedesktop.DBus.Properties.Get', `${destination}.${of}`, name);
  const jobEnds = async (): Promise<void> => {
    // A variant of type (uo): the number of the job, 0 without one.
    for (let waitedMs = 0; (await property('Unit', 'Job')).readUInt32LE(8) !== 0; waitedMs += everyMs) {
      if (waitedMs >= jobMs) throw new Error(`its job has not ended within ${jobMs} ms`);
      await clock.sleep(everyMs, signal);
    }
  };
  try {
    // "0" in hexadecimal digits: root; the kernel tells systemd whether that is so. All at once, as systemctl does: a call
    // that systemd reads together with BEGIN waits for more to be read (libsystemd/sd-bus/bus-socket.c).
    socket.write('\0AUTH EXTERNAL 30\r\nBEGIN\r\n');
    let said = '';
    while (!said.endsWith('\n')) said += (await read(1)).toString('latin1');
    if (!said.startsWith('OK ')) throw new Error(`it answered ${said.trim()}`);
    return await work({ manager, property, jobEnds });
  } catch (err) {
    const message = `Cannot have systemd of this machine ${does} ${unit} ("${socketPath}"): ${errorText(err)}`;
    throw new RecoveryError('PreconditionFailed', message, { cause: err });
  } finally {
    socket.destroy();
  }
}

/** Path of a unit's object: all but letters and digits is escaped (sd_bus_path_encode(3)). Pure. */
export const unitPath = (unit: string): string =>
  `${managerPath}/unit/${unit.replaceAll(/^\d|[^A-Za-z0-9]/g, (one) => `_${Buffer.from(one).toString('hex')}`)}`;

/** A method call. `member`: with its interface. Pure. */
function messageOf(path: string, member: string, texts: readonly string[]): Buffer {
  const at = member.lastIndexOf('.');
  const joined = (parts: readonly Buffer[], to: number): Buffer =>
    parts.reduce((before, part) => Buffer.concat([padded(before, to), part]), Buffer.alloc(0));
  const field = (code: number, type: string, value: Buffer): Buffer =>
    Buffer.concat([Buffer.from([code, 1]), Buffer.from(`${type}\0`), value]);
  const fields = [
    field(1, 'o', textBytes(path)),
    field(2, 's', textBytes(member.slice(0, at))),
    field(3, 's', textBytes(member.slice(at + 1))),
    field(6, 's', textBytes(destination)),
    field(8, 'g', Buffer.from([texts.length, ...Buffer.from(`${'s'.repeat(texts.length)}\0`)])),
  ];
  const [header, body] = [joined(fields, 8), joined(texts.map(textBytes), 4)];
  const head = Buffer.alloc(16);
  head.set([0x6c, kinds.call, 0, 1]); // little endian, no flags, version 1
  head.writeUInt32LE(body.length, 4);
  head.writeUInt32LE(1, 8); // its number: one call at a time
  head.writeUInt32LE(header.length, 12);
  return Buffer.concat([padded(Buffer.concat([head, header]), 8), body]);
}

const padded = (bytes: Buffer, to: number): Buffer => Buffer.concat([bytes, Buffer.alloc(-bytes.length & (to - 1))]);

function textBytes(text: string): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32LE(Buffer.byteLength(text));
  return Buffer.concat([length, Buffer.from(`${text}\0`)]);
}

const textAt = (bytes: Buffer, at: number): string => bytes.toString('utf8', at + 4, at + 4 + bytes.readUInt32LE(at));

/** Body of the answer; signals that come meanwhile are left out. */
async function answerTo(read: Read, member: string): Promise<Buffer> {
  for (;;) {
    const head = await read(16);
    const [kind, length, ofFields] = [head[1], head.readUInt32LE(4), head.readUInt32LE(12)];
    const rest = await read(ofFields + (-ofFields & 7) + length);
    const body = rest.subarray(rest.length - length);
    if (kind === kinds.error) throw new Error(`${member}: ${length > 4 ? textAt(body, 0) : 'refused'}`);
    if (kind === kinds.answer) return body;
  }
}

type Read = ReturnType<typeof reader>;

/** Reads as many bytes as it is asked for. */
function reader(socket: Socket) {
  const pieces = socket[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  let held = Buffer.alloc(0);
  return async (length: number): Promise<Buffer> => {
    while (held.length < length) {
      const { done, value } = await pieces.next();
      if (done === true) throw new Error('it has closed the connection');
      held = Buffer.concat([held, value]);
    }
    const taken = held.subarray(0, length);
    held = held.subarray(length);
    return taken;
  };
}
