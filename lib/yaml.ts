// YAML in and out: the home of the `yaml` package. JSON is YAML too, so kubeconfigs of both forms are read here.
// A file of ours is read with the line of every value, so that a problem can name it. A file that may hold keys or
// tokens (a kubeconfig) is read by parseYaml, whose error names the place and the kind of mistake, never the text.
import { isUtf8 } from 'node:buffer';
import {
  Document,
  LineCounter,
  isMap,
  isScalar,
  isSeq,
  parseAllDocuments,
  parseDocument,
  stringify,
  visit,
  YAMLParseError,
} from 'yaml';
import type { YAMLError, YAMLMap } from 'yaml';
import { bounds } from './bounds.ts';
import { RecoveryError } from './errors.ts';
import { Recent } from './recent.ts';

interface YamlFile {
  readonly value: unknown;
  /** Problems of the text as YAML; `value` is useless then. */
  readonly problems: readonly { readonly line: number; readonly message: string }[];
  /** Line of the key or the list item at `path`, or of the nearest present value around it. */
  readonly lineOf: (path: readonly PropertyKey[]) => number | undefined;
}

/**
 * The text of a YAML file as Go's readers decode it (go.yaml.in/yaml readerc.go): UTF-16 by its byte order mark, else
 * UTF-8; a lone CR ends a line.
 */
export function yamlText(bytes: Uint8Array): string {
  const buffer = Buffer.from(bytes);
  const mark = byteOrderMark(buffer);
  const whole = buffer.subarray(2, buffer.length - (buffer.length % 2));
  const utf16 = mark === 0xfffe ? whole : mark === 0xfeff ? Buffer.from(whole).swap16() : undefined;
  return (utf16?.toString('utf16le') ?? buffer.toString('utf8')).replaceAll(/\r(?!\n)/g, '\n');
}

/** Whether Go's readers accept the bytes as text. */
export function isYamlText(bytes: Uint8Array): boolean {
  const mark = byteOrderMark(Buffer.from(bytes));
  return mark === 0xfffe || mark === 0xfeff || isUtf8(bytes);
}

const byteOrderMark = (buffer: Buffer): number => (buffer.length >= 2 ? buffer.readUInt16BE(0) : 0);

/** Limits by the origin of a text: a kubeconfig, a manifest or an object, or the configuration. */
const mostOf = { others: bounds.yaml.most, ours: bounds.configuration.most } as const;
type Whose = keyof typeof mostOf;
const deepest = bounds.yaml.most.levels;

/** Weight of each character: quotes come in pairs, colons and dashes stand before a blank. */
const weights = new Uint8Array(128);
for (const char of '\n\r,[]{}') weights[char.charCodeAt(0)] = 2;
for (const char of `"'&*!%?|>:-`) weights[char.charCodeAt(0)] = 1;
const [open, close] = ['[{', ']}'].map((pair) => new Set([pair.charCodeAt(0), pair.charCodeAt(1)]));

/** Why a text is not parsed; undefined within the limits. */
export function excessOf(text: string, whose: Whose): string | undefined {
  const { values, characters } = mostOf[whose];
  if (text.length > characters) return `more than ${characters} characters`;
  let weight = 0;
  let depth = 0;
  /**
   * Depth by indentation in a line: a value further in is nested in the value before it, and so is a value after a
   * dash.
   */
  let begins = 0;
  /** Keys in a line outside brackets: each is nested in the one before it. */
  let keys = 0;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    const isBegin = begins >= 0 && (code === 32 || code === 45 || code === 63 || code === 58); // ` -?:`
    if (isBegin) begins += 1;
    else begins = code === 10 ? 0 : -1;
    if (code === 10) keys = 0;
    const isWord = (code === 45 || code === 58) && text.charCodeAt(at + 1) > 32;
    const counts = code < 128 && !isWord ? (weights[code] ?? 0) : 0;
    if (counts === 0 && begins < deepest) continue;
    weight += counts;
    if (open?.has(code) === true) depth += 1;
    if (close?.has(code) === true) depth = Math.max(depth - 1, 0);
    if (weight > 2 * values) return `more than ${values} values`;
    if (code === 58 && counts > 0 && depth === 0) keys += 1;
    if (depth > deepest || begins > deepest || keys > deepest) return `values in more than ${deepest} others`;
  }
  return undefined;
}

function parse(text: string, whose: Whose) {
  const lines = new LineCounter();
  const excess = excessOf(text, whose);
  const { doc, isTooDeep } = documentOf(excess === undefined ? text : '', lines);
  if (isTooDeep) doc.errors.push(new YAMLParseError([0, 0], 'IMPOSSIBLE', 'It has values in too many others'));
  if (excess !== undefined) doc.errors.push(new YAMLParseError([0, 0], 'IMPOSSIBLE', `It has ${excess}`));
  visit(doc, { Map: (_, map) => void doc.errors.push(...repeatedKeys(map)) });
  return { doc, lines, excess };
}

/** `isTooDeep`: values are in each other deeper than the stack takes, in a way that `excessOf` does not see. */
function documentOf(text: string, lineCounter: LineCounter) {
  // The package would compare each key with each other.
  const options = { lineCounter, prettyErrors: false, uniqueKeys: false } as const;
  const doc = unlessTooDeep(() => parseDocument(text, options));
  return { doc: doc ?? parseDocument('', options), isTooDeep: doc === undefined };
}

/** Result of `read`; undefined where the stack does not suffice. */
function unlessTooDeep<T>(read: () => T): T | undefined {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0; // a damaged text may have thousands of errors, and no stack of theirs is shown
  try {
    return read();
  } catch (err) {
    if (err instanceof RangeError) return undefined;
    throw err;
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

function repeatedKeys({ items }: YAMLMap): YAMLParseError[] {
  const seen = new Set<unknown>();
  return items.flatMap(({ key }) => {
    if (!isScalar(key)) return [];
    const { value, range } = key;
    if (seen.has(value)) {
      const [from = 0, to = 0] = range ?? [];
      return [new YAMLParseError([from, to], 'DUPLICATE_KEY', 'Map keys must be unique')];
    }
    seen.add(value);
    return [];
  });
}

function valueOf(doc: Document): { value: unknown; tooManyAliases: boolean } {
  try {
    return { value: doc.toJS({ maxAliasCount: 100 }), tooManyAliases: false };
  } catch {
    return { value: undefined, tooManyAliases: true }; // a small text that would unfold into a huge one
  }
}

function lineAt({ doc, lines }: ReturnType<typeof parse>, path: readonly PropertyKey[]): number | undefined {
  let node: unknown = doc.contents;
  let offset = doc.contents?.range[0];
  for (const segment of path) {
    if (isMap(node)) {
      const pair = node.items.find(({ key }) => isScalar(key) && String(key.value) === String(segment));
      if (pair === undefined) break;
      if (isScalar(pair.key)) offset = pair.key.range?.[0] ?? offset;
      node = pair.value;
    } else if (isSeq(node)) {
      node = node.items[Number(segment)];
      if (node === undefined) break;
      if (isScalar(node) || isMap(node) || isSeq(node)) offset = node.range?.[0] ?? offset;
    } else break;
  }
  return offset === undefined ? undefined : lines.linePos(offset).line;
}

/** Reads a file of ours: all its problems as YAML, and the line of every value. */
export function readYaml(text: string, whose: Whose = 'ours'): YamlFile {
  const parsed = parse(text, whose);
  const problems = parsed.doc.errors.map((err: YAMLError) => ({
    line: parsed.lines.linePos(err.pos[0]).line,
    message: err.message,
  }));
  const { value, tooManyAliases } =
    problems.length > 0 ? { value: undefined, tooManyAliases: false } : valueOf(parsed.doc);
  if (tooManyAliases) problems.push({ line: 1, message: 'Too many aliases' });
  return { value, problems, lineOf: (path) => lineAt(parsed, path) };
}

type Mapping = Readonly<Record<string, unknown>>;

export const isMapping = (value: unknown): value is Mapping =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Most characters of a kept text; manifests and kubeconfigs of kubeadm have 6,000. */
const mostKept = 16_384;
/** Each step of a run parses what it needs: a run of one node reads some texts twenty times. */
const kept = new Recent<unknown>(24);

/** The value of a YAML or JSON text, frozen. Throws MaterialInvalid, without a word of the text. */
export function parseYaml(text: string, whose: Whose = 'others'): unknown {
  const key = `${whose} ${text}`;
  const known = kept.get(key);
  if (known !== undefined) return known;
  const value = frozen(valueOfText(text, whose));
  if (text.length <= mostKept) kept.set(key, value);
  return value;
}

function valueOfText(text: string, whose: Whose): unknown {
  const { doc, lines, excess } = parse(text, whose);
  if (excess !== undefined) throw new RecoveryError('MaterialInvalid', `Cannot parse YAML: it has ${excess}`);
  const [first] = doc.errors;
  if (first !== undefined) {
    const { line, col } = lines.linePos(first.pos[0]);
    throw new RecoveryError('MaterialInvalid', `Cannot parse YAML: ${first.code} at line ${line}, column ${col}`);
  }
  const { value, tooManyAliases } = valueOf(doc);
  if (tooManyAliases) throw new RecoveryError('MaterialInvalid', 'Cannot parse YAML: too many aliases');
  return value;
}

/** Callers share a value. Bytes (`!!binary` of YAML 1.1) cannot be frozen. */
function frozen<T>(value: T): T {
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value) || Object.isFrozen(value)) return value;
  Object.freeze(value); // first: an alias may stand in its own value
  for (const inner of Object.values(value)) frozen(inner);
  return value;
}

/** Undefined: no YAML, or no mapping. */
export function yamlMapping(text: string): Mapping | undefined {
  try {
    const value = parseYaml(text);
    return isMapping(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The mapping that components of Kubernetes read from a text: of a repeated key the last one counts (sigs.k8s.io/yaml),
 * and empty documents may stand around it. Undefined: no YAML, or not one mapping.
 */
export function componentMapping(text: string): Mapping | undefined {
  const strict = yamlMapping(text);
  if (strict !== undefined || excessOf(text, 'others') !== undefined) return strict;
  const documents = unlessTooDeep(() => [...parseAllDocuments(text, { prettyErrors: false, uniqueKeys: false })]);
  if (documents === undefined || documents.some(({ errors }) => errors.length > 0)) return undefined;
  const values = documents.map((doc) => valueOf(doc).value).filter((value) => value !== null);
  const [value] = values;
  return values.length === 1 && isMapping(value) ? value : undefined;
}

/**
 * `value` as YAML, without anchors: readable, and accepted by `kubectl apply -f`. Kubernetes reads YAML 1.1, in which
 * `on` and `0b11` are no text unless they stand in quotes. `indentSeq`: whether list items stand further in than their
 * key.
 */
export function toYaml(value: unknown, { indentSeq = true }: { readonly indentSeq?: boolean } = {}): string {
  return escaped(stringify(value, { aliasDuplicateObjects: false, lineWidth: 0, compat: 'yaml-1.1', indentSeq }));
}

/**
 * Escapes control characters: the package puts text with them into double quotes, and leaves those that JSON need not
 * escape; no YAML reader takes them (YAML 1.2, 5.1; go.yaml.in/yaml readerc.go).
 */
const escaped = (text: string): string =>
  text.replaceAll(/[\u007f-\u0084\u0086-\u009f]/g, (char) => `\\u00${char.charCodeAt(0).toString(16)}`);

/** A YAML or JSON text that is changed in places and keeps the rest: comments, order, unknown values. */
interface YamlEdit {
  readonly value: unknown;
  /** Sets the text at `path`; missing mappings on the way are created. */
  set(path: readonly (string | number)[], text: string): void;
  remove(path: readonly (string | number)[]): void;
  text(): string;
}

/** Throws what parseYaml throws. */
export function editYaml(text: string): YamlEdit {
  const value = parseYaml(text);
  let { doc } = parse(text, 'others') as { doc: Document };
  // An anchor is the same value in several places: none of them could be changed alone.
  let shared = false;
  visit(doc, { Alias: () => ((shared = true), visit.BREAK) });
  if (shared) doc = new Document(JSON.parse(JSON.stringify(value)));
  // A list that begins where its key does, as Go's encoders write it.
  const indentSeq = !/^( *)[^\s#-].*:[ \t]*\n\1- /m.test(text);
  return {
    value,
    set: (path, next) => {
      // An empty value (`user:`) is a null, and not a mapping that could take a field.
      const empty = path.findIndex((_, index) => index > 0 && doc.getIn(path.slice(0, index)) === null);
      if (empty > 0) doc.deleteIn(path.slice(0, empty));
      doc.setIn(path, next);
    },
    remove: (path) => void doc.deleteIn(path),
    // JSON stays JSON: its readers may understand nothing else.
    text: () =>
      escaped(isJson(text) ? `${JSON.stringify(doc.toJS(), null, 2)}\n` : doc.toString({ lineWidth: 0, indentSeq })),
  };
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
