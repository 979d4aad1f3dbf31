// The values of a certificate's tbsCertificate (RFC 5280, 4.1) and of its extensions, byte for byte. Pure.
import type { Certificate } from './certificate.ts';
import { childrenOf, DerReader, readDer } from './der.ts';
import { contextConstructed, listExtensions } from './extensions.ts';

/** Values of the extensions by object identifier. */
export function extensionValues({ x509 }: Certificate): ReadonlyMap<string, Buffer> {
  const part = partsOf(x509.raw).rest.find(({ tag }) => tag === contextConstructed(3));
  const list = listExtensions(part && new DerReader(part.content));
  return new Map(list.map(({ oid, value }) => [oid, value]));
}

export type DerField = ReturnType<typeof readDer>;

/** Values of tbsCertificate (RFC 5280, 4.1). `rest`: those after the public key. */
export function partsOf(der: Buffer) {
  const [tbs] = childrenOf(readDer(der));
  const all = tbs === undefined ? [] : childrenOf(tbs);
  const version = all[0]?.tag === contextConstructed(0) ? all.slice(0, 1) : [];
  const [, algorithm, issuer, validity, subject, publicKey, ...rest] = all.slice(version.length);
  const [notBefore] = validity === undefined ? [] : childrenOf(validity);
  if (!algorithm || !issuer || !notBefore || !subject || !publicKey) throw new RangeError('tbsCertificate is cut off');
  return { version, serial: all[version.length] as DerField, algorithm, issuer, notBefore, subject, publicKey, rest };
}
