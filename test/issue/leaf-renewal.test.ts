// Renewals after the certificate that is there: where its parts come from, what is kept, what is refused.
import { beforeAll, describe, expect, it } from 'vitest';
import type { CaBundle, Resolved, ResolvedTarget, Signer } from '../../lib/inventory/model.ts';
import type { Issued } from '../../lib/issue/ingredients.ts';
import { make } from '../../lib/issue/issue.ts';
import { parseCertificates } from '../../lib/pki/certificate.ts';
import type { KeyAlgorithm } from '../../lib/pki/key.ts';
import { generateKey } from '../../lib/pki/key.ts';
import type { Material } from '../../lib/store/store.ts';

const now = new Date('2026-06-01T12:00:00.700Z');
const day = 86_400_000;
const p256: KeyAlgorithm = { name: 'ECDSA', curve: 'P-256' };
const p384: KeyAlgorithm = { name: 'ECDSA', curve: 'P-384' };

const ca: Signer = {
  kind: 'signer',
  name: 'ca',
  location: { kind: 'pemPair', certFile: '/pki/ca.crt', keyFile: '/pki/ca.key' },
  readers: [],
  validity: 100 * day,
  refresh: 80 * day,
};
const other: Signer = { ...ca, name: 'other' };
const server: ResolvedTarget = {
  kind: 'target',
  name: 'server',
  location: { kind: 'pemPair', certFile: '/pki/server.crt', keyFile: '/pki/server.key' },
  readers: [],
  issuer: 'ca',
  template: 'present',
  usage: 'peer',
  commonName: 'declared',
  organizations: ['declared:group'],
  hostnames: ['10.0.0.1', 'declared.example', 'fd00::1'],
  validity: 30 * day,
  refresh: 15 * day,
};
const { issuer: _, ...selfSigned } = server;
const resolved: Resolved = { name: 'm', artefacts: [ca, other, server] };

let material: Map<string, Material>;
let asked: (KeyAlgorithm | undefined)[];
beforeAll(async () => {
  material = new Map();
  for (const artefact of [ca, other]) {
    material.set(artefact.name, await make(artefact, { resolved, material, takeKey: () => generateKey(p384), now }));
  }
});

interface Given {
  readonly present?: Material;
  readonly backup?: Material;
  readonly ca?: Material;
  readonly at?: Date;
  readonly artefacts?: Resolved['artefacts'];
}

async function renew(target: ResolvedTarget, given: Given = {}): Promise<Issued> {
  asked = [];
  const held = new Map(material);
  if (given.present !== undefined) held.set(target.name, given.present);
  if (given.ca !== undefined) held.set('ca', given.ca);
  return make(target, {
    resolved: given.artefacts === undefined ? resolved : { ...resolved, artefacts: given.artefacts },
    material: held,
    backups: new Map(given.backup === undefined ? [] : [[target.name, given.backup]]),
    takeKey: (_artefact, like) => {
      asked.push(like);
      return generateKey(p256);
    },
    now: given.at ?? now,
  });
}

const named = (commonName: string, more: Partial<ResolvedTarget> = {}): ResolvedTarget => ({
  ...server,
  commonName,
  organizations: ['b', 'a'],
  hostnames: [`${commonName}.example`],
  ...more,
});
const pem = (issued: Material): string => Buffer.from(issued.entries['tls.crt'] ?? []).toString();
const withPem = (text: string): Material => ({ entries: { 'tls.crt': Buffer.from(text) }, annotations: {} });
const leafOf = (issued: Issued) => issued.certificates[0]?.facts;

describe('a renewal takes its names', () => {
  it('from what is there, also when that has ended and its key is lost', async () => {
    const present = withPem(pem(await renew(named('old'))));
    const backup = await renew(named('older'));
    const at = new Date(now.getTime() + 40 * day);
    const issued = await renew(server, { present, backup, at });
    expect(leafOf(issued)).toMatchObject({ commonName: 'old', organizations: ['a', 'b'], hostnames: ['old.example'] });
    expect(leafOf(issued)?.usages).toEqual(['serverAuth', 'clientAuth']);
    expect(asked).toEqual([p256]);
  });

  it.each<[string, (good: Issued) => Promise<string> | string]>([
    ['is garbage', () => 'garbage'],
    ['is cut off', (good) => pem(good).slice(0, 300)],
    ['is the certificate of a CA', () => pem(material.get('ca') as Material)],
    ['may not do the work of the target', async () => pem(await renew(named('client', { usage: 'client' })))],
  ])('from the newest backup when what is there %s', async (_name, text) => {
    const backup = await renew(named('kept'));
    const issued = await renew(server, { present: withPem(await text(backup)), backup });
    expect(leafOf(issued)).toMatchObject({ commonName: 'kept', hostnames: ['kept.example'] });
  });

  it.each<[string, Partial<ResolvedTarget>]>([
    ['lacks a usage', { usage: 'client' }],
    ['lacks a usage, and the target declares no names', { usage: 'client' }],
  ])('from the declaration, and the names from what is there that %s', async (title, more) => {
    const hostnames = ['added.by.hand', '10.9.8.7'];
    const { entries } = await renew(named('client', { ...more, hostnames }));
    const isNameless = title.includes('no names');
    const issued = await renew(
      { ...server, ...(isNameless && { hostnames: [] }) },
      {
        present: { entries, annotations: {} },
      },
    );
    expect(leafOf(issued)).toMatchObject({
      commonName: 'declared',
      organizations: ['declared:group'],
      hostnames: [...hostnames, ...(isNameless ? [] : server.hostnames)].toSorted(),
      usages: ['serverAuth', 'clientAuth'],
    });
  });

  it('from the declaration when nothing is there, with a key like its issuer’s', async () => {
    const issued = await renew(server);
    expect(leafOf(issued)).toMatchObject({
      commonName: 'declared',
      organizations: ['declared:group'],
      hostnames: ['10.0.0.1', 'declared.example', 'fd00::1'],
      usages: ['serverAuth', 'clientAuth'],
    });
    expect(asked).toEqual([p384]);
  });

  it('never from what is there when the inventory declares them', async () => {
    const present = await renew(named('old', { usage: 'client' }));
    const { template: __, ...declared } = server;
    const issued = await renew({ ...declared, usage: 'client' }, { present });
    expect(leafOf(issued)).toMatchObject({ commonName: 'declared', organizations: ['declared:group'] });
    expect(issued.certificates[0]?.fields.subjectKeyId).toMatch(/^[0-9a-f]{40}$/);
  });
});

describe('a renewal is refused', () => {
  const { commonName: __, ...nameless } = server;
  it.each<[string, ResolvedTarget, string]>([
    ['a client without a common name', { ...nameless, usage: 'client', hostnames: [] }, 'no common name is known'],
    ['a server without a host name', { ...server, hostnames: [] }, 'no host name is known'],
    ['a server without any name', { ...nameless, hostnames: [] }, 'no common name and no host name is known'],
  ])('of %s', async (_name, target, says) => {
    await expect(renew(target)).rejects.toMatchObject({
      code: 'SignFailed',
      message: expect.stringContaining(`Cannot make pair "/pki/server.crt": it holds no certificate`),
    });
    await expect(renew(target)).rejects.toThrow(says);
  });

  it('when its issuer has ended', async () => {
    const at = new Date(now.getTime() + 101 * day);
    await expect(renew(server, { at })).rejects.toMatchObject({ code: 'SignFailed' });
  });

  it('when the bundle of its issuer does not know it', async () => {
    const bundle: CaBundle = {
      kind: 'caBundle',
      name: 'bundle',
      location: { kind: 'pemFile', file: '/pki/bundle.crt' },
      readers: [],
      signers: ['ca'],
    };
    material.set('bundle', {
      entries: { 'ca-bundle.crt': Buffer.from(pem(material.get('other') as Material)) },
      annotations: {},
    });
    await expect(renew(server, { artefacts: [ca, other, bundle, server] })).rejects.toThrow(
      'file "/pki/bundle.crt" would not verify it',
    );
  });
});

describe('a renewal', () => {
  it('begins and ends with its CA, so that it is valid whatever the clock showed when it was made', async () => {
    const at = new Date(now.getTime() + 90 * day);
    const [signer] = parseCertificates(Buffer.from(pem(material.get('ca') as Material)), 'ca');
    expect(leafOf(await renew(server, { at }))).toMatchObject({
      notBefore: signer?.facts.notBefore,
      notAfter: signer?.facts.notAfter,
    });
  });

  it('without an issuer begins with what it follows, else five minutes early', async () => {
    const serving: ResolvedTarget = { ...selfSigned, usage: 'serving' };
    const first = await renew(serving);
    expect(leafOf(first)?.notBefore).toEqual(new Date('2026-06-01T11:55:00Z'));
    const inFiveYears = new Date(now.getTime() + 5 * 365 * day);
    const next = await renew(serving, { present: first, at: inFiveYears });
    expect(leafOf(next)?.notBefore).toEqual(new Date('2026-06-01T11:55:00Z'));
    const early = await renew(serving, { present: next, at: new Date(now.getTime() - day) });
    expect(leafOf(early)?.notBefore).toEqual(new Date('2026-05-31T11:55:00Z'));
  });

  it('stands alone in its file but for what followed the old one there', async () => {
    const old = await renew(named('old'));
    const [first, second] = [pem(material.get('ca') as Material), pem(material.get('other') as Material)];
    const parameters = '-----BEGIN DH PARAMETERS-----\nMAYCAQUCAQI=\n-----END DH PARAMETERS-----\n';
    const key = Buffer.from(old.entries['tls.key'] ?? []).toString();
    const text = `Certificate: of old\n${pem(old)}${first}\n${pem(old)}# a comment\n${key}${parameters}${second}`;
    const issued = await renew(server, { present: withPem(text) });
    const [leaf] = issued.certificates;
    expect(leaf?.facts.commonName).toBe('old');
    expect(pem(issued)).toBe(`${leaf?.pem ?? ''}${first}${parameters}${second}`);
    expect(issued.certificates).toHaveLength(3);
    expect(pem(await renew(server))).not.toContain('-----END CERTIFICATE-----\n-----BEGIN');
  });

  it('trusts a signer without a bundle by its own file, in which further CAs may stand', async () => {
    const both = `${pem(material.get('ca') as Material)}${pem(material.get('other') as Material)}`;
    const { entries } = material.get('ca') as Material;
    const signer = { entries: { ...entries, 'tls.crt': Buffer.from(both) }, annotations: {} };
    const issued = await renew(server, { ca: signer });
    expect(issued.certificates).toHaveLength(1);
    const unlike = {
      entries: { ...entries, 'tls.crt': Buffer.from(pem(material.get('other') as Material)) },
      annotations: {},
    };
    await expect(renew(server, { ca: unlike })).rejects.toThrow('its key does not belong to its certificate');
  });

  it('of a kubeconfig brings the first certificate of its issuer’s file along', async () => {
    const location = { kind: 'kubeconfig', file: '/etc/kubernetes/admin.conf', endpoint: 'local' } as const;
    const { entries } = material.get('ca') as Material;
    const both = Buffer.from(`${pem(material.get('ca') as Material)}${pem(material.get('other') as Material)}`);
    const signer = { entries: { ...entries, 'tls.crt': both }, annotations: {} };
    const issued = await renew({ ...server, location, usage: 'client' }, { ca: signer });
    expect(Object.keys(issued.entries)).toEqual(['tls.crt', 'tls.key', 'ca.crt']);
    expect(Buffer.from(issued.entries['ca.crt'] ?? []).toString()).toBe(pem(material.get('ca') as Material));
  });

  describe('of a kubeconfig', () => {
    const conf: ResolvedTarget = {
      ...server,
      usage: 'client',
      location: { kind: 'kubeconfig', file: '/etc/kubernetes/admin.conf', endpoint: 'local' },
    };
    const cas = () => {
      const [live, others] = [pem(material.get('ca') as Material), pem(material.get('other') as Material)];
      return { live, others };
    };
    const authorityAfter = async (authority: string | undefined, more: Partial<Given> & { problem?: string } = {}) => {
      const { entries } = await renew(conf);
      const { 'ca.crt': _authority, ...credentials } = entries;
      const known = authority === undefined ? {} : { 'ca.crt': Buffer.from(authority) };
      const { problem, ...given } = more;
      const present = { entries: { ...credentials, ...known }, annotations: {}, ...(problem && { problem }) };
      const { entries: after } = await renew(conf, { present, ...given });
      return after['ca.crt'] === undefined ? undefined : Buffer.from(after['ca.crt']).toString();
    };

    it('leaves a CA bundle as it is that holds the live CA, comments and all', async () => {
      const { live, others } = cas();
      const bundle = `# corporate\n${others}# ours\n${live}`;
      expect(await authorityAfter(bundle)).toBe(bundle);
    });

    it('puts the live CA before others that are valid, and leaves out what has expired', async () => {
      const { live, others } = cas();
      expect(await authorityAfter(others)).toBe(`${live}${others}`);
      const short = await make(
        { ...other, validity: 1 * day },
        { resolved, material, takeKey: () => generateKey(p256), now },
      );
      const at = new Date(now.getTime() + 2 * day);
      expect(await authorityAfter(`${pem(short)}${others}`, { at })).toBe(`${live}${others}`);
      expect(await authorityAfter('garbage')).toBe(live);
    });

    it('adds no CA where there is none: its holder knows the server by the roots of the system', async () => {
      expect(await authorityAfter(undefined)).toBeUndefined();
    });

    it('gives one to a kubeconfig whose own cannot be read, and goes by a backup where there is no document', async () => {
      const { live, others } = cas();
      expect(await authorityAfter(undefined, { problem: 'its embedded data is not base64' })).toBe(live);
      const backup = { entries: { 'ca.crt': Buffer.from(others) }, annotations: {} };
      const garbage = { entries: {}, annotations: {}, problem: 'it is not a mapping' };
      const { entries } = await renew(conf, { present: garbage, backup });
      expect(Buffer.from(entries['ca.crt'] ?? []).toString()).toBe(`${live}${others}`);
    });
  });

  it('of a combined file makes certificate and key', async () => {
    const issued = await renew({
      ...server,
      location: { kind: 'combinedPem', file: '/var/lib/kubelet/pki/current.pem' },
    });
    expect(Object.keys(issued.entries)).toEqual(['tls.crt', 'tls.key']);
  });

  it('without an issuer is self-signed and stands alone', async () => {
    const old = await renew({ ...selfSigned, usage: 'serving', commonName: 'node-1@1760000000' });
    const text = `${pem(old)}${pem(material.get('other') as Material)}`;
    const issued = await renew({ ...selfSigned, usage: 'serving' }, { present: withPem(text) });
    expect(pem(issued)).toBe(issued.certificates[0]?.pem);
    const { facts, fields, x509 } = issued.certificates[0] ?? expect.fail('no certificate');
    expect(facts).toMatchObject({
      commonName: 'node-1@1760000000',
      isCa: false,
      notAfter: new Date('2026-07-01T12:00:00Z'),
    });
    expect(facts.issuer).toBe(facts.subject);
    expect(fields.authorityKeyId).toBeUndefined();
    expect(x509.verify(x509.publicKey)).toBe(true);
  });
});
