import { expect, it } from 'vitest';
import { loadPreset } from '../../lib/inventory/preset.ts';
import { resolve } from '../../lib/inventory/resolve.ts';
import { filesOfReaders } from '../../lib/inventory/places.ts';

it('has the files of a copy of what others give', () => {
  const { artefacts } = resolve(loadPreset('openshift-kube-scheduler'), {});
  const artefact = artefacts.find(({ kind }) => kind === 'copy');
  if (artefact === undefined) throw new Error('no copy');
  expect(filesOfReaders({ artefact, artefacts, destinationDir: '/d' })).toMatchObject({ kind: 'pair' });
});
