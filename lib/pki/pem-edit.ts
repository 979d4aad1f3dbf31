// Changes blocks of a PEM text and leaves the rest of it unchanged, to the byte: other blocks, comments, line breaks.
// Pure.
import { encodePem, type PemBlock, readPem } from './pem.ts';

/** Result for a block: kept, removed or replaced. */
export type BlockChange = 'kept' | 'removed' | Pick<PemBlock, 'label' | 'der'>;

/** Throws MaterialInvalid where the text is no whole PEM. `foreign`: see readPem. */
export function editPem(
  text: Uint8Array,
  subject: string,
  changeOf: (block: PemBlock) => BlockChange,
  foreign?: Parameters<typeof readPem>[2],
): Buffer {
  const lines = Buffer.from(text)
    .toString('latin1')
    .split(/(?<=\n)/);
  const pieces: string[] = [];
  let at = 0;
  for (const block of readPem(text, subject, foreign)) {
    const begin = block.line - 1;
    let end = begin + 1;
    while (lines[end]?.startsWith('-----END ') === false) end += 1;
    const change = changeOf(block);
    pieces.push(lines.slice(at, begin).join(''));
    if (change === 'kept') pieces.push(lines.slice(begin, end + 1).join(''));
    else if (change !== 'removed') pieces.push(encodePem(change));
    at = end + 1;
  }
  return Buffer.from([...pieces, lines.slice(at).join('')].join(''), 'latin1');
}
