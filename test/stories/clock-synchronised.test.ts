// With a real executable named timedatectl, and none, and one that never answers.
import { mkdtemp, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { isClockSynchronised } from '../../lib/host/clock-synchronised.ts';

let directory: string;
let marker: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'clock-'));
  marker = join(directory, 'synchronized');
  vi.stubEnv('PATH', directory);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(directory, { recursive: true, force: true });
});

const timedatectl = (script: string): Promise<void> =>
  writeFile(join(directory, 'timedatectl'), `#!/bin/sh\necho "$@" > ${directory}/asked\n${script}\n`, { mode: 0o755 });
const asked = (): Promise<string> => readFile(join(directory, 'asked'), 'utf8').catch(() => '');
const thorough = true;

it('is known by the marker of timesyncd, which costs no process', async () => {
  await timedatectl('echo no');
  await writeFile(marker, '');
  expect(await isClockSynchronised('auto', { thorough, marker })).toBe(true);
  expect(await asked()).toBe('');
});

it.each([
  ['of an hour ago', -3_600_000, true],
  ['of half a year ago, before the machine slept', -180 * 86_400_000, false],
  ['of a time that has not come, because the clock was set back', 3_600_000, false],
])('is known by a marker %s: %s', async (_what, ms, wanted) => {
  await timedatectl('echo no');
  await writeFile(marker, '');
  const touched = new Date(Date.now() + ms);
  await utimes(marker, touched, touched);
  expect(await isClockSynchronised('auto', { marker })).toBe(wanted);
});

it.each([
  ['echo yes', true],
  ['echo no', false],
  ['echo yes; exit 1', false],
  ['exec /bin/sleep 60', false],
])('without it timedatectl counts: %s', { timeout: 15_000 }, async (script, wanted) => {
  await timedatectl(script);
  expect(await isClockSynchronised('auto', { marker })).toBe(false);
  expect(await asked()).toBe('');
  expect(await isClockSynchronised('auto', { thorough, marker })).toBe(wanted);
  expect(await asked()).toBe('show --property=NTPSynchronized --value\n');
});

it('is not known where there is neither', async () => {
  expect(await isClockSynchronised('auto', { thorough, marker })).toBe(false);
});

it('is what the configuration states, whatever else says', async () => {
  await timedatectl('echo yes');
  expect(await isClockSynchronised(false, { thorough, marker })).toBe(false);
  expect(await isClockSynchronised(true, { marker })).toBe(true);
  expect(await asked()).toBe('');
});
