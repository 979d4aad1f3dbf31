// The script that runs tests apart from all other processes, with shells and programs in place of a test runner.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { root } from '../docs/markdown.ts';

const isRoot = process.getuid?.() === 0;
let directory: string;
let script: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'own-processes-'));
  script = join(directory, 'own-processes.sh');
  await copyFile(join(root, 'scripts/own-processes.sh'), script);
  for (const path of [directory, script]) await chmod(path, 0o755);
});
afterEach(() => rm(directory, { recursive: true }));

/** A command below the script; what it was, once it has said that it is ready, and all that it said. */
async function started(
  command: string,
  options = {},
): Promise<{ pid: number; ended: Promise<[number | null, string]> }> {
  const child = spawn(script, ['sh', '-c', command], { stdio: ['ignore', 'pipe', 'inherit'], ...options });
  let said = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => (said += text));
  const ended = once(child, 'close').then(([code]) => [code as number | null, said] as [number | null, string]);
  await once(child.stdout ?? child, 'data');
  return { pid: child.pid ?? 0, ended };
}

describe.runIf(isRoot || process.env['CI'] === 'true')('own-processes.sh', () => {
  it('shows a command no process but its own, and a kubeadm of this machine does not count', async () => {
    const kubeadm = join(directory, 'kubeadm');
    await copyFile('/bin/sleep', kubeadm);
    // This one is itself apart from other tests.
    const beside = `"${kubeadm}" 60 & "${script}" sh -c 'cat /proc/[0-9]*/comm'; kill $!`;
    const { stdout } = await promisify(execFile)(script, ['sh', '-c', beside]);
    expect(stdout).toBe('own-processes.s\nsh\n'); // a name has 15 bytes
  });

  it('ends with its exit code, also where a signal has ended it, and hands on its input', async () => {
    expect(await (await started('echo ready; exit 7')).ended).toEqual([7, 'ready\n']);
    expect(await (await started('echo ready; kill -9 $$')).ended).toEqual([137, 'ready\n']);
    const reading = promisify(execFile)(script, ['cat']);
    reading.child.stdin?.end('given');
    expect((await reading).stdout).toBe('given');
  });

  it('passes SIGTERM on and waits for what the command does about it', async () => {
    const { pid, ended } = await started('trap "echo told; exit 9" TERM; echo ready; while :; do sleep 0.05; done');
    process.kill(pid, 'SIGTERM');
    expect(await ended).toEqual([9, 'ready\ntold\n']);
  });

  it('gives it a directory in memory that goes with it, unless it is in one already', async () => {
    const { KCR_SCRATCH: _outer, ...env } = process.env;
    // A machine with little memory has none.
    const write = 'scratch=${KCR_SCRATCH-}; echo "$scratch"; [ -z "$scratch" ] || echo here > "$scratch/own-of-a-run"';
    const [code, said] = await (await started(write, { env })).ended;
    expect([code, said]).toEqual([0, expect.stringMatching(/^(\/dev\/shm)?\n$/)]);
    await expect(readFile('/dev/shm/own-of-a-run')).rejects.toThrow('ENOENT');
    const inner = await (await started('echo "$KCR_SCRATCH"', { env: { ...env, KCR_SCRATCH: '/outer' } })).ended;
    expect(inner).toEqual([0, '/outer\n']);
  });

  it('leaves Ctrl-C to the command, which gets it as a part of the process group', async () => {
    const program = 'process.on("SIGINT", () => { console.log("told"); process.exit(5); }); console.log("ready")';
    const command = `exec "${process.execPath}" -e '${program}; setInterval(() => undefined, 1000)'`;
    const { pid, ended } = await started(command, { detached: true });
    process.kill(-pid, 'SIGINT');
    expect(await ended).toEqual([5, 'ready\ntold\n']);
  });

  it('gives what ends with the command its time, and leaves nothing of it when it is killed', async () => {
    const later = join(directory, 'later');
    await promisify(execFile)(script, ['sh', '-c', `setsid sh -c 'sleep 0.5; echo done >"${later}"' &`]);
    expect(await readFile(later, 'utf8')).toBe('done\n');
    const alive = join(directory, 'alive');
    await writeFile(alive, '');
    const { pid, ended } = await started(`echo ready; exec sh -c 'while :; do echo >>"${alive}"; sleep 0.05; done'`);
    process.kill(pid, 'SIGKILL');
    await ended; // its standard output is closed: nobody has it any more
    const written = await readFile(alive, 'utf8');
    expect(await readFile(alive, 'utf8')).toBe(written);
  });
});

it.runIf(isRoot)('says in one line that it has not the right, and runs the command all the same', async () => {
  const nobody = ['--reuid=65534', '--regid=65534', '--clear-groups', script, 'sh', '-c', 'echo ran; exit 3'];
  const ended = await promisify(execFile)('setpriv', nobody).catch((err: unknown) => err);
  expect(ended).toMatchObject({
    code: 3,
    stdout: 'ran\n',
    stderr: expect.stringMatching(/^Running among .*\n$/) as string,
  });
});
