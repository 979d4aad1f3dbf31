// Which certificate a signer on disk has: a whole one stays whatever a copy of it says, a damaged one is put back from
// the copy that was there, and what stands behind the first decides nothing. Real disk, certificates of openssl.
import { execFile } from 'node:child_process';
import { copyFile, mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { CaBundle, ResolvedArtefact, ResolvedTarget, Signer } from '../../lib/inventory/model.ts';
import { parseCertificates } from '../../lib/pki/certificate.ts';
import type { RegenReport } from '../../lib/regen/journal.ts';
import { runRegen } from '../../lib/regen/run.ts';
import { createAuthority, createLeaf, type Pair } from '../support/certificates/certificates.ts';
import { pemOf } from '../support/certificates/later-refused.ts';
import { DiskWorld } from './disk-world.ts';

const run = promisify(execFile);
const day = 86_400_000;
const daysOff = (days: number): Date => new Date(Date.now() + days * day);

let world: DiskWorld;
beforeEach(async () => {
  world = await DiskWorld.create();
});
afterEach(() => world[Symbol.asyncDispose]());

const path = (name: string): string => join(world.directory, 'pki', name);
const made = (name: string): string => join(world.directory, 'made', name);
const lives = { readers: [], validity: 365 * day, refresh: 292 * day } as const;
const pair = (name: string) =>
  ({ kind: 'pemPair', certFile: path(`${name}.crt`), keyFile: path(`${name}.key`) }) as const;
const signer = (owned = false): Signer => ({ ...lives, kind: 'signer', name: 'ca', owned, location: pair('ca') });
const trust = (): CaBundle => ({
  kind: 'caBundle',
  name: 'trust',
  location: { kind: 'pemFile', file: path('trust.crt') },
  signers: ['ca'],
  readers: [],
});
const client = (): ResolvedTarget => ({
  ...lives,
  kind: 'target',
  name: 'client',
  location: pair('client'),
  issuer: 'ca',
  template: 'present',
  usage: 'client',
  commonName: 'client',
  organizations: [],
  hostnames: [],
});

/** The first certificate of a file, without its comments. */
async function pemIn(file: string): Promise<Buffer> {
  const [first] = parseCertificates(await readFile(file), file);
  return Buffer.from(first?.pem ?? '');
}

/** With one bit flipped: in the signature, or where it says `text` for the last time, which is in the subject. */
function flipped(pem: Buffer, text?: string): Buffer {
  const der = Buffer.from(parseCertificates(pem, 'test')[0]?.x509.raw ?? '');
  const at = text === undefined ? der.length - 3 : der.lastIndexOf(text) + 4;
  der.writeUInt8(der.readUInt8(at) ^ 1, at);
  return pemOf(der);
}

/** The PEM text of a block that nobody can read. */
const torn = (pem: Buffer): Buffer => Buffer.from(pem.toString().replace(/\n(.{10})/, '\n!!$1'));

async function install(name: string, key: string, ...pems: readonly Buffer[]): Promise<void> {
  await copyFile(key, path(`${name}.key`));
  await writeFile(path(`${name}.crt`), Buffer.concat(pems));
}

/** A CA of the same key and name with other dates, as people renew one by hand. */
async function renewed(ca: Pair, ...args: readonly string[]): Promise<Buffer> {
  const file = made('renewed.crt');
  await run('openssl', ['x509', '-in', ca.cert, '-signkey', ca.key, '-days', '3650', ...args, '-out', file]);
  return pemIn(file);
}

/** A CA that somebody else has signed, who is nowhere. */
async function intermediate(): Promise<{ root: Pair; ca: Pair; pem: Buffer }> {
  const root = await createAuthority(made('root'), { commonName: 'corporate root' });
  const ca = await createAuthority(made('ca'), { commonName: 'front-proxy-ca', signer: root });
  return { root, ca, pem: await pemIn(ca.cert) };
}

async function backUp(pem: Buffer): Promise<void> {
  const shelf = join(world.directory, 'backup', encodeURIComponent(path('ca.crt')), '000001');
  await mkdir(shelf, { recursive: true });
  await writeFile(join(shelf, 'tls.crt'), pem);
  await copyFile(path('ca.key'), join(shelf, 'tls.key'));
}

const repair = (...artefacts: readonly ResolvedArtefact[]): Promise<RegenReport> =>
  runRegen(world.options({ resolved: { name: 'test', artefacts } }));
const told = (report: RegenReport, name = 'ca') => report.artefacts.find(({ artefact }) => artefact === name);
const now = (): Promise<string> => readFile(path('ca.crt'), 'utf8');
/** How many certificates the file holds. */
const count = async (file: string): Promise<number> => (await readFile(path(file), 'utf8')).split('BEGIN').length - 1;

describe('a CA that nobody here has signed', () => {
  it.each(['subject', 'signature'])(
    'stays although a leaf brings a copy of it with a flipped bit in its %s',
    async (place) => {
      const { ca, pem } = await intermediate();
      const leaf = await createLeaf(made('leaf'), ca, { commonName: 'client' });
      await install('ca', ca.key, pem);
      const bad = flipped(pem, place === 'subject' ? 'front-proxy-ca' : undefined);
      await install('client', leaf.key, await pemIn(leaf.cert), bad);
      for (let turn = 0; turn < 3; turn += 1) {
        const report = await repair(signer(), client());
        expect(report).toMatchObject({ converged: true, writes: 0 });
        expect(told(report)?.message).toContain('its copies in client differ from it in a few bytes');
        expect(await now()).toBe(pem.toString());
      }
    },
  );

  it('stays although its backup differs, and the backups stay', async () => {
    const { ca, pem } = await intermediate();
    await install('ca', ca.key, pem);
    await backUp(flipped(pem));
    const shelves = join(world.directory, 'backup', encodeURIComponent(path('ca.crt')));
    for (let turn = 0; turn < 3; turn += 1) {
      expect(await repair(signer())).toMatchObject({ converged: true, writes: 0 });
      expect(await now()).toBe(pem.toString());
    }
    expect(await readdir(shelves)).toEqual(['000001']);
  });

  it('stays although a leaf that a damaged one has signed names that one', async () => {
    const { ca, pem } = await intermediate();
    const bad = flipped(pem, 'front-proxy-ca');
    await writeFile(made('bad.crt'), bad);
    const leaf = await createLeaf(made('leaf'), { cert: made('bad.crt'), key: ca.key }, { commonName: 'client' });
    await install('ca', ca.key, pem);
    await install('client', leaf.key, await pemIn(leaf.cert), bad);
    await backUp(bad);
    expect(await repair(signer(), client())).toMatchObject({ converged: true, writes: 1 });
    expect(await now()).toBe(pem.toString());
    await run('openssl', ['verify', '-partial_chain', '-CAfile', path('ca.crt'), path('client.crt')]);
  });

  it.each(['trust', 'backup'])(
    'is put back from %s where its root is at hand and has signed only the copy',
    async (from) => {
      const { root, ca, pem } = await intermediate();
      await install('ca', ca.key, flipped(pem));
      await writeFile(path('trust.crt'), Buffer.concat([await pemIn(root.cert), ...(from === 'trust' ? [pem] : [])]));
      if (from === 'backup') await backUp(pem);
      const report = await repair(signer(), trust());
      expect(report.converged).toBe(true);
      expect(await now()).toBe(pem.toString());
      expect(await repair(signer(), trust())).toMatchObject({ converged: true, writes: 0 });
    },
  );

  it('is put back where what it has signed names its copy and not itself', async () => {
    const { ca, pem } = await intermediate();
    const leaf = await createLeaf(made('leaf'), ca, { commonName: 'client' });
    await install('ca', ca.key, flipped(pem, 'front-proxy-ca'));
    await install('client', leaf.key, await pemIn(leaf.cert));
    await writeFile(path('trust.crt'), pem);
    expect(await repair(signer(), trust(), client())).toMatchObject({ converged: true, writes: 1 });
    expect(await now()).toBe(pem.toString());
  });
});

describe('a CA whose own signature is wrong', () => {
  it('is not replaced by its expired predecessor', async () => {
    const ca = await createAuthority(made('ca'), {
      commonName: 'etcd-ca',
      notBefore: daysOff(-20),
      notAfter: daysOff(-1),
    });
    const bad = flipped(await renewed(ca));
    await install('ca', ca.key, bad);
    await backUp(await pemIn(ca.cert));
    const report = await repair(signer());
    expect(report.writes).toBe(0);
    expect(told(report)).toMatchObject({ action: 'blocked', reason: 'Damaged' });
    expect(await now()).toBe(bad.toString());
  });

  it('is not replaced by a copy that has ended where its own dates say that it is valid', async () => {
    const dates = { notBefore: new Date('2016-01-01T00:00:00Z'), notAfter: new Date('2026-01-01T00:00:00Z') };
    const ca = await createAuthority(made('ca'), { commonName: 'etcd-ca', ...dates });
    const pem = await pemIn(ca.cert);
    const der = Buffer.from(parseCertificates(pem, 'test')[0]?.x509.raw ?? '');
    der.write('36', der.indexOf('260101000000Z'), 'latin1');
    await install('ca', ca.key, pemOf(der));
    await backUp(pem);
    const report = await repair(signer());
    expect(report.writes).toBe(0);
    expect(told(report)?.message).toContain('its copy in its backup is not valid now');
  });

  it('is put back from the copy that it resembles, where others of the same key are there', async () => {
    const ca = await createAuthority(made('ca'), { commonName: 'kubernetes' });
    const former = await pemIn(ca.cert);
    const pem = await renewed(ca);
    await install('ca', ca.key, flipped(pem), former);
    await writeFile(path('trust.crt'), Buffer.concat([pem, former]));
    expect(await repair(signer(), trust())).toMatchObject({ converged: true, writes: 1 });
    expect(await now()).toBe(Buffer.concat([pem, former]).toString());
  });
});

describe('a CA that cannot be read', () => {
  it('is put back from the only copy that is valid', async () => {
    const ca = await createAuthority(made('ca'), {
      commonName: 'kubernetes',
      notBefore: daysOff(-20),
      notAfter: daysOff(-1),
    });
    const former = await pemIn(ca.cert);
    const pem = await renewed(ca);
    await install('ca', ca.key, torn(pem));
    await writeFile(path('trust.crt'), Buffer.concat([former, pem]));
    expect(await repair(signer(), trust())).toMatchObject({ converged: true, writes: 1 });
    expect(await now()).toBe(pem.toString());
  });

  it('stays where two are valid', async () => {
    const ca = await createAuthority(made('ca'), { commonName: 'kubernetes' });
    const pem = await renewed(ca);
    await install('ca', ca.key, torn(pem));
    await writeFile(path('trust.crt'), Buffer.concat([await pemIn(ca.cert), pem]));
    const report = await repair(signer(), trust());
    expect(report.writes).toBe(0);
    expect(told(report)?.message).toContain('its copies in trust are not the same');
  });

  it('stays where what it has signed does not name the only valid one', async () => {
    const ca = await createAuthority(made('ca'), { commonName: 'old-name' });
    const leaf = await createLeaf(made('leaf'), ca, { commonName: 'client' });
    const other = await renewed(ca, '-subj', '/CN=new-name');
    await install('ca', ca.key, torn(await pemIn(ca.cert)));
    await install('client', leaf.key, await pemIn(leaf.cert));
    await writeFile(path('trust.crt'), other);
    const report = await repair(signer(), trust(), client());
    expect(report.writes).toBe(0);
    expect(told(report)?.message).toContain('its copy in trust has another name than what it has signed knows');
  });
});

describe('what stands behind the first certificate of a signer', () => {
  it.each([false, true])('when damaged keeps nobody from using the first; owned: %s', async (owned) => {
    const ca = await createAuthority(made('ca'), { commonName: 'kubernetes' });
    const old = await createAuthority(made('old'), { commonName: 'kubernetes-old' });
    const ended = { notBefore: daysOff(-10), notAfter: daysOff(-1) };
    const leaf = await createLeaf(made('leaf'), ca, { commonName: 'client', ...ended });
    const bad = flipped(await pemIn(old.cert));
    await install('ca', ca.key, await pemIn(ca.cert), bad);
    await install('client', leaf.key, await pemIn(leaf.cert));
    await writeFile(path('trust.crt'), '');
    expect(await repair(signer(owned), trust(), client())).toMatchObject({ converged: true, writes: 2 });
    expect(await now()).toBe(Buffer.concat([await pemIn(ca.cert), bad]).toString());
    expect(await readFile(path('trust.crt'), 'utf8')).toBe((await pemIn(ca.cert)).toString());
    expect(await count('client.crt')).toBe(1);
    await run('openssl', ['verify', '-CAfile', path('trust.crt'), path('client.crt')]);
  });

  it.each([false, true])('when torn is left away, and the first stays; owned: %s', async (owned) => {
    const ca = await createAuthority(made('ca'), { commonName: 'kubernetes' });
    const old = await createAuthority(made('old'), { commonName: 'kubernetes-old' });
    const pem = await pemIn(ca.cert);
    await install('ca', ca.key, pem, torn(await pemIn(old.cert)));
    expect(await repair(signer(owned))).toMatchObject({ converged: true, writes: 1 });
    expect(await now()).toBe(pem.toString());
  });

  it('when damaged is left away as the first is put back', async () => {
    const ca = await createAuthority(made('ca'), { commonName: 'kubernetes' });
    const old = await createAuthority(made('old'), { commonName: 'kubernetes-old' });
    const pem = await pemIn(ca.cert);
    await install('ca', ca.key, flipped(pem), flipped(await pemIn(old.cert)));
    await writeFile(path('trust.crt'), pem);
    expect(await repair(signer(), trust())).toMatchObject({ converged: true, writes: 1 });
    expect(await now()).toBe(pem.toString());
  });
});

describe('a CA that newer Go refuses', () => {
  it('stays in a bundle that is rewritten, and is told', async () => {
    const ca = await createAuthority(made('ca'), { commonName: 'kubernetes' });
    const legacy = await createAuthority(made('legacy'), { commonName: 'legacy' });
    const negative = await renewed(legacy, '-set_serial', '-5');
    await install('ca', ca.key, await pemIn(ca.cert));
    await writeFile(path('trust.crt'), negative);
    const report = await repair(signer(), trust());
    expect(report).toMatchObject({ converged: true, writes: 1 });
    expect(await readFile(path('trust.crt'), 'utf8')).toContain(negative.toString());
    expect(await count('trust.crt')).toBe(2);
    const refusal = 'Go 1.23 and newer refuse it: its serial number is negative';
    expect(told(report, 'trust')?.message).toBe(`2 certificate(s); CN=legacy: ${refusal}`);
  });

  it('signs', async () => {
    const ca = await createAuthority(made('ca'), { commonName: 'kubernetes' });
    const leaf = await createLeaf(made('leaf'), ca, {
      commonName: 'client',
      notBefore: daysOff(-10),
      notAfter: daysOff(-1),
    });
    await install('ca', ca.key, await renewed(ca, '-set_serial', '-5'));
    await install('client', leaf.key, await pemIn(leaf.cert));
    const report = await repair(signer(true), client());
    expect(report).toMatchObject({ converged: true, writes: 1 });
    expect(told(report)?.message).toContain('CN=kubernetes: Go 1.23 and newer refuse it');
    await run('openssl', ['verify', '-CAfile', path('ca.crt'), path('client.crt')]);
  });
});
