// What is known of kubeconfigs and combined PEM files, and when a backup is asked for. Real certificates, a store in
// memory.
import { execFileSync } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RecoveryError } from '../../lib/errors.ts';
import type { Location, Resolved, ResolvedArtefact, ResolvedTarget } from '../../lib/inventory/model.ts';
import type { CertificateFacts } from '../../lib/pki/certificate.ts';
import type { ArtefactFacts } from '../../lib/plan/facts.ts';
import { gather } from '../../lib/plan/gather.ts';
import { type Found, locationText, type Store } from '../../lib/store/store.ts';
import { createAuthority, createLeaf } from '../support/certificates/certificates.ts';
import { MemoryStore } from '../support/stories/memory-store.ts';

const lives = { readers: [], validity: 2, refresh: 1 } as const;
const ca: ResolvedArtefact = {
  ...lives,
  kind: 'signer',
  name: 'ca',
  location: { kind: 'pemPair', certFile: '/ca.crt', keyFile: '/ca.key' },
};
const conf: ResolvedTarget = {
  ...lives,
  kind: 'target',
  name: 'conf',
  location: { kind: 'kubeconfig', file: '/a.conf', endpoint: 'local' },
  issuer: 'ca',
  template: 'present',
  usage: 'client',
  commonName: 'me',
  organizations: [],
  hostnames: [],
};
const combined: ResolvedTarget = { ...conf, name: 'combined', location: { kind: 'combinedPem', file: '/c.pem' } };
const optional: ResolvedTarget = {
  ...conf,
  name: 'optional',
  presence: 'optional',
  location: { kind: 'combinedPem', file: '/o.pem' },
};
const declared: ResolvedTarget = {
  ...conf,
  name: 'declared',
  template: 'declared',
  location: { kind: 'combinedPem', file: '/d.pem' },
};
const resolved: Resolved = { name: 'host', artefacts: [ca, conf, combined, optional, declared] };

const dates = { notBefore: new Date('2025-01-01T00:00:00Z'), notAfter: new Date('2035-01-01T00:00:00Z') };
let directory = '';
let pems: Record<'ca' | 'caKey' | 'leaf' | 'leafKey', Buffer>;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'gather-'));
  const authority = await createAuthority(join(directory, 'ca'), { commonName: 'ca', ...dates });
  const leaf = await createLeaf(join(directory, 'leaf'), authority, { commonName: 'me' });
  const files = [authority.cert, authority.key, leaf.cert, leaf.key].map((file) => readFile(file));
  const [first, second, third, fourth] = (await Promise.all(files)) as [Buffer, Buffer, Buffer, Buffer];
  pems = { ca: first, caKey: second, leaf: third, leafKey: fourth };
});
afterAll(() => rm(directory, { recursive: true, force: true }));

const found = (entries: Found['entries'], more: Partial<Found> = {}): Found => ({
  entries,
  annotations: {},
  version: '1',
  ...more,
});
const pair = (): Found => found({ 'tls.crt': pems.leaf, 'tls.key': pems.leafKey });

async function look(there: Readonly<Record<string, Found>>, backup?: Store['backup']) {
  const rows = resolved.artefacts.flatMap(({ name, location }): [string, Found][] => {
    const one = there[name] ?? (name === 'ca' ? found({ 'tls.crt': pems.ca, 'tls.key': pems.caKey }) : undefined);
    return one === undefined ? [] : [[locationText(location), one]];
  });
  const memory = new MemoryStore(new Map(rows));
  const store: Store = {
    read: (location) => memory.read(location),
    write: () => Promise.reject(new Error('nothing is written by a look')),
    ...(backup !== undefined && { backup }),
  };
  return gather({ resolved, store, now: new Date('2026-01-01T00:00:00Z'), signal: AbortSignal.timeout(5000) });
}

const certificatesOf = (fact: ArtefactFacts | undefined): readonly CertificateFacts[] =>
  fact?.state === 'present' ? fact.certificates : expect.fail('not present');

const asked = (answer: Found | RecoveryError | undefined) => {
  const places: string[] = [];
  const backup = (location: Location): Promise<Found | undefined> => {
    places.push(locationText(location));
    return answer instanceof RecoveryError ? Promise.reject(answer) : Promise.resolve(answer);
  };
  return { places, backup };
};

describe('gather() of a host', () => {
  it.each<[string, string, () => Found, RegExp]>([
    ['a CA', 'ca', () => found({ 'tls.key': pems.caKey }), /^Cannot use pair "\/ca.crt": file "\/ca.crt" is absent$/],
    ['the key of a CA', 'ca', () => found({ 'tls.crt': pems.ca }), /has no private key: file "\/ca.key" is absent$/],
    ['a certificate in one file', 'combined', () => found({ 'tls.key': pems.leafKey }), /: it holds no certificate$/],
    ['a key in one file', 'combined', () => found({ 'tls.crt': pems.leaf }), /: it holds no private key$/],
  ])('names the file where %s is absent, and no entry of a Secret', async (_, name, there, message) => {
    const { facts } = await look({ [name]: there() });
    expect(facts.get(name)).toMatchObject({ message: expect.stringMatching(message) as string });
  });

  it('takes a CA that may not sign certificates for broken', async () => {
    const at = join(directory, 'unable');
    const unable = `${at}.crt`;
    const extensions = ['basicConstraints=critical,CA:TRUE', 'keyUsage=critical,digitalSignature'];
    const options = ['-newkey', 'rsa:2048', '-nodes', '-keyout', `${at}.key`, '-out', unable, '-subj', '/CN=ca'];
    execFileSync('openssl', ['req', '-x509', ...options, ...extensions.flatMap((one) => ['-addext', one])], {
      stdio: 'ignore',
    });
    const { facts } = await look({
      ca: found({ 'tls.crt': await readFile(unable), 'tls.key': await readFile(`${at}.key`) }),
    });
    expect(facts.get('ca')).toMatchObject({
      state: 'broken',
      problem: 'unreadable',
      message: expect.stringContaining('may not sign certificates') as string,
    });
  });

  it('tells who signed the certificate of a kubeconfig and by which CA it knows its server', async () => {
    const { facts } = await look({ conf: found({ ...pair().entries, 'ca.crt': pems.ca }), combined: pair() });
    const authority = facts.get('ca');
    if (authority?.state !== 'present') throw new Error('the CA is not there');
    const [root] = authority.certificates;
    expect(facts.get('conf')).toMatchObject({
      state: 'present',
      authorities: [root?.fingerprint],
      certificates: [{ commonName: 'me', signedBy: [root?.fingerprint] }],
    });
    expect(facts.get('conf')).toMatchObject({ authorityIsForeign: undefined });
    expect(facts.get('combined')).toMatchObject({
      state: 'present',
      certificates: [{ signedBy: [root?.fingerprint] }],
    });
    expect(facts.get('combined')).not.toHaveProperty('authorities');
  });

  it.each([
    ['none', {}, undefined],
    ['a torn one', { 'ca.crt': Buffer.from('-----BEGIN CERTIFICATE-----\nAAAA') }, []],
  ])('knows no CA of a kubeconfig that has %s', async (_title, entries, authorities) => {
    const { facts } = await look({ conf: found({ ...pair().entries, ...entries }) });
    const fact = facts.get('conf');
    expect(fact?.state === 'present' && fact.authorities).toEqual(authorities);
    expect(fact).toMatchObject({ othersAuthorityEnds: undefined });
  });

  it('says that the CA of a kubeconfig is in a file of others', async () => {
    const { facts } = await look({
      conf: found({ ...pair().entries, 'ca.crt': pems.ca }, { authorityIsForeign: true }),
    });
    expect(facts.get('conf')).toMatchObject({ state: 'present', authorityIsForeign: true });
  });

  it('takes what its store cannot understand for broken, and keeps the certificate in it for a template', async () => {
    const problem = 'Cannot use kubeconfig "/a.conf": it has no current context';
    const { facts, backups } = await look({ conf: found({ 'tls.crt': pems.leaf }, { problem }), combined: pair() });
    expect(facts.get('conf')).toMatchObject({
      state: 'broken',
      problem: 'unreadable',
      message: problem,
      certificates: [{ commonName: 'me' }],
    });
    expect([...(backups ?? [])]).toEqual([]);
  });

  it('does not mind other blocks in a file of this host', async () => {
    const others = Buffer.concat([
      Buffer.from('-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n'),
      pems.leaf,
    ]);
    const { facts } = await look({ combined: found({ 'tls.crt': others, 'tls.key': pems.leafKey }) });
    expect(facts.get('combined')).toMatchObject({ state: 'present' });
  });
});

describe('gather() of certificates that others have a part in', () => {
  it('counts the intermediate CA that a leaf brings along, and only one that is valid', async () => {
    const root = { cert: join(directory, 'ca/tls.crt'), key: join(directory, 'ca/tls.key') };
    const both = async (name: string, ends?: Date) => {
      const options = { commonName: name, signer: root, ...dates, ...(ends && { notAfter: ends }) };
      const middle = await createAuthority(join(directory, name), options);
      const leaf = await createLeaf(join(directory, `${name}-leaf`), middle, { commonName: 'me', ...dates });
      const certificates = await Promise.all([leaf.cert, middle.cert].map((file) => readFile(file)));
      return found({ 'tls.crt': Buffer.concat(certificates), 'tls.key': await readFile(leaf.key) });
    };
    const { facts } = await look({
      combined: await both('middle'),
      optional: await both('ended', new Date('2025-12-01T00:00:00Z')),
    });
    const [authority] = certificatesOf(facts.get('ca'));
    expect(certificatesOf(facts.get('combined'))[0]?.signedBy).toContain(authority?.fingerprint);
    expect(certificatesOf(facts.get('optional'))[0]?.signedBy).not.toContain(authority?.fingerprint);
  });

  it('tells a former CA of ours, by its name or its key, from one of others', async () => {
    const others = await createAuthority(join(directory, 'corporate'), { commonName: 'corporate', ...dates });
    const former = await createAuthority(join(directory, 'former'), { commonName: 'ca' });
    const [corporate, old] = await Promise.all([others.cert, former.cert].map((file) => readFile(file)));
    const endOf = async (...pem: (Buffer | undefined)[]) => {
      const authority = Buffer.concat(pem.flatMap((one) => one ?? []));
      const { facts } = await look({ conf: found({ ...pair().entries, 'ca.crt': authority }) });
      const fact = facts.get('conf');
      return fact?.state === 'present' ? fact.othersAuthorityEnds : expect.fail('not present');
    };
    expect(await endOf(corporate)).toBeInstanceOf(Date);
    expect(await endOf(old)).toBeUndefined();
    expect(await endOf(corporate, old)).toBeUndefined();
    expect(await endOf(pems.ca)).toBeUndefined();
  });

  it('takes the credentials of others for no fault that a backup could mend', async () => {
    const { places, backup } = asked(undefined);
    const foreign = 'kubeconfig "/a.conf" is left alone: its user authenticates by "exec"';
    const { facts } = await look({ conf: found({}, { foreign }), combined: pair() }, backup);
    expect(facts.get('conf')).toEqual({
      state: 'broken',
      certificates: [],
      problem: 'foreign',
      version: '1',
      message: foreign,
    });
    expect(places).toEqual([]);
  });

  it('says of a kubeconfig that it would be made from nothing: no document, and no backup', async () => {
    const garbage = found({}, { problem: 'it is not a mapping' });
    const edited = found({ 'tls.key': pems.leafKey }, { problem: 'its embedded data is not base64' });
    const factOf = async (there: Found | undefined, kept?: Found) =>
      (await look({ ...(there && { conf: there }), combined: pair() }, asked(kept).backup)).facts.get('conf');
    expect(await factOf(undefined)).toHaveProperty('madeFromNothing', true);
    expect(await factOf(garbage)).toHaveProperty('madeFromNothing', true);
    expect(await factOf(edited)).not.toHaveProperty('madeFromNothing');
    expect(await factOf(undefined, pair())).not.toHaveProperty('madeFromNothing');
  });
});

describe('backups', () => {
  it('are asked for only where a template is lost: absent though required, or without a certificate', async () => {
    const { places, backup } = asked(undefined);
    await look({ combined: found({ 'tls.crt': Buffer.from('torn'), 'tls.key': pems.leafKey }) }, backup);
    expect(places.toSorted()).toEqual(['file "/c.pem"', 'kubeconfig "/a.conf"']);
  });

  it('are not asked for on a healthy host, nor where the certificate without its key serves', async () => {
    const { places, backup } = asked(undefined);
    await look({ conf: pair(), combined: found({ 'tls.crt': pems.leaf }) }, backup);
    expect(places).toEqual([]);
  });

  it('are handed on', async () => {
    const { backup } = asked(pair());
    const { backups } = await look({ combined: pair() }, backup);
    expect([...(backups ?? [])].map(([name]) => name)).toEqual(['conf']);
  });

  it('that cannot be read are none: what is declared serves', async () => {
    const { backup } = asked(new RecoveryError('ReadFailed', 'Cannot read'));
    const { backups, facts } = await look({ combined: pair() }, backup);
    expect([...(backups ?? [])]).toEqual([]);
    expect(facts.get('conf')).toEqual({ state: 'absent', madeFromNothing: true });
  });
});
