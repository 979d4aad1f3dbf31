// Requests for a key that is there, read by openssl and by our own reader.
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createPublicKey } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseCertificateRequest } from '../../lib/pki/csr.ts';
import { generateKey, type KeyAlgorithm } from '../../lib/pki/key.ts';
import { distinguishedName } from '../../lib/pki/names.ts';
import { signRequest } from '../../lib/pki/own-request.ts';

const run = promisify(execFile);
const subject = distinguishedName('system:node:tiger', ['system:nodes']);
let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'own-request-'));
});
afterAll(() => rm(directory, { recursive: true }));

describe('signRequest()', () => {
  it.each<KeyAlgorithm>([
    { name: 'RSA', bits: 2048 },
    { name: 'ECDSA', curve: 'P-256' },
    { name: 'ECDSA', curve: 'P-384' },
    { name: 'ECDSA', curve: 'P-521' },
    { name: 'Ed25519' },
  ])('asks with a key of $name $curve$bits as openssl reads it', async (algorithm) => {
    const { key } = await generateKey(algorithm);
    const pem = await signRequest(subject, key);
    const file = join(directory, 'request.pem');
    await writeFile(file, pem);
    const read = ['req', '-in', file, '-verify', '-noout', '-subject', '-pubkey', '-nameopt', 'RFC2253'];
    const { stdout, stderr } = await run('openssl', read);
    expect(stderr).toMatch(/verify OK/i);
    expect(stdout).toContain('subject=CN=system:node:tiger,O=system:nodes');
    expect(stdout).toContain(createPublicKey(key).export({ type: 'spki', format: 'pem' }));
  });

  it('asks for nothing besides the subject, in its own bytes', async () => {
    const { key } = await generateKey({ name: 'ECDSA', curve: 'P-256' });
    const request = parseCertificateRequest(Buffer.from(await signRequest(subject, key)), 'test');
    expect(request).toMatchObject({ provesPossession: true, extensions: [], attributes: [], alternativeNames: [] });
    expect(request.subject.der.equals(subject.der)).toBe(true);
    expect(request).not.toHaveProperty('unusualSubject');
  });
});
