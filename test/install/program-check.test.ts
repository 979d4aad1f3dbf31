import { chmod, chown, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { absenceWarnings, examineProgram, timeoutProblem } from '../../lib/install/program-check.ts';

const { signal } = new AbortController();
let root: string;
let program: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'program-'));
  program = join(root, 'opt/recovery/kube-cert-recovery');
  await mkdir(join(root, 'opt/recovery'), { recursive: true });
  await script('exit 0');
});
afterEach(() => rm(root, { recursive: true, force: true }));

const script = (body: string): Promise<void> => writeFile(program, `#!/bin/sh\n${body}\n`, { mode: 0o755 });

describe('examineProgram()', () => {
  it("finds nothing about one that is root's up to the root", async () => {
    expect(await examineProgram(program, signal)).toEqual({ problems: [], warnings: [] });
  });

  it.each<[string, () => Promise<unknown>, string]>([
    ['everybody may write', () => chmod(program, 0o757), 'everybody may write'],
    ['lies where everybody may write', () => chmod(join(root, 'opt'), 0o777), 'everybody may write'],
  ])('refuses one that %s', async (_, open, why) => {
    await open();
    const { problems } = await examineProgram(program, signal);
    expect(problems).toEqual([expect.stringContaining(`must be a program that root alone may write; ${why}`)]);
    expect(problems[0]).toContain('chown root, chmod go-w');
  });

  // Takes root; where that cannot be had it is skipped, except where CI=true.
  it.skipIf(process.getuid?.() !== 0 && process.env['CI'] !== 'true').each<[string, () => Promise<unknown>, string]>([
    ['a user owns', () => chown(program, 4711, 0), 'belongs to user 4711'],
    ['lies in the home of a user', () => chown(join(root, 'opt'), 4711, 4711), 'opt" belongs to user 4711'],
    ['a group may write', () => chown(program, 0, 4712).then(() => chmod(program, 0o775)), 'group 4712 may write'],
    [
      "a link in somebody's directory leads to",
      async () => {
        await mkdir(join(root, 'home'));
        await symlink(program, join(root, 'home/link'));
        program = join(root, 'home/link');
        await chown(join(root, 'home'), 4711, 4711);
      },
      'home" belongs to user 4711',
    ],
  ])('refuses one that %s', async (_, open, why) => {
    await open();
    expect((await examineProgram(program, signal)).problems).toEqual([expect.stringContaining(why)]);
  });

  it.each([
    ['exit 3', 'ended with 3'],
    ['echo "no Node here" >&2; exit 1', 'ended with 1: no Node here'],
    ['kill -9 $$', 'ended by SIGKILL'],
  ])('says what a program said that does not run: %s', async (body, told) => {
    await script(body);
    const { problems } = await examineProgram(program, signal);
    expect(problems).toEqual([`must be a program that runs; "${program} --version" ${told}`]);
  });

  it('says of one that cannot be executed at all why', async () => {
    await writeFile(program, '#!/nowhere/sh\n');
    expect((await examineProgram(program, signal)).problems[0]).toContain('ended ENOENT');
  });

  it('warns of modules beside it that others may write', async () => {
    await mkdir(join(root, 'opt/recovery/app'));
    await writeFile(join(root, 'opt/recovery/app/main.mjs'), '');
    await chmod(join(root, 'opt/recovery/app/main.mjs'), 0o666);
    const { problems, warnings } = await examineProgram(program, signal);
    expect(problems).toEqual([]);
    expect(warnings).toEqual([expect.stringMatching(/^Root runs what others may write: everybody may write ".*main/)]);
  });

  it('warns of one that lies in memory', async () => {
    const directory = await mkdtemp('/dev/shm/program-');
    try {
      await writeFile(join(directory, 'program'), '#!/bin/sh\n', { mode: 0o755 });
      const { warnings } = await examineProgram(join(directory, 'program'), signal);
      expect(warnings).toContainEqual(expect.stringContaining('lies in memory (tmpfs) and is gone after a boot'));
    } finally {
      await rm(directory, { recursive: true });
    }
  });
});

it('timeoutProblem() misses the program that the drop-in is started with', async () => {
  expect(timeoutProblem(program)).toBeUndefined();
  expect(timeoutProblem(join(root, 'none'))).toContain('needs "');
});

describe('absenceWarnings()', () => {
  it('names a directory and a program that are not there', async () => {
    const given = { metricsFile: join(root, 'texts/c.prom'), onRenewed: program };
    expect(absenceWarnings({})).toEqual([]);
    expect(absenceWarnings(given)).toEqual([expect.stringContaining(`"${join(root, 'texts')}" is not there`)]);
    await mkdir(join(root, 'texts'));
    expect(absenceWarnings(given)).toEqual([]);
    await chmod(program, 0o644);
    expect(absenceWarnings(given)).toEqual([expect.stringContaining(`"${program}" is no file that can be executed`)]);
  });
});
