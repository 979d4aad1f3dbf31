// Certificates that others have made, with other dates.
import { createPrivateKey, sign } from 'node:crypto';
import { childrenOf, readDer, tags, writeDer } from '../../../lib/pki/der.ts';
import { encodePem, readPem } from '../../../lib/pki/pem.ts';

/** The same certificate with other dates, before 2050, signed again by its CA. */
export function dated(pem: string, key: string, from: Date, until: Date): string {
  const [block] = readPem(Buffer.from(pem), 'test');
  const [tbs, algorithm] = childrenOf(readDer(block?.der ?? Buffer.alloc(0)));
  const parts = tbs === undefined ? [] : childrenOf(tbs);
  const time = (at: Date): Buffer =>
    Buffer.from(
      at
        .toISOString()
        .replaceAll(/[-:T]|\.\d+/g, '')
        .slice(2),
    );
  const validity = writeDer(tags.sequence, writeDer(0x17, time(from)), writeDer(0x17, time(until)));
  const raw = parts.map((part, at) => (at === 4 ? validity : part.raw));
  const body = writeDer(tags.sequence, ...raw);
  const signature = sign('sha256', body, createPrivateKey(key));
  const der = writeDer(
    tags.sequence,
    body,
    algorithm?.raw ?? Buffer.alloc(0),
    writeDer(tags.bitString, Buffer.of(0), signature),
  );
  return encodePem({ label: 'CERTIFICATE', der });
}
