// An API server after an outage, on a machine that is busy or swaps, or at the end of a bad line: everything is there, and
// comes late. What has expired is whole within two minutes all the same.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ControlPlane, startControlPlane } from '../support/cluster/control-plane.ts';
import type { Slowness } from '../support/faults/slow-link.ts';
import { PresetStory, Stage } from './preset-story.ts';

const twoMinutesMs = 120_000;

const slow: readonly [string, Slowness][] = [
  ['each answer 5 s late', { delayMs: 5000 }],
  ['10 kB a second', { bytesPerSecond: 10_000 }],
];

describe.each([
  ['HTTP/2', {}],
  ['HTTP/1.1', { 'disable-http2-serving': 'true' }],
])('runRegen() with everything expired, over %s', (_, apiServer) => {
  let controlPlane: ControlPlane;
  let scratch: string;
  let stage: Stage;

  beforeAll(async () => {
    controlPlane = await startControlPlane({ flags: { 'kube-apiserver': apiServer } });
    scratch = await mkdtemp(join(tmpdir(), 'slow-api-'));
    stage = new Stage(controlPlane, scratch);
    await stage.ended('kubernetes');
  });
  afterAll(async () => {
    await controlPlane?.[Symbol.asyncDispose]();
    await rm(scratch, { recursive: true, force: true });
  });

  it.concurrent.each(slow)('heals all of it within two minutes: %s', async (__, slowness) => {
    await using story = await PresetStory.create(stage, { world: 'kubernetes', slow: slowness });
    const began = performance.now();
    await story.run({ once: false });
    const tookMs = performance.now() - began;
    expect(tookMs).toBeLessThan(twoMinutesMs);
  });
});
