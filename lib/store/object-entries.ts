// The entries of a Secret or a ConfigMap as bytes. Pure. A server keeps other values than text out; what stands between it
// and us may not, and one value that is none must neither end a look nor hide the others.
import type { Entries } from './store.ts';

/** What a Secret (base64) and a ConfigMap (text, `binaryData` in base64) have in common. */
interface ObjectData {
  readonly data?: unknown;
  readonly binaryData?: unknown;
}

interface ObjectEntries {
  /** Of the values that can be read. */
  readonly entries: Entries;
  /** Of all values. */
  readonly keys: readonly string[];
  /** Why not all can be read, with the name of the key. */
  readonly problem?: string | undefined;
}

/** A ConfigMap's `binaryData` are entries like its `data`; their keys never overlap. */
export function objectEntries(kind: 'secret' | 'configMap', { data, binaryData }: ObjectData): ObjectEntries {
  const parts = [
    partOf('data', data, kind === 'secret' ? 'base64' : 'utf8'),
    ...(kind === 'configMap' ? [partOf('binaryData', binaryData, 'base64')] : []),
  ];
  const problem = parts.find((part) => part.problem !== undefined)?.problem;
  return {
    entries: Object.fromEntries(parts.flatMap(({ entries }) => Object.entries(entries))),
    keys: parts.flatMap(({ keys }) => keys),
    problem,
  };
}

function partOf(field: string, values: unknown, encoding: BufferEncoding): ObjectEntries {
  if (values === undefined || values === null) return { entries: {}, keys: [] };
  if (typeof values !== 'object' || Array.isArray(values)) {
    return { entries: {}, keys: [], problem: `its ${field} is ${kindOf(values)}, wanted a mapping` };
  }
  const all = Object.entries(values as Readonly<Record<string, unknown>>);
  // Go encodes an empty value as null.
  const read = all.flatMap(([key, value]): [string, Uint8Array][] =>
    value === null || typeof value === 'string' ? [[key, Buffer.from(value ?? '', encoding)]] : [],
  );
  const odd = all.find(([, value]) => value !== null && typeof value !== 'string');
  const problem = odd && `its entry ${JSON.stringify(odd[0])} is ${kindOf(odd[1])}, wanted text`;
  return {
    entries: Object.fromEntries(read),
    keys: all.map(([key]) => key),
    problem,
  };
}

const kindOf = (value: unknown): string =>
  Array.isArray(value) ? 'a list' : typeof value === 'object' ? 'a mapping' : `a ${typeof value}`;
