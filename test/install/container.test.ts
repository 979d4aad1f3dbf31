import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { requireImage, requireReference } from '../../lib/install/container.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'image-'));
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(directory, { recursive: true, force: true });
});

/** A program with the words of crictl (cmd/crictl/image.go) and what it is asked. */
async function crictl(inspecti: string, pull = 'exit 0'): Promise<void> {
  const path = join(directory, 'crictl');
  const text = `#!/bin/sh\necho "$*" >> ${directory}/asked\ncase "$1" in inspecti) ${inspecti};; pull) ${pull};; esac\n`;
  await writeFile(path, text, { mode: 0o755 });
}

const image = 'example.com/recovery:1';
const signal = AbortSignal.timeout(20_000);
const absent = `echo 'FATA[0000] no such image "${image}" present' >&2; exit 1`;

/** With that directory before all others on the PATH. */
async function required(dryRun = false): Promise<readonly string[]> {
  const told: string[] = [];
  vi.stubEnv('PATH', `${directory}:/usr/bin:/bin`);
  await requireImage({ image, dryRun, signal, print: (line) => told.push(line) });
  return told;
}

it.each([
  '[::1]:5000/kcr:1',
  'localhost/kcr:test',
  'kcr',
  'example.com:5000/a/b_c:0.1.0',
  'EXAMPLE.com/a',
  `a/b@sha256:${'0'.repeat(64)}`,
])('requireReference() takes %s', (name) => expect(() => requireReference(name)).not.toThrow());
it.each(['Bad Image', 'sha256:abc', 'example.com/Recovery:1', 'example.com/kcr:', '--image', ''])(
  'requireReference() refuses "%s"',
  (name) => expect(() => requireReference(name)).toThrow('--image: must name an image'),
);

describe('requireImage()', () => {
  it('says nothing where it is there, and where nobody can be asked', async () => {
    await crictl('exit 0');
    expect(await required()).toEqual([]);
    await crictl('echo "connect: no such file or directory" >&2; exit 1');
    expect(await required()).toEqual([]);
    await rm(join(directory, 'crictl'));
    expect(await required()).toEqual([]);
  });

  it('pulls what is absent, before anything is written', async () => {
    await crictl(absent);
    expect(await required()).toEqual([
      `The container runtime of this machine does not have image "${image}": pulling it`,
    ]);
  });

  it('refuses what cannot be pulled, with what it was told', async () => {
    await crictl(absent, 'echo "not found" >&2; exit 1');
    await expect(required()).rejects.toThrow(
      `Cannot use image "${image}": it cannot be pulled: not found; load it into the runtime`,
    );
  });

  it('only says so in a dry run', async () => {
    await crictl(absent, 'exit 1');
    expect(await required(true)).toEqual([
      `# The container runtime of this machine does not have image "${image}": it would be pulled first`,
    ]);
  });
});
