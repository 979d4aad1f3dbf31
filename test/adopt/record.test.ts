import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parseRecord, readRecord, recordText, removeRecord, writeRecord } from '../../lib/adopt/record.ts';
import { digestOf } from '../../lib/adopt/static-pods.ts';
import { adoptionFile } from '../../lib/install/layout.ts';
import { recordIn } from '../support/cluster/adopted-files.ts';

let root: string;
let directory: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'adopted-'));
  directory = join(root, 'own');
});
afterEach(() => rm(root, { recursive: true, force: true }));

const record = () => recordIn(root);
const edited = (change: (value: Record<string, unknown>) => unknown): string =>
  JSON.stringify(change(JSON.parse(recordText(record())) as Record<string, unknown>));

describe('the record of an adoption', () => {
  it('says again what was added, to the digest', () => {
    const read = parseRecord(recordText(record()), directory);
    expect(read).toEqual(record());
    expect(read.additions.map((addition) => digestOf(addition))).toEqual(
      record().additions.map((addition) => digestOf(addition)),
    );
  });

  it.each<[string, (value: Record<string, unknown>) => unknown, string]>([
    ['of another version', (value) => ({ ...value, apiVersion: 'kube-cert-recovery/v2' }), 'it is not of version'],
    ['of another kind', (value) => ({ ...value, kind: 'Configuration' }), 'it is not of version'],
    ['with an unknown field', (value) => ({ ...value, more: 1 }), 'field "more" is unknown'],
    ['without a node', (value) => ({ ...value, nodeName: '' }), 'it has no nodeName'],
    [
      'of another node',
      (value) => ({ ...value, nodeName: 'other' }),
      'its directories or its nodeName have been edited',
    ],
    ['with a relative path', (value) => ({ ...value, pkiDir: 'pki' }), 'a directory is no absolute path'],
    ['of no pod', (value) => ({ ...value, additions: [] }), 'static pods, each once'],
    [
      'of one twice',
      (value) => ({ ...value, additions: Array(2).fill((value['additions'] as unknown[])[0]) }),
      'each once',
    ],
    [
      'that has lost a pod',
      (value) => ({ ...value, additions: (value['additions'] as unknown[]).slice(1) }),
      'names other pods than its digests',
    ],
    ['with a label that is none', withAddition({ seLinux: { type: '' } }), 'has a seLinux that is no label'],
    ['with another image', withAddition({ image: 'example.com/other' }), 'kube-apiserver has been edited'],
    ['with an unknown field of a pod', withAddition({ privileged: true }), 'has an unknown field "privileged"'],
    ['with files elsewhere', withAddition({ layout: {} }), 'has files elsewhere than below'],
    ['with flags that are none', withAddition({ flags: { a: 1 } }), 'has no flags'],
    ['that is no mapping', () => [], 'it is no JSON object'],
  ])('is refused %s', (_, change, problem) => {
    expect(() => parseRecord(edited(change), directory)).toThrow(
      new RegExp(`^Cannot use record "${adoptionFile(directory)}": .*${problem}.*; run .* again`),
    );
  });

  it('may hold those pods alone to which an adoption has come', () => {
    const some = { ...record(), additions: record().additions.slice(0, 2) };
    expect(parseRecord(recordText(some), directory)).toEqual(some);
  });

  it('is refused half written', () => {
    expect(() => parseRecord(recordText(record()).slice(0, 200), directory)).toThrow('it is no JSON object');
  });

  it('is written, read and removed', async () => {
    expect(await readRecord(directory)).toBeUndefined();
    await writeRecord(directory, record());
    expect(await readRecord(directory)).toEqual(record());
    await removeRecord(directory);
    await removeRecord(directory);
    expect(await readRecord(directory)).toBeUndefined();
  });
});

function withAddition(fields: object) {
  return (value: Record<string, unknown>) => {
    const [first, ...rest] = value['additions'] as readonly object[];
    return { ...value, additions: [{ ...first, ...fields }, ...rest] };
  };
}
