// The API server is away: files stay, nothing is concluded from errors, and what changed meanwhile arrives afterwards.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startControlPlane, type ControlPlane } from '../support/cluster/control-plane.ts';
import { eventually } from '../support/eventually.ts';
import { deleteObject, opaque, putObject, startSyncing } from '../support/cluster/syncing.ts';

let controlPlane: ControlPlane;
beforeAll(async () => {
  controlPlane = await startControlPlane();
});
afterAll(() => controlPlane[Symbol.asyncDispose]());

const required = { kind: 'secret', namespace: 'default', name: 'required' } as const;
const optional = { kind: 'secret', namespace: 'default', name: 'optional' } as const;

test('an outage removes nothing, and an update made before the syncer is back arrives', async () => {
  for (const object of [required, optional]) await putObject(controlPlane, object, { token: 'one' });
  const destinationDir = mkdtempSync(join(tmpdir(), 'syncer-outage-'));
  const read = (name: string): string => readFileSync(join(destinationDir, 'secrets', name, 'token'), 'utf8');
  const artefacts = [opaque(required), opaque(optional, 'optional')];
  await using syncing = await startSyncing({ controlPlane, artefacts, destinationDir, recheckMs: 50 });
  await eventually(() => expect([read('required'), read('optional')]).toEqual(['one', 'one']));

  await controlPlane.stopComponent('kube-apiserver');
  await eventually(() => expect(syncing.log.some(({ event }) => event === 'watch.failed')).toBe(true));
  // What disappears now comes back from memory: without its own certificate that API server could not start again.
  execFileSync('rm', ['-r', join(destinationDir, 'secrets', 'required')]);
  await eventually(() => expect(read('required')).toBe('one'));
  // What says something else is not replaced without a read: reported once, tried again, and healed afterwards.
  writeFileSync(join(destinationDir, 'secrets', 'required', '..data', 'token'), 'by hand');
  const failures = () => syncing.log.filter(({ event }) => event === 'sync.failed');
  await eventually(() => expect(failures()).toMatchObject([{ level: 'error', code: 'KubeUnavailable' }]));
  expect(read('required')).toBe('by hand');
  expect(read('optional')).toBe('one');
  expect(syncing.health().ok).toBe(false);

  controlPlane.startComponent('kube-apiserver');
  await controlPlane.ready();
  await putObject(controlPlane, required, { token: 'two' });
  await deleteObject(controlPlane, optional);
  await eventually(() => expect(read('required')).toBe('two'));
  await eventually(() => expect(() => read('optional')).toThrow('ENOENT'));
  await eventually(() => expect(syncing.health().ok).toBe(true));
});
