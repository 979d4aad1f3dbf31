// The private socket of a real systemd: the instance of a user, whose socket is the same.
import { readFile, stat, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { systemClock as clock } from '../../lib/clock.ts';
import { runUnit, stopUnit, unitPath } from '../../lib/host/systemd-bus.ts';
import { eventually } from '../support/eventually.ts';
import { slowToEnd, startUserSystemd, type UserSystemd } from '../support/user-systemd.ts';

let systemd: UserSystemd;
let root: string;
beforeAll(async () => {
  systemd = await startUserSystemd();
  ({ root } = systemd);
});
afterAll(() => systemd?.[Symbol.asyncDispose]());

const socketPath = (): string => systemd.socketPath;
const asking = (path = socketPath(), ms = 20_000) => ({ clock, signal: AbortSignal.timeout(ms), socketPath: path });
const ask = async (which: string, path?: string, ms?: number): Promise<string> => {
  const { result, exitCode } = await runUnit(which, asking(path, ms));
  await stopUnit(which, asking(path));
  return `${result} ${exitCode}`;
};
const unit = 'of-a-test.service';
const write = (command: string): Promise<void> =>
  writeFile(
    join(systemd.units, unit),
    `[Service]\nType=oneshot\nExecStart=${command}\nStandardOutput=file:${join(root, 'said')}\n`,
  );

describe('runUnit()', () => {
  it('runs a unit that was not there before, to its end', async () => {
    await write(`/bin/sh -c "sleep 0.5; echo said"`);
    expect([await ask(unit), await readFile(join(root, 'said'), 'utf8')]).toEqual(['success 0', 'said\n']);
  });

  it('starts another run after one that is under way', async () => {
    await write(`/bin/sh -c "echo began >> ${join(root, 'runs')}; sleep 0.5"`);
    await Promise.all([runUnit(unit, asking()), eventually(() => stat(join(root, 'runs'))).then(() => ask(unit))]);
    expect(await readFile(join(root, 'runs'), 'utf8')).toBe('began\nbegan\n');
  });

  it('tells of a unit that fails, also a second time, and after that of one that does not', async () => {
    await write('/bin/false');
    expect([await ask(unit), await ask(unit)]).toEqual(['exit-code 1', 'exit-code 1']);
    await write('/bin/true');
    expect(await ask(unit)).toBe('success 0');
  });

  it('says what systemd refuses, and where it is not', async () => {
    await expect(ask('no-such.service')).rejects.toMatchObject({
      code: 'PreconditionFailed',
      message: expect.stringMatching(/StartUnit: Unit no-such.service not found/),
    });
    await expect(ask(unit, join(root, 'nowhere'))).rejects.toMatchObject({
      code: 'PreconditionFailed',
      message: expect.stringMatching(/^Cannot have systemd of this machine start .*nowhere.*ENOENT/),
    });
  });

  it('is given up by its signal', async () => {
    await write('/bin/sleep 30');
    await expect(ask(unit, socketPath(), 1500)).rejects.toThrow('aborted');
    await stopUnit(unit, asking());
  });

  it('waits neither for a job without end nor for an answer that does not come', async () => {
    await write('/bin/sleep 30');
    const limits = { answerMs: 10_000, jobMs: 500 };
    await expect(runUnit(unit, { ...asking(), limits })).rejects.toThrow('its job has not ended within 500 ms');
    await stopUnit(unit, asking());
    const path = join(root, 'silent');
    const server = createServer(() => undefined).listen(path);
    const silent = runUnit(unit, { ...asking(path), limits: { ...limits, answerMs: 200 } });
    await expect(silent).rejects.toThrow('no answer within 200 ms');
    server.close();
  });
});

describe('stopUnit()', () => {
  it('waits until a command has ended', async () => {
    const [began, ended, script] = [join(root, 'began'), join(root, 'ended'), join(root, 'script')];
    await writeFile(script, slowToEnd(began, ended));
    await write(`/bin/sh ${script}`);
    const running = runUnit(unit, asking());
    await eventually(() => stat(began));
    await stopUnit(unit, asking());
    await stat(ended);
    await running.catch(() => undefined);
  });

  it('takes a unit that is none', async () => {
    await stopUnit('no-such.service', asking());
  });
});

it('unitPath() escapes as systemd does', () => {
  expect(unitPath('a-1.service')).toBe('/org/freedesktop/systemd1/unit/a_2d1_2eservice');
  expect(unitPath('1a.service')).toBe('/org/freedesktop/systemd1/unit/_31a_2eservice');
});
