// Accepted is what Go accepts, because Go is what reads it: 600 damaged certificates, pairs, bundles and kubeconfigs.
import { expect, it } from 'vitest';
import { laterRefused, makeLaterRefused } from '../support/certificates/later-refused.ts';
import { damageOptions } from '../support/faults/damaged-readers.ts';
import { askGo, findGoReaders } from '../support/faults/go-readers.ts';
import { differencesFromGo } from '../support/faults/go-differences.ts';

it('reads what Go reads, and refuses what Go refuses', async () => {
  expect(await differencesFromGo(damageOptions(1, 600))).toEqual([]);
}, 300_000);

it('asks a program that can tell both', async () => {
  const garbage = Buffer.from('garbage');
  const kinds = ['certificate', 'pair', 'bundle', 'pool', 'kubeconfig'] as const;
  const questions = kinds.map((kind) => ({ kind, content: garbage, key: garbage }));
  const answers = await askGo(await findGoReaders(), questions);
  expect(answers.map(({ accepted }) => accepted)).toEqual(kinds.map(() => false));
});

it('accepts what older Go accepts, and tells what this Go refuses', async () => {
  const made = await Promise.all(laterRefused.map(makeLaterRefused));
  const questions = made.map((content) => ({ kind: 'certificate' as const, content }));
  const program = await findGoReaders();
  const [now, before] = await Promise.all([
    askGo(program, questions),
    askGo(program, questions, { ...process.env, GODEBUG: 'x509negativeserial=1' }),
  ]);
  for (const [at, { name, reason }] of laterRefused.entries()) {
    expect(now[at], name).toMatchObject({ accepted: false, reason: expect.stringMatching(reason) as string });
  }
  // Of the others the source of older Go tells: for them there is no switch.
  expect(laterRefused.filter((_, at) => before[at]?.accepted).map(({ name }) => name)).toEqual([
    'a negative serial number',
  ]);
});
