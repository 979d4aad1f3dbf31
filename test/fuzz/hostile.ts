// The worst that an API server or a disk lets in, from a seed: a valid input with one to three of its places made hostile,
// up to the size of the largest. What a place is depends on the form of the input: fields and items of JSON and YAML, blocks
// and their DER of PEM, lines and words of any text. The same seed makes the same bytes.
import { DerReader, writeDer } from '../../lib/pki/der.ts';
import { encodePem } from '../../lib/pki/pem.ts';
import { parseYaml, toYaml } from '../../lib/yaml.ts';
import { damageInsidePem, damages, type Dice } from '../support/faults/damage.ts';

export type Form = 'json' | 'yaml' | 'pem' | 'text';

export interface Growing {
  readonly dice: Dice;
  /** Bytes of the whole. */
  readonly largest: number;
}

const mib = 1 << 20;
/** Sizes that attackers have tried, sizes that fit, and the largest. */
const sizeOf = ({ dice, largest }: Growing): number => Math.min(dice.pick([60, 1000, 44_000, 300_000, mib]), largest);

/** Openings whose end a parser searches for. */
const openings = [
  '-----BEGIN CERTIFICATE-----\n',
  '-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n',
  '-----BEGIN X-----\n-----END X-----\n',
  '-----END CERTIFICATE-----',

  '[',
  '{',
  '- ',
  '"',
  "'",
  '\\',
  '\\\n',
  '%',
  '=',
  ':',
  '/',
  '-',
  '#',
  '&',
  '*',
  '|',
  '$',
  '`',
  '@',
  ',',
  '\0',
  '\r',

  ' ',
  '\t',
  '\n',
  ' \n',
  '\r\n',
  '{"a":',
  'a: ',
  '? ',
  '&a [*a,*a]\n',
  '$(',
  '${',
  '$(A',
  '$$',
  '&&',
  '||',
  '<<',

  ':v1.1.x@',
  '--flag=',
  'server:',
  'name=a\n',
  '[Service]\n',
  'ExecStart=',
  'a,',
  'a=',
  'k-',
  '.',
  '1',
  'é',
  '\u2028',
];

const strange = [
  '__proto__',
  'constructor',
  'toString',
  '',
  '\0',
  '\u001b[31m\u0007\u202e',
  '\ud800',
  'x,metadata.name=x',
  "a'; rm -rf / #",
  '-1',
  '1e999',
  '9'.repeat(400),
  '-271821-04-20T00:00:00Z',
  '+275760-09-13T00:00:00Z',
  '0001-01-01T00:00:00Z',
  'NaN',
  'null',
  '!!binary AAAA',
];

/** `text` until there are so many characters. */
const filled = (text: string, size: number): string =>
  text.repeat(Math.ceil(size / Math.max(text.length, 1))).slice(0, size);

type TextChange = (text: string, growing: Growing) => string;

const inserted: TextChange = (text, { dice, largest }) => {
  const at = dice.roll(text.length + 1);
  const size = sizeOf({ dice, largest });
  return text.slice(0, at) + filled(dice.pick(openings), size) + text.slice(at);
};

/** A part of its own, again and again: what a pattern takes for a beginning, at each place. */
const repeated: TextChange = (text, { dice, largest }) => {
  const from = dice.roll(text.length);
  const part = text.slice(from, from + 1 + dice.roll(dice.pick([4, 16, 60, 400, text.length])));
  return text.slice(0, from) + filled(part, sizeOf({ dice, largest })) + text.slice(from);
};

/** A line or a word of its own, again and again, each another one. */
const numbered: TextChange = (text, { dice, largest }) => {
  const lines = text.split('\n');
  const line = dice.pick(lines);
  const count = Math.ceil(sizeOf({ dice, largest }) / (line.length + 6));
  const more = Array.from({ length: count }, (_, at) => line.replace(/\w(?=\W*$|[:=])/, `$&${at}`));
  return [...lines, ...more].join('\n');
};

const nested: TextChange = (text, { dice, largest }) => {
  const [open, close] = dice.pick([
    ['[', ']'],
    ['{"a":', '}'],
    ['- ', ''],
    ['$(', ')'],
    ['(', ')'],
  ] as const);
  const depth = Math.ceil(sizeOf({ dice, largest }) / (open.length + close.length));
  return open.repeat(depth) + text + close.repeat(depth);
};

/** Each variable is the one before it, twice. */
const unfolding: TextChange = (text, { dice }) => {
  const lines = Array.from({ length: 40 }, (_, at) =>
    dice.pick([`a${at + 1}=$a${at}$a${at}`, `a${at + 1}: &a${at + 1} [*a${at}, *a${at}]`]),
  );
  return ['a0=xxxxxxxx', ...lines, text].join(dice.pick(['\n', ';']));
};

const replacing: TextChange = (text, { dice }) => {
  const at = dice.roll(text.length + 1);
  return text.slice(0, at) + dice.pick(strange) + text.slice(at + dice.roll(12));
};

const damagedText: TextChange = (text, { dice }) => dice.pick(damages)(Buffer.from(text), dice).toString('latin1');

const textChanges = [
  inserted,
  inserted,
  repeated,
  repeated,
  repeated,
  numbered,
  nested,
  unfolding,
  replacing,
  damagedText,
];

const changedText: TextChange = (text, growing) => growing.dice.pick(textChanges)(text, growing);

type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

const odd = (dice: Dice): Json =>
  dice.pick<Json>([
    null,
    [],
    {},
    '',
    0,
    -1,
    1e308,
    -1e308,
    2 ** 53,
    true,
    false,
    [null],
    [[]],
    { x: null },
    'x',
    ['x'],
    dice.pick(strange),
  ]);

function changedLeaf(value: string, growing: Growing): string {
  const decoded = Buffer.from(value, 'base64');
  if (value.length < 16 || decoded.toString('base64') !== value || growing.dice.roll(5) === 0)
    return changedText(value, growing);
  // Base64 of a text: what is in it meets the readers behind.
  const room = { dice: growing.dice, largest: Math.floor(growing.largest * 0.7) };
  const text = decoded.toString('latin1');
  return Buffer.from((text.includes('-----BEGIN') ? changedPem : changedText)(text, room), 'latin1').toString('base64');
}

/** The document with one place changed. */
function changedValue(value: Json, growing: Growing): Json {
  const { dice, largest } = growing;
  if (dice.roll(14) === 0) return odd(dice);
  if (typeof value === 'string') return changedLeaf(value, growing);
  if (typeof value !== 'object' || value === null) return odd(dice);
  const size = sizeOf(growing);
  if (Array.isArray(value)) {
    const list = value as readonly Json[];
    const at = dice.roll(list.length);
    const item = list[at] ?? odd(dice);
    if (list.length > 0 && dice.roll(3) > 0) return list.with(at, changedValue(item, growing));
    return [...list, ...manyOf(item, size), ...(dice.roll(4) === 0 ? [null] : [])];
  }
  const fields = value as { readonly [key: string]: Json };
  const names = Object.keys(fields);
  if (names.length === 0) return odd(dice);
  const name = dice.pick(names);
  const of = fields[name] ?? null;
  switch (dice.roll(10)) {
    case 0: // many keys
      return Object.fromEntries([
        ...Object.entries(fields),
        ...manyOf(of, size).map((one, at) => [`${name}${at}`, one] as const),
      ]);
    case 1:
      return Object.fromEntries([...Object.entries(fields), [dice.pick(strange), dice.pick([of, odd(dice)])]]);
    case 2:
      return Object.fromEntries(Object.entries(fields).filter(([each]) => each !== name));
    case 3:
      return { ...fields, [changedText(name, { dice, largest: Math.min(largest, 2000) })]: of };
    default:
      return { ...fields, [name]: changedValue(of, growing) };
  }
}

/** Each with another number in its name, where it has one. */
function manyOf(item: Json, size: number): readonly Json[] {
  const count = Math.max(1, Math.ceil(size / (JSON.stringify(item).length + 7)));
  return Array.from({ length: count }, (_, at) => numberedItem(item, at));
}

function numberedItem(item: Json, at: number): Json {
  if (typeof item === 'string') return `${item}${at}`;
  if (typeof item !== 'object' || item === null || Array.isArray(item)) return item;
  const fields = item as { readonly [key: string]: Json };
  const { name, metadata } = fields;
  if (typeof name === 'string') return { ...fields, name: `${name}${at}` };
  return metadata === undefined ? item : { ...fields, metadata: numberedItem(metadata, at) };
}

/** A PEM text changed as text, or in the DER of one of its blocks. */
function changedPem(text: string, growing: Growing): string {
  const { dice } = growing;
  const blocks = [...text.matchAll(/-----BEGIN ([A-Z0-9 ]+)-----\n([A-Za-z0-9+/=\s]*)-----END \1-----\n/g)];
  if (blocks.length === 0 || dice.roll(2) === 0) return changedText(text, growing);
  if (dice.roll(3) === 0) return damageInsidePem(Buffer.from(text, 'latin1'), dice).toString('latin1');
  const { 0: whole, 1: label = '', 2: body = '' } = dice.pick(blocks);
  const room = { dice, largest: Math.floor(growing.largest * 0.7) };
  return text.replace(whole, () => encodePem({ label, der: changedDer(Buffer.from(body, 'base64'), room) }));
}

/** DER with one value changed, and the lengths around it right. */
function changedDer(der: Buffer, growing: Growing): Buffer {
  const { dice } = growing;
  const children = valuesIn(der);
  if (children === undefined || children.length === 0 || dice.roll(8) === 0)
    return dice.roll(2) === 0 ? filledDer(der, growing) : dice.bytes(dice.roll(40));
  const at = dice.roll(children.length);
  const { tag, content, raw } = children[at] ?? { tag: 5, content: Buffer.of(), raw: Buffer.of(5, 0) };
  if (dice.roll(12) === 0) {
    const count = Math.ceil(sizeOf(growing) / raw.length);
    return Buffer.concat([
      ...children.slice(0, at).map((one) => one.raw),
      ...Array.from({ length: count }, () => raw),
      ...children.slice(at).map((one) => one.raw),
    ]);
  }
  const next = dice.roll(15) === 0 ? dice.roll(256) : tag;
  return Buffer.concat(
    children.map((one, index) => (index === at ? writeDer(next, changedDer(content, growing)) : one.raw)),
  );
}

function filledDer(der: Buffer, growing: Growing): Buffer {
  const size = sizeOf(growing);
  const { dice } = growing;
  if (dice.roll(2) === 0)
    return Buffer.concat([der, Buffer.alloc(size, dice.pick([0x00, 0x30, 0x2e, 0x41, 0x80, 0xff]))]);
  let inner: Buffer = der;
  const depth = Math.min(3000, Math.ceil(size / 4));
  for (let at = 0; at < depth; at += 1) inner = writeDer(dice.pick([0x30, 0x31, 0xa0]), inner);
  return inner;
}

function valuesIn(der: Buffer): ReturnType<DerReader['any']>[] | undefined {
  try {
    return new DerReader(der).all((values) => values.any());
  } catch {
    return undefined;
  }
}

/** A valid input, made hostile. JSON that does not fit any more is made again: nobody can send half of an object. */
export function hostileInput(seed: string, form: Form, growing: Growing): Buffer {
  for (let attempt = 0; attempt < 5; attempt += 1) {
    const bytes = madeHostile(seed, form, growing);
    if (bytes.length <= growing.largest) return bytes;
    if (form !== 'json') return bytes.subarray(0, growing.largest);
  }
  return Buffer.from(seed);
}

function madeHostile(seed: string, form: Form, growing: Growing): Buffer {
  const { dice } = growing;
  const times = 1 + dice.roll(3);
  let text = seed;
  let value = form === 'json' || form === 'yaml' ? parsed(seed, form) : undefined;
  for (let at = 0; at < times; at += 1) {
    if (value !== undefined && (form === 'json' || dice.roll(2) === 0)) value = changedValue(value, growing);
    else if (value === undefined) text = (form === 'pem' ? changedPem : changedText)(text, growing);
  }
  if (form === 'json') return Buffer.from(JSON.stringify(value));
  if (value !== undefined) text = yamlOf(value, dice);
  if (form === 'yaml' && dice.roll(2) === 0) text = changedText(text, growing);
  const bytes = Buffer.from(text, dice.roll(6) === 0 ? 'latin1' : 'utf8');
  return dice.roll(25) === 0 ? dice.pick(damages)(bytes, dice) : bytes;
}

const parsed = (seed: string, form: Form): Json => (form === 'json' ? JSON.parse(seed) : parseYaml(seed)) as Json;

function yamlOf(value: Json, dice: Dice): string {
  const json = JSON.stringify(value);
  // A large document is not written by the package that is looked at: that takes longer than all else.
  return json.length > 20_000 || dice.roll(3) === 0 ? json : toYaml(value);
}
