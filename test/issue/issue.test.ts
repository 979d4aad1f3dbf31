import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CaBundle, ComposedBundle, Copy, ResolvedTarget, Signer } from '../../lib/inventory/model.ts';
import { type Authority, type Issued, readAuthority, readBundle } from '../../lib/issue/ingredients.ts';
import { issueBundle, issueCopy, issueSigner } from '../../lib/issue/issue.ts';
import { issueTarget } from '../../lib/issue/leaf.ts';
import { joinBundles, mergeBundle } from '../../lib/pki/bundle.ts';
import { generateKey, type PrivateKey } from '../../lib/pki/key.ts';

const now = new Date('2026-06-01T12:00:00.700Z');
const day = 86_400_000;
const readers = [] as const;
const root = {
  kind: 'signer',
  name: 'root',
  location: { kind: 'secret', namespace: 'ns', name: 'root-signer' },
  readers,
  validity: 60 * day,
  refresh: 30 * day,
} satisfies Signer;
const intermediate = {
  ...root,
  name: 'middle',
  location: { ...root.location, name: 'middle' },
  issuer: 'root',
} satisfies Signer;
const serving = {
  kind: 'target',
  name: 'serving',
  location: { kind: 'secret', namespace: 'ns', name: 'serving' },
  readers,
  issuer: 'root',
  usage: 'serving',
  organizations: [],
  hostnames: ['127.0.0.1', 'localhost'],
  validity: 30 * day,
  refresh: 15 * day,
} satisfies ResolvedTarget;
const client = {
  ...serving,
  usage: 'client',
  commonName: 'kubernetes-admin',
  organizations: ['system:masters', 'short'],
  hostnames: [],
} satisfies ResolvedTarget;
const bundle = {
  kind: 'caBundle',
  name: 'bundle',
  location: { kind: 'configMap', namespace: 'ns', name: 'bundle' },
  readers,
  signers: ['root'],
} satisfies CaBundle;
const composed = { ...bundle, kind: 'composedBundle', inputs: ['bundle'] } satisfies ComposedBundle & {
  signers: unknown;
};

let key: PrivateKey;
let rootIssued: Issued;
let authority: Authority;
let middleAuthority: Authority;
let directory: string;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'issue-'));
  key = await generateKey({ name: 'ECDSA', curve: 'P-256' });
  rootIssued = await issueSigner({ artefact: root, key, now });
  authority = readAuthority(root.location, rootIssued.entries);
  const middle = await issueSigner({ artefact: intermediate, issuer: authority, key: await newKey(), now });
  middleAuthority = readAuthority(intermediate.location, middle.entries);
});
afterAll(() => rmSync(directory, { recursive: true }));

const newKey = (): Promise<PrivateKey> => generateKey({ name: 'ECDSA', curve: 'P-256' });
const text = (issued: Issued, entry: string): string => Buffer.from(issued.entries[entry] ?? []).toString();
const count = (pem: string): number => pem.match(/BEGIN CERTIFICATE/g)?.length ?? 0;

function opensslVerify(issued: Issued, roots: string, purpose: string): string {
  const [leaf, ca] = [join(directory, 'leaf.pem'), join(directory, 'ca.pem')];
  writeFileSync(leaf, text(issued, 'tls.crt'));
  writeFileSync(ca, roots);
  const time = String(Math.floor(now.getTime() / 1000));
  const args = [
    'verify',
    '-x509_strict',
    '-attime',
    time,
    '-purpose',
    purpose,
    '-CAfile',
    ca,
    '-untrusted',
    leaf,
    leaf,
  ];
  return execFileSync('openssl', args, { encoding: 'utf8' });
}

describe('issueSigner()', () => {
  it('names a signer of the API by namespace, name and time, and one on disk by its artefact', async () => {
    expect(rootIssued.certificates[0]?.facts.commonName).toBe(`ns_root-signer@${Math.floor(now.getTime() / 1000)}`);
    const onDisk = {
      ...root,
      location: { kind: 'pemPair', certFile: '/a/ca.crt', keyFile: '/a/ca.key' },
    } satisfies Signer;
    const issued = await issueSigner({ artefact: onDisk, key, now });
    expect(issued.certificates[0]?.facts.commonName).toBe(`root@${Math.floor(now.getTime() / 1000)}`);
    expect(issued.annotations).toEqual({});
  });

  it('begins five minutes early, as Kubernetes dates what it signs, and lasts for its validity', () => {
    expect(rootIssued.certificates[0]?.facts).toMatchObject({
      notBefore: new Date('2026-06-01T11:55:00Z'),
      notAfter: new Date('2026-07-31T12:00:00Z'),
      isCa: true,
    });
  });

  it('writes the annotations that users of OpenShift read', () => {
    expect(rootIssued.annotations).toEqual({
      'auth.openshift.io/certificate-not-before': '2026-06-01T11:55:00Z',
      'auth.openshift.io/certificate-not-after': '2026-07-31T12:00:00Z',
      'auth.openshift.io/certificate-issuer': `ns_root-signer@${Math.floor(now.getTime() / 1000)}`,
    });
  });

  it('makes an intermediate CA that stands alone in its file and verifies', async () => {
    const issued = await issueSigner({ artefact: intermediate, issuer: authority, key: await newKey(), now });
    expect(count(text(issued, 'tls.crt'))).toBe(1);
    expect(opensslVerify(issued, text(rootIssued, 'tls.crt'), 'any')).toContain('OK');
  });

  it('refuses to make an intermediate CA self-signed', async () => {
    await expect(issueSigner({ artefact: intermediate, key, now })).rejects.toMatchObject({ code: 'SignFailed' });
  });
});

describe('issueTarget()', () => {
  it('sends the signer along with a serving certificate and names its hosts in an annotation', async () => {
    const issued = await issueTarget({ artefact: serving, issuer: authority, key: await newKey(), now });
    expect(count(text(issued, 'tls.crt'))).toBe(2);
    expect(issued.annotations['auth.openshift.io/certificate-hostnames']).toBe('127.0.0.1,localhost');
    expect(issued.certificates[0]?.facts.commonName).toBe('127.0.0.1');
    expect(opensslVerify(issued, text(rootIssued, 'tls.crt'), 'sslserver')).toContain('OK');
  });

  it('leaves a client certificate alone in its file, with its groups shortest first', async () => {
    const issued = await issueTarget({ artefact: client, issuer: authority, key: await newKey(), now });
    expect(count(text(issued, 'tls.crt'))).toBe(1);
    expect(issued.certificates[0]?.facts.organizations).toEqual(['short', 'system:masters']);
    expect(opensslVerify(issued, text(rootIssued, 'tls.crt'), 'sslclient')).toContain('OK');
  });

  it('sends an intermediate signer along with a client certificate', async () => {
    const issued = await issueTarget({ artefact: client, issuer: middleAuthority, key: await newKey(), now });
    expect(count(text(issued, 'tls.crt'))).toBe(2);
    expect(opensslVerify(issued, text(rootIssued, 'tls.crt'), 'sslclient')).toContain('OK');
  });

  it('is capped at its signer', async () => {
    const long = { ...serving, validity: 3650 * day };
    const issued = await issueTarget({ artefact: long, issuer: authority, key: await newKey(), now });
    expect(issued.certificates[0]?.facts.notAfter).toEqual(authority.certificate.facts.notAfter);
  });

  it('refuses a signer that has expired', async () => {
    const later = new Date(now.getTime() + 61 * day);
    await expect(issueTarget({ artefact: serving, issuer: authority, key, now: later })).rejects.toMatchObject({
      code: 'SignFailed',
    });
  });
});

describe('issueBundle()', () => {
  it('keep former certificates until they expire, and are the same bytes in any order', () => {
    const [a, b] = [authority.certificate, middleAuthority.certificate];
    const one = issueBundle(bundle, mergeBundle({ first: [a], rest: [b, a], now }));
    const other = issueBundle(composed, joinBundles({ certificates: [b, a, b], now }));
    expect(text(one, 'ca-bundle.crt')).toBe(text(other, 'ca-bundle.crt'));
    expect(readBundle(bundle.location, one.entries)).toHaveLength(2);
  });

  it('refuse to be empty', () => {
    expect(() => issueBundle(composed, [])).toThrow('no valid certificate is left');
  });
});

describe('issueCopy()', () => {
  const copy = { ...bundle, kind: 'copy', of: 'root', location: { ...root.location, name: 'copy' } } satisfies Copy & {
    signers: unknown;
  };

  it('copies bytes and says what they are', () => {
    const issued = issueCopy(copy, rootIssued.entries);
    expect(issued.entries).toEqual(rootIssued.entries);
    expect(issued.annotations).toEqual(rootIssued.annotations);
  });

  it('refuses an original that holds nothing known or nothing readable', () => {
    expect(() => issueCopy(copy, {})).toThrow('Cannot copy');
    expect(() => issueCopy(copy, { 'tls.crt': Buffer.from('x') })).toThrow('Cannot read');
  });
});

describe('readAuthority()', () => {
  it('refuses a key that does not belong to the certificate', async () => {
    const other = Buffer.from((await newKey()).pem);
    expect(() => readAuthority(root.location, { ...rootIssued.entries, 'tls.key': other })).toThrow(
      'Cannot sign with Secret "ns/root-signer"',
    );
  });
});
