// Which kept copy is put back, and when that is refused.
import { describe, expect, it } from 'vitest';
import { chosenCopy, requireNoneLost } from '../../lib/store/restore-choice.ts';
import type { Generation } from '../../lib/store/restore.ts';
import { at } from '../support/facts.ts';

const copy = (generation: string, more: Partial<Generation> = {}): Generation => ({
  artefact: 'apiserver',
  generation,
  keptAt: at(-1),
  notAfter: at(100),
  location: { kind: 'pemPair', certFile: '/pki/apiserver.crt', keyFile: '/pki/apiserver.key' },
  ...more,
});
const unreadable = copy('9', { problem: 'it cannot be read' });
const unusable = copy('8', { unusable: 'its key is another one' });

describe('chosenCopy()', () => {
  it.each<[string, readonly Generation[], string | undefined, string]>([
    ['the newest usable one', [unreadable, unusable, copy('7'), copy('6')], undefined, '7'],
    ['else the newest readable one', [unreadable, unusable], undefined, '8'],
    ['the named one, whatever its state', [unreadable, copy('7')], '9', '9'],
    ['the named one, with zeros before it', [copy('7')], '007', '7'],
    ['no copy of another artefact', [copy('9', { artefact: 'etcd-server' }), copy('7')], undefined, '7'],
  ])('takes %s', (_title, kept, named, generation) => {
    expect(chosenCopy(kept, 'apiserver', named).generation).toBe(generation);
  });

  it.each<[string, readonly Generation[], string | undefined, string]>([
    ['none can be read', [unreadable], undefined, 'no generation that can be read is kept; there are 9'],
    ['the named one is not there', [copy('7'), copy('6')], '5', 'no generation "5" is kept; there are 7, 6'],
    ['nothing is kept', [], undefined, 'no generation that can be read is kept'],
  ])('refuses where %s', (_title, kept, named, message) => {
    expect(() => chosenCopy(kept, 'apiserver', named)).toThrow(`Cannot restore artefact "apiserver": ${message}`);
  });
});

describe('requireNoneLost()', () => {
  const now = at(0);
  const expired = copy('6', { notAfter: at(-2) });

  it.each<[string, Generation, Date | undefined]>([
    ['a valid copy in place of a valid certificate', copy('7'), at(5)],
    ['an expired copy in place of an expired certificate', expired, at(-1)],
    ['an unusable copy in place of an unusable certificate', unusable, undefined],
  ])('lets %s through', (_title, wanted, there) => {
    expect(() => requireNoneLost(wanted, { there, kept: [], now })).not.toThrow();
  });

  it.each<[string, Generation, readonly Generation[], RegExp]>([
    ['an expired copy', expired, [expired], /expired at .*; no kept copy is valid\. --force/],
    ['an unusable copy', unusable, [unusable, expired, copy('5')], /no use to its readers.*generation 5 is: .*=5/],
  ])('refuses %s in place of a valid certificate', (_title, wanted, kept, message) => {
    expect(() => requireNoneLost(wanted, { there: at(5), kept, now })).toThrow(message);
  });
});
