import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { imagesOf, requireImage } from '../../lib/adopt/container.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'image-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

/** A program with the words of crictl (cmd/crictl/image.go) and what it is asked. */
async function crictl(inspecti: string, pull = 'exit 0'): Promise<string> {
  const path = join(directory, 'crictl');
  const text = `#!/bin/sh\necho "$*" >> ${directory}/asked\ncase "$1" in inspecti) ${inspecti};; pull) ${pull};; esac\n`;
  await writeFile(path, text, { mode: 0o755 });
  return path;
}

const image = 'example.com/recovery:1';
const signal = AbortSignal.timeout(20_000);
const absent = `echo 'FATA[0000] no such image "${image}" present' >&2; exit 1`;

async function required(program: string, dryRun = false): Promise<readonly string[]> {
  const told: string[] = [];
  const images = imagesOf(signal, program);
  await requireImage({ image, images, dryRun, signal, print: (line) => told.push(line) });
  return told;
}

describe('requireImage()', () => {
  it('says nothing where it is there, and where nobody can be asked', async () => {
    expect(await required(await crictl('exit 0'))).toEqual([]);
    expect(await required(await crictl('echo "connect: no such file or directory" >&2; exit 1'))).toEqual([]);
    expect(await required(join(directory, 'nothing'))).toEqual([]);
  });

  it('pulls what is absent, before anything is written', async () => {
    expect(await required(await crictl(absent))).toEqual([
      `The container runtime of this machine does not have image "${image}": pulling it`,
    ]);
  });

  it('refuses what cannot be pulled, with what it was told', async () => {
    await expect(required(await crictl(absent, 'echo "not found" >&2; exit 1'))).rejects.toThrow(
      `Cannot adopt this machine: image "${image}" cannot be pulled: not found; load it into the runtime`,
    );
  });

  it('only says so in a dry run', async () => {
    const program = await crictl(absent, 'exit 1');
    expect(await required(program, true)).toEqual([
      `# The container runtime of this machine does not have image "${image}": it would be pulled first`,
    ]);
  });
});
