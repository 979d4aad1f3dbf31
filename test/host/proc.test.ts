import { mkdir, mkdtemp, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import {
  argvOf,
  bootId,
  isRunning,
  kernelBootTimeMs,
  processIds,
  programOf,
  readProcesses,
  startOf,
  ticksPerSecond,
} from '../../lib/host/proc.ts';

let procDir: string;
beforeEach(async () => {
  procDir = await mkdtemp(join(tmpdir(), 'proc-'));
});
afterEach(() => rm(procDir, { recursive: true, force: true }));

async function give(pid: number, files: Readonly<Record<string, string>>): Promise<void> {
  await mkdir(join(procDir, String(pid)));
  for (const [name, text] of Object.entries(files)) await writeFile(join(procDir, String(pid), name), text);
}

it('startOf() counts behind a name that may hold anything; an ended process has none', async () => {
  const after = (state: string): string => `${state} ${Array.from({ length: 18 }, () => 1).join(' ')} 4711 0 0`;
  await give(7, { stat: `7 (a) Z (b)) ${after('S')}` });
  await give(8, { stat: `8 (a) ${after('Z')}` });
  await give(9, { stat: '' });
  expect([7, 8, 9, 10].map((pid) => startOf(pid, procDir))).toEqual([4711, undefined, undefined, undefined]);
});

it('argvOf() and programOf() tell what a process was started as', async () => {
  await give(7, { cmdline: '/usr/bin/kubelet\0--kubeconfig=/a\0' });
  await give(8, { cmdline: '' });
  expect(argvOf(7, procDir)).toEqual(['/usr/bin/kubelet', '--kubeconfig=/a']);
  expect([7, 8, 9].map((pid) => programOf(argvOf(pid, procDir)))).toEqual(['kubelet', '', '']);
});

it('argvOf() reads no more than the beginning of a command line that has no end', async () => {
  await give(7, { cmdline: '/usr/bin/kubeadm\0init\0' });
  await truncate(join(procDir, '7', 'cmdline'), 3 * 2 ** 30); // a file of holes, more than a text may have
  expect(argvOf(7, procDir).slice(0, 2)).toEqual(['/usr/bin/kubeadm', 'init']);
});

it('processIds() lists processes alone, and says where there is no /proc', async () => {
  await give(7, {});
  await mkdir(join(procDir, 'irq'));
  expect(processIds(procDir)).toEqual([7]);
  const none = join(procDir, 'none');
  expect(() => processIds(none)).toThrow(
    expect.objectContaining({ code: 'ReadFailed', message: `Cannot read directory "${none}": ENOENT` }) as Error,
  );
});

it('this process is seen as one of ours', () => {
  const [own] = readProcesses([programOf(argvOf(process.pid))]).filter(({ pid }) => pid === process.pid);
  expect(own).toMatchObject({ isInOurPidNamespace: true, isPrivileged: true });
  expect(own !== undefined && isRunning(own)).toBe(true);
  expect(isRunning({ pid: process.pid, started: 0 })).toBe(false);
  expect((own?.started ?? 0) / ticksPerSecond).toBeLessThanOrEqual((systemClock.uptimeSeconds() ?? 0) + 1);
  expect(bootId()).toMatch(/^[0-9a-f-]{36}$/);
  expect(kernelBootTimeMs()).toBeLessThan(Date.now());
});
