// A file of CAs with other CAs in it: comments, revocation lists and other blocks of its owner stay where they are. Pure.
import { type Certificate, wholeCertificates } from './certificate.ts';
import { encodePem, type PemBlock } from './pem.ts';
import { type BlockChange, editPem } from './pem-edit.ts';

/** CAs that were not there come at the end. Of a file that is no whole PEM nothing else stays. */
export function withCas(former: Uint8Array, cas: readonly Certificate[]): Buffer {
  const left = new Map(cas.map(({ facts, pem }) => [facts.fingerprint, pem]));
  const textOf = (all: Iterable<string>): Buffer => Buffer.from([...all].join(''), 'latin1');
  try {
    const changeOf = (block: PemBlock): BlockChange => {
      if (block.der.length === 0) return 'kept';
      const [one] = wholeCertificates(encodePem(block));
      return one !== undefined && left.delete(one.facts.fingerprint) ? 'kept' : 'removed';
    };
    const edited = editPem(former, 'file', changeOf, 'unread').toString('latin1');
    return textOf([edited, edited === '' || edited.endsWith('\n') ? '' : '\n', ...left.values()]);
  } catch {
    return textOf(cas.map(({ pem }) => pem)); // torn
  }
}
