// Damage in CA certificates, told from CAs that others have signed. What it looks at is openssl's.
import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Certificate, parseCertificates } from '../../lib/pki/certificate.ts';
import { isDamaged, resembles } from '../../lib/pki/damage.ts';
import { encodePem } from '../../lib/pki/pem.ts';
import { opensslDir, type OpensslDir } from './openssl.ts';

let dir: OpensslDir;
beforeAll(async () => {
  dir = await opensslDir();
});
afterAll(() => dir[Symbol.asyncDispose]());

const read = async (name: string): Promise<Certificate> => {
  const [certificate] = parseCertificates(await readFile(dir.path(name)), name);
  return certificate ?? expect.fail('no certificate');
};
const fromDer = (der: Buffer): Certificate => {
  const [certificate] = parseCertificates(Buffer.from(encodePem({ label: 'CERTIFICATE', der })), 'test');
  return certificate ?? expect.fail('no certificate');
};

interface Made {
  readonly name: string;
  readonly subject: string;
  readonly algorithm?: readonly string[];
  readonly by?: string;
  readonly extensions?: string;
}

const p256 = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256'];

/** A CA of openssl; without `by` self-signed. */
async function ca({
  name,
  subject,
  algorithm = p256,
  by,
  extensions = 'authorityKeyIdentifier=keyid:always',
}: Made): Promise<Certificate> {
  const config = `[req]\ndistinguished_name=dn\nx509_extensions=ext\n[dn]\n[ext]\nbasicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\nsubjectKeyIdentifier=hash\n${extensions}\n`;
  const file = await dir.file(`${name}.cnf`, config);
  const signer = by === undefined ? [] : ['-CA', dir.path(`${by}.crt`), '-CAkey', dir.path(`${by}.key`)];
  const out = ['-keyout', dir.path(`${name}.key`), '-out', dir.path(`${name}.crt`)];
  await dir.openssl(
    'req',
    '-x509',
    '-nodes',
    '-days',
    '90',
    '-subj',
    subject,
    '-config',
    file,
    ...algorithm,
    ...signer,
    ...out,
  );
  return read(`${name}.crt`);
}

/** Every place of `what` in the certificate, with one bit of its last byte flipped. */
function flippedIn({ x509 }: Certificate, what: Buffer): readonly Certificate[] {
  const places: number[] = [];
  for (let at = x509.raw.indexOf(what); at >= 0; at = x509.raw.indexOf(what, at + 1)) places.push(at);
  return places.map((at) => {
    const der = Buffer.from(x509.raw);
    const last = at + what.length - 1;
    der.writeUInt8(der.readUInt8(last) ^ 1, last);
    return fromDer(der);
  });
}

describe('isDamaged()', () => {
  it.each([
    ['ECDSA', p256],
    ['RSA', ['-newkey', 'rsa:2048']],
    ['RSA with SHA-1', ['-newkey', 'rsa:2048', '-sha1']],
    ['RSA-PSS', ['-newkey', 'rsa:2048', '-sigopt', 'rsa_padding_mode:pss']],
    ['Ed25519', ['-newkey', 'ed25519']],
  ])('finds a flipped bit in names, key identifiers and dates of a self-signed CA: %s', async (_name, algorithm) => {
    const whole = await ca({ name: 'root', subject: '/CN=some-authority', algorithm });
    expect(isDamaged(whole)).toBe(false);
    const keyId = Buffer.from(whole.fields.subjectKeyId ?? '', 'hex');
    const damaged = [...flippedIn(whole, Buffer.from('some-authority')), ...flippedIn(whole, keyId)];
    expect(damaged.length).toBe(4);
    for (const one of damaged) {
      expect(isDamaged(one)).toBe(true);
      expect(resembles(one, whole)).toBe(true);
    }
  });

  it('takes no CA for damaged that another one has signed, whatever the two are called', async () => {
    await ca({ name: 'above', subject: '/CN=authority-1' });
    const below = await ca({ name: 'below', subject: '/CN=authority-2', by: 'above' });
    const renamed = await ca({ name: 'renamed', subject: '/CN=other', by: 'above', extensions: '' });
    expect([below, renamed].map((one) => isDamaged(one))).toEqual([false, false]);
  });

  it('takes a CA that has changed its key and not its name for whole beside the one that has signed it', async () => {
    const former = await ca({ name: 'former', subject: '/CN=same' });
    const withId = await ca({ name: 'next', subject: '/CN=same', by: 'former' });
    const without = await ca({
      name: 'bare',
      subject: '/CN=same',
      by: 'former',
      extensions: 'authorityKeyIdentifier=none',
    });
    expect(without.fields.authorityKeyId).toBeUndefined();
    expect(isDamaged(withId)).toBe(false);
    expect(isDamaged(without, [without, former])).toBe(false);
    expect(isDamaged(without, [without])).toBe(true); // nobody can tell
  });
});
