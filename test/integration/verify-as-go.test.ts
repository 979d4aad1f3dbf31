// Never healthy where Go refuses: chains from a seed, each judged by lib/pki/verify.ts and by crypto/x509 of the Go that the
// components are built with. CHAIN_SEED begins elsewhere.
import { expect, it } from 'vitest';
import { isCode } from '../../lib/errors.ts';
import { parseCertificates } from '../../lib/pki/certificate.ts';
import { verifyChain } from '../../lib/pki/verify.ts';
import { chainsAt, type SeededChain, seededChain } from './seeded-chains.ts';
import { Dice } from '../support/faults/damage.ts';
import { askGo, findGoReaders, type GoQuestion } from '../support/faults/go-readers.ts';

const count = 10_000;
const first = Number(process.env['CHAIN_SEED'] ?? 1);

/** Where ours refuses and Go does not, by the rule that says so. */
const stricter: readonly (readonly [rule: string, RegExp])[] = [
  [
    'a certificate that no Go reads; of a file of CAs Go leaves it out and takes the rest',
    /^Cannot read certificates of/,
  ],
  ['the same of what Go has begun to refuse', /^Go 1\.\d+ and newer refuse it/],
  ['policies, which are not compared along the chain', /demands certificate policies, which are not compared here$/],
];

function ours({ leaf, intermediates, roots, usage, hostname }: SeededChain): string | undefined {
  try {
    const read = (pem: string) => (pem === '' ? [] : parseCertificates(Buffer.from(pem), 'chain'));
    const [own] = read(leaf);
    if (own === undefined) return 'no leaf';
    const all = { leaf: own, intermediates: read(intermediates), roots: read(roots) };
    const newer = [own, ...all.intermediates, ...all.roots].map(({ facts }) => facts.newerGo).find(Boolean);
    const answer = verifyChain({ ...all, at: chainsAt, usage, hostname });
    return answer.ok ? newer : answer.reason;
  } catch (err) {
    if (isCode(err, 'MaterialInvalid')) return err.message;
    throw err;
  }
}

it(`is content with none of ${count} chains that Go refuses`, async () => {
  const seeds = Array.from({ length: count }, (_, at) => first + at);
  const chains = seeds.map((seed) => seededChain(new Dice(seed)));
  const questions = chains.map(({ leaf, intermediates, roots, usage, hostname }): GoQuestion => ({
    kind: 'chain',
    content: Buffer.from(leaf),
    by: { roots: Buffer.from(roots), at: chainsAt },
    along: {
      intermediates: Buffer.from(intermediates),
      ...(usage !== undefined && { usage }),
      ...(hostname !== undefined && { hostname }),
    },
  }));
  const answers = await askGo(await findGoReaders(), questions);
  const [lenient, strict] = [[] as string[], [] as string[]];
  for (const [at, chain] of chains.entries()) {
    const problem = ours(chain);
    const go = answers[at];
    const what = `CHAIN_SEED=${first + at}`;
    if (problem === undefined && go?.accepted !== true) lenient.push(`${what}: Go: ${go?.reason}`);
    if (problem !== undefined && go?.accepted === true && !stricter.some(([, rule]) => rule.test(problem)))
      strict.push(`${what}: ${problem}`);
  }
  const accepted = answers.filter((answer) => answer.accepted).length;
  console.log(`from seed ${first}: Go accepts ${accepted} of ${count}`);
  expect(lenient).toEqual([]);
  expect(strict).toEqual([]);
  expect(accepted).toBeGreaterThan(count / 5);
  expect(accepted).toBeLessThan((count * 4) / 5);
}, 900_000);
