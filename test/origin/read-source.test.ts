// What a source of `regen.sources` may do to the run that asks it: real programs and files.
import { chmod, chown, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../lib/clock.ts';
import { isRunning, startOf } from '../../lib/host/proc.ts';
import { readSource } from '../../lib/origin/read-source.ts';
import { createAuthority } from '../support/certificates/certificates.ts';
import { eventually } from '../support/eventually.ts';

let directory: string;
let pair: { readonly cert: string; readonly key: string };
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'read-source-'));
  pair = await createAuthority(join(directory, 'pair'), { commonName: 'client' });
});
afterEach(() => rm(directory, { recursive: true }));

const asking = (signal: AbortSignal) => ({
  clock: systemClock,
  signal,
  withSecrets: () => Promise.reject(new Error('no Secret is asked for')),
});
const patience = (): AbortSignal => AbortSignal.timeout(60_000);

async function command(script: string): Promise<{ command: [string] }> {
  const path = join(directory, 'command');
  await writeFile(path, `#!/bin/sh\nexport PATH=/usr/bin:/bin\n${script}\n`, { mode: 0o700 });
  return { command: [path] };
}

/** That which has written its number there has ended. */
async function hasEnded(): Promise<void> {
  const pid = Number(await readFile(join(directory, 'pid'), 'utf8'));
  await eventually(() => expect(isRunning({ pid, started: startOf(pid) ?? -1 })).toBe(false));
}

describe('a command', () => {
  it('that leaves a process in the background is waited for no longer, and that is ended', async () => {
    const source = await command(`sleep 600 & echo $! > ${directory}/pid\ncat ${pair.cert} ${pair.key}`);
    const { certificate, key } = await readSource(source, asking(patience()));
    expect(Buffer.from(certificate).toString()).toBe(await readFile(pair.cert, 'utf8'));
    expect(Buffer.from(key).toString()).toContain('PRIVATE KEY');
    await hasEnded();
  });

  it('that lets no signal end it is ended when its time is over, with what it has started', async () => {
    const over = new AbortController();
    const source = await command(`trap '' TERM INT HUP\necho $$ > ${directory}/pid\nwhile :; do sleep 1; done`);
    const answer = readSource(source, asking(over.signal)).catch(String);
    await eventually(async () => expect(await readFile(join(directory, 'pid'), 'utf8')).toMatch(/\d\n/));
    over.abort();
    expect(await answer).toContain('no answer in time');
    await hasEnded();
  });

  it('is ended with what has left its session and its parent', async () => {
    const daemon = `sleep 600 & echo $! > ${directory}/pid.new; mv ${directory}/pid.new ${directory}/pid`;
    const wait = `while [ ! -e ${directory}/pid ]; do sleep 0.1; done`;
    const source = await command(`setsid sh -c '(${daemon}) &' &\n${wait}\ncat ${pair.cert} ${pair.key}`);
    await readSource(source, asking(patience()));
    await hasEnded();
  });

  // Takes root; where that cannot be had it is skipped, except where CI=true.
  it
    .skipIf(process.getuid?.() !== 0 && process.env['CI'] !== 'true')
    .each<[string, (path: string) => Promise<unknown>]>([
      ['is writable by others', (path) => chmod(path, 0o777)],
      ['belongs to a user', (path) => chown(path, 4711, 4711)],
      ['lies in a directory of everybody', () => chmod(directory, 0o777)],
    ])('is not run as root where it %s', async (_, open) => {
    const source = await command(`touch ${directory}/run`);
    await open(source.command[0]);
    const answer = await readSource(source, asking(patience())).catch(String);
    expect(answer).toMatch(
      /^RecoveryError: Cannot use command ".*": root goes by it, and .* \(owner \d+:\d+, mode \d+\)/,
    );
    await expect(stat(join(directory, 'run'))).rejects.toThrow('ENOENT');
  });

  it.each([
    ['that fails', 'exit 3', 'exit 3'],
    ['that is killed', 'kill -9 $$', 'SIGKILL'],
    ['that prints too much', 'yes | head -c 3000000', 'prints more than 1048576 bytes'],
  ])('%s says so, and nothing of what it has printed', async (_, script, problem) => {
    const source = await command(`echo a secret; echo a secret >&2\n${script}`);
    const answer = await readSource(source, asking(patience())).catch(String);
    expect(answer).toContain(problem);
    expect(answer).toContain(`command "${source.command[0]}"`);
    expect(answer).not.toContain('secret');
  });

  it('that is not there says so', async () => {
    const answer = await readSource({ command: ['/nowhere/command'] }, asking(patience())).catch(String);
    expect(answer).toContain('Cannot use command "/nowhere/command": ENOENT');
  });
});

describe('two files', () => {
  it('that both hold certificate and key are read as a pair', async () => {
    const both = join(directory, 'both.pem');
    await writeFile(both, (await readFile(pair.key, 'utf8')) + (await readFile(pair.cert, 'utf8')));
    const { certificate, key } = await readSource({ pemPair: { certFile: both, keyFile: both } }, asking(patience()));
    expect(Buffer.from(certificate).toString()).toBe(await readFile(pair.cert, 'utf8'));
    expect(Buffer.from(key).toString()).not.toContain('CERTIFICATE');
  });

  it('that do not answer in time are left', async () => {
    const source = { pemPair: { certFile: pair.cert, keyFile: pair.key } };
    expect(await readSource(source, asking(AbortSignal.abort())).catch(String)).toContain('no answer in time');
  });
});
