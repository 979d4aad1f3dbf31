// The entries of a Secret or a ConfigMap as bytes. Pure. A server rejects values other than text; a proxy before it may
// not, and one such value must neither stop a pass nor hide the other entries.
import type { Entries } from './store.ts';

/** Common fields of a Secret (base64) and a ConfigMap (text, `binaryData` in base64). */
interface ObjectData {
  readonly data?: unknown;
  readonly binaryData?: unknown;
}

interface ObjectEntries {
  /** Readable values. */
  readonly entries: Entries;
  /** Keys of all values. */
  readonly keys: readonly string[];
  /** Why some value cannot be read, with the name of its key. */
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
