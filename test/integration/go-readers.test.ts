// Accepted is what Go accepts, because Go is what reads it: 600 damaged certificates, pairs, bundles and kubeconfigs.
import { expect, it } from 'vitest';
import { damageOptions } from '../support/damaged-readers.ts';
import { askGo, findGoReaders } from '../support/go-readers.ts';
import { differencesFromGo } from '../support/go-differences.ts';

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
