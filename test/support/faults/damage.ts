// Damage as disks, power losses and editors make it, from a seed: the same number gives the same damage everywhere.

/** Numbers from a seed (mulberry32): enough for damage, and the same in every version of Node. */
export class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** A whole number from 0 to `below` - 1. */
  roll(below: number): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * below);
  }

  pick<T>(of: readonly T[]): T {
    const one = of[this.roll(of.length)];
    if (one === undefined && of.length === 0) throw new Error('nothing to pick from');
    return one as T;
  }

  bytes(count: number): Buffer {
    return Buffer.from(Array.from({ length: count }, () => this.roll(256)));
  }
}

export type Damage = (bytes: Buffer, dice: Dice) => Buffer;

const flipBit: Damage = (bytes, dice) => {
  const next = Buffer.from(bytes);
  if (next.length > 0) {
    const at = dice.roll(next.length);
    next[at] = (next[at] ?? 0) ^ (1 << dice.roll(8));
  }
  return next;
};

const flipByte: Damage = (bytes, dice) => {
  const next = Buffer.from(bytes);
  if (next.length > 0) next[dice.roll(next.length)] = dice.roll(256);
  return next;
};

const cut: Damage = (bytes, dice) => bytes.subarray(0, dice.roll(bytes.length + 1));

const cutFront: Damage = (bytes, dice) => bytes.subarray(dice.roll(bytes.length + 1));

const cutOut: Damage = (bytes, dice) => {
  const from = dice.roll(bytes.length + 1);
  return Buffer.concat([bytes.subarray(0, from), bytes.subarray(from + 1 + dice.roll(64))]);
};

const zeros: Damage = (bytes, dice) => {
  const next = Buffer.from(bytes);
  const from = dice.roll(next.length + 1);
  return next.fill(0, from, Math.min(next.length, from + 1 + dice.roll(512)));
};

const repeat: Damage = (bytes, dice) => {
  const from = dice.roll(bytes.length + 1);
  const part = bytes.subarray(from, from + 1 + dice.roll(200));
  return Buffer.concat([bytes.subarray(0, from), part, bytes.subarray(from)]);
};

const garbage: Damage = (_bytes, dice) => dice.bytes(dice.roll(300));

const garbageInside: Damage = (bytes, dice) => {
  const from = dice.roll(bytes.length + 1);
  return Buffer.concat([bytes.subarray(0, from), dice.bytes(1 + dice.roll(40)), bytes.subarray(from)]);
};

const byLines =
  (change: (lines: string[], dice: Dice) => string[]): Damage =>
  (bytes, dice) =>
    Buffer.from(change(bytes.toString('latin1').split('\n'), dice).join('\n'), 'latin1');

const swapLines = byLines((lines, dice) => {
  const [one, other] = [dice.roll(lines.length), dice.roll(lines.length)];
  return lines.with(one, lines[other] ?? '').with(other, lines[one] ?? '');
});

const dropLine = byLines((lines, dice) => lines.toSpliced(dice.roll(lines.length), 1));

const empty: Damage = () => Buffer.alloc(0);

const anyBytes: readonly Damage[] = [flipBit, flipBit, flipByte, cut, cutFront, cutOut, zeros, repeat, garbageInside];

/** Of a text as a whole. */
export const damages: readonly Damage[] = [...anyBytes, swapLines, dropLine, garbage, empty];

/** One digit of a date: what OpenSSL and Go differ most about. */
const flipDate: Damage = (der, dice) => {
  const next = Buffer.from(der);
  const dates = [...next.keys()].filter((at) => next[at] === 0x17 && next[at + 1] === 13);
  if (dates.length > 0) {
    const at = dice.pick(dates) + 2 + dice.roll(13);
    next[at] = (next[at] ?? 0) ^ (1 << dice.roll(8));
  }
  return next;
};

/** Damage below the text: in the base64 of one PEM block, so that the text around it stays whole. */
export const damageInsidePem: Damage = (text, dice) => {
  const blocks = [...text.toString('latin1').matchAll(/-----BEGIN ([A-Z ]+)-----\n([^-]*)-----END \1-----\n/g)];
  if (blocks.length === 0) return dice.pick(damages)(text, dice);
  const { 0: whole, 1: label = '', 2: body = '', index } = dice.pick(blocks);
  const damage = dice.roll(4) === 0 ? flipDate : dice.pick(anyBytes);
  const der = damage(Buffer.from(body, 'base64'), dice);
  const armour = [
    `-----BEGIN ${label}-----`,
    ...(der.toString('base64').match(/.{1,64}/g) ?? []),
    `-----END ${label}-----`,
  ];
  const next = Buffer.from(`${armour.join('\n')}\n`, 'latin1');
  return Buffer.concat([text.subarray(0, index), next, text.subarray(index + whole.length)]);
};

type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

const oddValues: readonly Json[] = [null, [], {}, '', 'x', 0, true, [null], { x: null }, ['x', {}], -1, 'Null'];

/** A document with an odd value at one place, or without it, or with another of its own values there. */
export function damageValue(document: Json, dice: Dice): Json {
  if (typeof document !== 'object' || document === null || dice.roll(6) === 0) return dice.pick(oddValues);
  if (Array.isArray(document)) {
    const list = document as readonly Json[];
    if (list.length === 0) return dice.pick(oddValues);
    const at = dice.roll(list.length);
    if (dice.roll(5) === 0) return [...list, list[at] ?? null];
    return dice.roll(5) === 0 ? list.toSpliced(at, 1) : list.with(at, damageValue(list[at] ?? null, dice));
  }
  const fields = document as { readonly [key: string]: Json };
  const names = Object.keys(fields);
  if (names.length === 0) return dice.pick(oddValues);
  const name = dice.pick(names);
  if (dice.roll(5) === 0) return Object.fromEntries(Object.entries(fields).filter(([each]) => each !== name));
  if (dice.roll(5) === 0) return { ...fields, [name]: fields[dice.pick(names)] ?? null };
  return { ...fields, [name]: damageValue(fields[name] ?? null, dice) };
}
