// Runs hostile inputs through readers, and says what each may not do: throw anything but a RecoveryError, keep the event
// loop for longer than 50 ms, make something of its input that is many times as large. The same seed and count are the same
// inputs. Time is that of the processor in this thread, and relative to what a fixed piece of work takes here, so that
// neither a loaded nor a slow machine decides.
import { hash } from 'node:crypto';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { RecoveryError } from '../../lib/errors.ts';
import { Dice } from '../support/faults/damage.ts';
import { type Form, hostileInput } from './hostile.ts';

export interface FuzzedReader {
  readonly name: string;
  readonly form: Form;
  /** Valid inputs; one that is refused shows a broken table. */
  readonly seeds: readonly string[];
  /** Bytes that whoever writes it can make it have. */
  readonly largest: number;
  /** Reads the input as the program does; anything thrown but a RecoveryError is a finding. */
  readonly read: (input: Buffer) => unknown;
  /** Root writes it, and it is read before anything else runs: it may take its time. */
  readonly isOurs?: true;
}

export interface Finding {
  readonly reader: string;
  readonly problem: string;
  readonly input: Buffer;
}

const longestTurnMs = 50;
/** Time of the fixed work on the quiet machine for which the bound was chosen. */
const usualWorkMs = 20;
/** Characters of a message, which becomes a line of the log. */
const longestMessage = 8192;
/** Factor of the input's size: a reader keeps its bytes for a while, with a copy or two. */
const mostForBytes = 8;

const cpuMs = (): number => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};

/** How many times slower than usual this machine is now; 1 where it is not. */
export function slowness(): number {
  const work = (): number => {
    const began = cpuMs();
    const text = JSON.stringify(Array.from({ length: 20_000 }, (_, at) => ({ name: `a${at}`, value: [at, null] })));
    for (let at = 0; at < 3; at += 1) JSON.parse(text);
    return cpuMs() - began;
  };
  const taken = [work(), work(), work(), work(), work()].toSorted((a, b) => a - b);
  return Math.max(1, (taken[2] ?? 0) / usualWorkMs);
}

interface Run {
  readonly ms: number;
  readonly problem: string | undefined;
}

async function runOnce({ read }: FuzzedReader, bytes: Buffer): Promise<Run> {
  const input = Buffer.from(bytes); // as it is read: a reader must not find what another one has kept
  const began = cpuMs();
  let made: unknown;
  let problem: string | undefined;
  try {
    made = await read(input);
  } catch (err) {
    made = err;
    if (!(err instanceof RecoveryError))
      problem = `thrown: ${err instanceof Error ? (err.stack ?? '').slice(0, 1000) : String(err)}`;
  }
  const ms = cpuMs() - began;
  return { ms, problem: problem ?? excessOf(made, bytes) };
}

function excessOf(made: unknown, input: Buffer): string | undefined {
  if (made instanceof RecoveryError && made.message.length > longestMessage)
    return `its message has ${made.message.length} characters: ${made.message.slice(0, 200)}`;
  const most = mostForBytes * input.length + 65_536;
  const size = sizeOf(made, most);
  return size > most ? `what it returns has ${size} characters, its input ${input.length}` : undefined;
}

/** Characters and bytes in a value, counted until there are more than `most`. */
function sizeOf(value: unknown, most: number): number {
  const seen = new Set<unknown>();
  const left: unknown[] = [value];
  let size = 0;
  while (left.length > 0 && size <= most) {
    const one = left.pop();
    if (typeof one === 'string') size += one.length;
    else if (typeof one === 'object' && one !== null && !seen.has(one)) {
      seen.add(one);
      size += ArrayBuffer.isView(one) ? one.byteLength : 8;
      if (ArrayBuffer.isView(one)) continue;
      if (one instanceof Map) for (const pair of one) left.push(...pair);
      else if (one instanceof Set || Array.isArray(one)) for (const item of one) left.push(item);
      else for (const [name, field] of Object.entries(one)) left.push(name, field);
    }
  }
  return size;
}

/** The finding that this input shows, if any. A slow one is measured again: garbage of others may have been collected. */
export async function problemOf(reader: FuzzedReader, input: Buffer, slower = 1): Promise<string | undefined> {
  const mostMs = (reader.isOurs === true ? Infinity : longestTurnMs) * slower;
  const first = await runOnce(reader, input);
  if (first.problem !== undefined || first.ms <= mostMs) return first.problem;
  const again = [await runOnce(reader, input), await runOnce(reader, input), await runOnce(reader, input)];
  const [, median = 0] = again.map(({ ms }) => ms).toSorted((a, b) => a - b);
  return median > mostMs
    ? `${median.toFixed(0)} ms of the processor, at most ${mostMs.toFixed(0)}: ${input.length} bytes`
    : undefined;
}

export const inputOf = ({ name, seeds, form, largest }: FuzzedReader, seed: number, at: number): Buffer => {
  const dice = new Dice(hash('sha256', `${seed} ${name} ${at}`, 'buffer').readUInt32BE(0));
  return hostileInput(dice.pick(seeds), form, { dice, largest });
};

export interface Fuzzing {
  readonly seed: number;
  /** The first of the inputs of each reader. */
  readonly from?: number;
  readonly count: number;
  readonly slower: number;
}

/** The first finding of each reader, cut down as far as it still shows. */
export async function fuzz(
  readers: readonly FuzzedReader[],
  { seed, from = 0, count, slower }: Fuzzing,
): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const reader of readers) {
    for (let at = from; at < from + count; at += 1) {
      const input = inputOf(reader, seed, at);
      const problem = await problemOf(reader, input, slower);
      if (problem === undefined) continue;
      findings.push(await smallest(reader, { input, problem: `input ${at}: ${problem}` }, slower));
      break;
    }
  }
  return findings;
}

const mostTries = 60;

/** Halves and parts are left out while the finding stays of its kind. */
async function smallest(
  reader: FuzzedReader,
  found: Pick<Finding, 'input' | 'problem'>,
  slower: number,
): Promise<Finding> {
  let { input, problem } = found;
  // A part of JSON is no JSON.
  if (reader.form === 'json') return { reader: reader.name, problem, input };
  let tries = 0;
  for (let part = input.length / 2; part >= 1 && tries < mostTries; part /= 2) {
    for (let at = 0; at < input.length && tries < mostTries; at += part, tries += 1) {
      const less = Buffer.concat([input.subarray(0, at), input.subarray(at + part)]);
      const same = await problemOf(reader, less, slower);
      if (same === undefined || isThrown(same) !== isThrown(problem)) continue;
      input = less;
      at -= part;
    }
  }
  return { reader: reader.name, problem, input };
}

const isThrown = (problem: string): boolean => problem.includes('thrown: ');

/** Lines for people: each finding, and the file that holds its input. Keys in it are those of the seeds. */
export function written(findings: readonly Finding[]): readonly string[] {
  if (findings.length === 0) return [];
  const directory = mkdtempSync(join(tmpdir(), 'fuzz-'));
  return findings.map(({ reader, problem, input }) => {
    const file = join(directory, reader.replaceAll(/\W+/g, '-'));
    writeFileSync(file, input, { mode: 0o600 });
    return `${reader}: ${problem}\n  npm run fuzz -- --reader='${reader}' --input=${file}`;
  });
}
