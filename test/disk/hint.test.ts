import { expect, it } from 'vitest';
import { hintOf } from '../../lib/disk/disk.ts';

it.each(['EACCES', 'EPERM'])('hintOf(%s) tells nobody but root to change modes and owners', (system) => {
  expect(hintOf(system, 65_534)).toBe('permission denied; run it as root');
  expect(hintOf(system, 0)).toMatch(/chmod|own the directory/);
});

it('hintOf() has the same advice for all where it is no question of rights', () => {
  expect(hintOf('ENOSPC', 65_534)).toBe(hintOf('ENOSPC', 0));
});
