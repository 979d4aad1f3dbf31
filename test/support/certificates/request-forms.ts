// Requests in forms that no program makes, part by part, each signed as it should be.
import { createPublicKey, generateKeyPairSync, type KeyObject, sign } from 'node:crypto';
import { writeDer } from '../../../lib/pki/der.ts';
import { distinguishedName } from '../../../lib/pki/names.ts';
import { encodePem } from '../../../lib/pki/pem.ts';

export function oidDer(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number);
  const bytes = [first * 40 + second, ...rest].flatMap((arc) => {
    const groups = [arc & 0x7f];
    for (let left = Math.floor(arc / 128); left > 0; left = Math.floor(left / 128))
      groups.unshift((left & 0x7f) | 0x80);
    return groups;
  });
  return writeDer(6, Buffer.from(bytes));
}

export const text = (value: string, tag = 0x0c): Buffer => writeDer(tag, Buffer.from(value));
/** Of a name, a request or an extension: a type and what follows. */
export const attribute = (oid: string, ...values: readonly Buffer[]): Buffer => writeDer(0x30, oidDer(oid), ...values);

/** A request for extensions. */
export const wish = (...extensions: readonly Buffer[]): Buffer =>
  attribute('1.2.840.113549.1.9.14', writeDer(0x31, writeDer(0x30, ...extensions)));
/** The extension with alternative names. */
export const names = (...list: readonly Buffer[]): Buffer =>
  attribute('2.5.29.17', writeDer(4, writeDer(0x30, ...list)));

export const { privateKey: p256 } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
export const infoOf = (key: KeyObject): Buffer => createPublicKey(key).export({ type: 'spki', format: 'der' });

export interface RequestForm {
  /** Default: P-256, one for all. */
  readonly key?: KeyObject;
  readonly version?: number;
  readonly subject?: Buffer;
  readonly publicKey?: Buffer;
  readonly attributes?: readonly Buffer[] | 'none';
  readonly algorithm?: readonly Buffer[];
  readonly pem?: (pem: string) => string;
}

/** PEM. */
export function requestOfForm(form: RequestForm): string {
  const { key = p256, version = 0, attributes = [], algorithm = [oidDer('1.2.840.10045.4.3.2')], pem } = form;
  const info = writeDer(
    0x30,
    writeDer(2, Buffer.from([version])),
    form.subject ?? distinguishedName('system:node:panda', ['system:nodes']).der,
    form.publicKey ?? infoOf(key),
    ...(attributes === 'none' ? [] : [writeDer(0xa0, ...attributes)]),
  );
  const signature = sign(key.asymmetricKeyType === 'ed25519' ? null : 'sha256', info, key);
  const der = writeDer(0x30, info, writeDer(0x30, ...algorithm), writeDer(3, Buffer.of(0), signature));
  const made = encodePem({ label: 'CERTIFICATE REQUEST', der });
  return pem?.(made) ?? made;
}
