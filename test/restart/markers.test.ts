import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { RunState } from '../../lib/host/state.ts';
import { Markers } from '../../lib/restart/markers.ts';

it('a directory in the place of a marker is removed with it: it would restart its component at every run', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'markers-'));
  try {
    await mkdir(join(directory, 'restart-kubelet', 'inside'), { recursive: true });
    const failures: string[] = [];
    const markers = new Markers({
      state: new RunState(directory),
      onFailed: ({ message }) => void failures.push(message),
    });
    expect(await markers.look('kubelet')).toMatchObject({ state: 'writing' });
    await markers.remove('kubelet');
    expect(failures).toEqual([]);
    expect(await readdir(directory)).toEqual([]);
  } finally {
    await rm(directory, { recursive: true });
  }
});
