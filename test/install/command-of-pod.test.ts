// Commands of a pod on its machine, with a real systemd, and a program that is a script.
import { existsSync } from 'node:fs';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { systemClock as clock } from '../../lib/clock.ts';
import { runUnit } from '../../lib/host/systemd-bus.ts';
import { runOnHostOfPod, wordsOnHost } from '../../lib/install/command-of-pod.ts';
import { serviceName } from '../../lib/install/host.ts';
import { copiedProgram } from '../../lib/install/program-copy.ts';
import { eventually } from '../support/eventually.ts';
import { slowToEnd, startUserSystemd, type UserSystemd } from '../support/user-systemd.ts';

let systemd: UserSystemd;
let directory: string;
let count = 0;
beforeAll(async () => {
  systemd = await startUserSystemd();
});
afterAll(() => systemd?.[Symbol.asyncDispose]());
beforeEach(async () => {
  directory = join(systemd.root, `case-${(count += 1)}`);
  for (const part of ['opt', 'run', 'image/app']) await mkdir(join(directory, part), { recursive: true });
  await writeFile(join(systemd.units, serviceName), serviceOf('/bin/true'));
});

const serviceOf = (command: string): string => `[Service]\nType=oneshot\nExecStart=${command}\n`;
const places = () => ({ home: join(directory, 'opt/program'), commands: [join(directory, 'commands')] as const });
const launcher = (): string => join(directory, 'image/kube-cert-recovery');
const copies = (): Promise<readonly string[]> => readdir(dirname(copiedProgram(places())));
const program = (lines: string): Promise<void> => writeFile(launcher(), `#!/bin/sh\n${lines}\n`, { mode: 0o755 });
const run = (argv: readonly string[], signal = AbortSignal.timeout(20_000)) => {
  const machine = { ...systemd, outputs: join(directory, 'run'), places: places() };
  const does = argv.includes('init') ? 'init' : 'uninstall';
  return runOnHostOfPod({ does, launcher: launcher(), argv, signal, machine });
};
const leftUnits = async (): Promise<readonly string[]> =>
  (await readdir(systemd.units)).filter((name) => name !== serviceName);

describe('a command of a pod', () => {
  it('is that of the machine, and leaves the file of metrics to the exporter of the pod', () => {
    const init = ['init', 'host', '--renew-before=30d'];
    expect(wordsOnHost('init', [...init, '--from-pod'])).toEqual(init);
    const uninstall = ['--log-level=debug', 'uninstall', 'host'];
    expect(wordsOnHost('uninstall', [...uninstall, '--from-pod'])).toEqual([...uninstall, '--metrics-file=none']);
  });

  it('runs on the machine, and leaves nothing but the copy of its program', async () => {
    await program('echo "ran $*"');
    expect(await run(['init', 'host'])).toEqual({ isDone: true, output: 'ran init host\n' });
    expect([await leftUnits(), await readdir(join(directory, 'run'))]).toEqual([[], []]);
    expect(await copies()).toHaveLength(1);
  });

  it('that fails takes its copy away again', async () => {
    await program('echo no; exit 9');
    const { isDone, output } = await run(['init', 'host']);
    expect([isDone, output]).toEqual([false, expect.stringMatching(/^no\nsystemd: .* ended with exit-code \(9\)/)]);
    expect([await leftUnits(), await copies()]).toEqual([[], []]);
  });

  it('that fails leaves its copy where units start it by now', async () => {
    await program(`ln -s "$(dirname "$0")/kube-cert-recovery" ${copiedProgram(places())}; exit 1`);
    expect(await run(['init', 'host'])).toMatchObject({ isDone: false });
    expect(await copies()).toHaveLength(2);
  });

  it.each([
    ['is done where a run leaves something to an administrator', 5, true],
    ['is not done where a run fails', 1, false],
    ['is not done where a run does not begin', 203, false],
  ])('%s', async (_, code, isDone) => {
    await program('exit 0');
    await writeFile(join(systemd.units, serviceName), serviceOf(`/bin/sh -c "exit ${code}"`));
    const told = isDone ? '' : `systemd: ${serviceName} ended with exit-code (${code})`;
    expect(await run(['--log-level=debug', 'init', 'host'])).toEqual({ isDone, output: expect.stringContaining(told) });
    expect(await run(['uninstall', 'host'])).toEqual({ isDone: true, output: '' });
  });

  it('ends with its pod', async () => {
    const [began, ended] = [join(directory, 'began'), join(directory, 'ended')];
    await program(slowToEnd(began, ended));
    const pod = new AbortController();
    const running = run(['init', 'host'], pod.signal);
    const failing = expect(running).rejects.toThrow(/aborted/);
    await eventually(() => expect(existsSync(began)).toBe(true));
    pod.abort();
    await failing;
    expect([existsSync(ended), await leftUnits()]).toEqual([true, []]);
  });

  it('is not done where another pod has ended it', async () => {
    const [began, ended] = [join(directory, 'began'), join(directory, 'ended')];
    await program(slowToEnd(began, ended));
    const former = run(['init', 'host']);
    await eventually(() => expect(existsSync(began)).toBe(true));
    await program('exit 0');
    expect(await run(['init', 'host'])).toMatchObject({ isDone: true });
    expect(await former).toEqual({
      isDone: false,
      output: expect.stringMatching(/ended with (stopped|signal|exit-code) \(/),
    });
  });

  it('of a pod that was killed ends before that of the next one begins', async () => {
    const [began, ended] = [join(directory, 'began'), join(directory, 'ended')];
    const former = 'kube-cert-recovery-from-pod-former.service';
    await program(slowToEnd(began, ended));
    await writeFile(join(systemd.units, former), serviceOf(launcher()));
    const running = runUnit(former, { ...systemd, clock, signal: AbortSignal.timeout(20_000) }).catch(() => undefined);
    await eventually(() => expect(existsSync(began)).toBe(true));
    await program(`test -e ${ended}`);
    expect(await run(['uninstall', 'host'])).toMatchObject({ isDone: true });
    expect(await leftUnits()).toEqual([]);
    await running;
  });
});
