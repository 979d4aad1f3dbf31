// `uninstall host` on a machine whose units are all that is left of an installation.
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { uninstallHostCommand } from '../../cmd/uninstall-host.ts';
import { renderHost } from '../../lib/install/host.ts';

let directory: string;
beforeEach(async () => void (directory = await mkdtemp(join(tmpdir(), 'uninstall-host-'))));
afterEach(() => rm(directory, { recursive: true }));

it('removes units whose configuration file is gone', async () => {
  const unitDirectory = join(directory, 'units');
  const flags = [`--config=${join(directory, 'gone.yaml')}`];
  const units = renderHost({ executable: '/x', flags, writable: [], manifests: [], unitDirectory });
  for (const { path, content } of units) {
    await mkdir(join(path, '..'), { recursive: true });
    await writeFile(path, content);
  }
  const told: string[] = [];
  const stream = { write: (text: string) => told.push(text) };
  const io = {
    argv: [],
    env: {},
    cwd: directory,
    stdout: stream,
    stderr: stream,
    signal: new AbortController().signal,
  };
  const here = { systemctl: undefined, unitDirectory };
  expect(await uninstallHostCommand({ out: join(directory, 'out') }, io, here), told.join('')).toBe(0);
  expect(units.filter(({ path }) => existsSync(path))).toEqual([]);
});
