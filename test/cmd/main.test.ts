import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const main = fileURLToPath(new URL('../../cmd/main.ts', import.meta.url));

function start(...argv: readonly string[]): { status: number | null; stdout: string; stderr: string } {
  return spawnSync(process.execPath, [main, ...argv], { encoding: 'utf8', timeout: 30_000 });
}

describe('main', () => {
  it('ends with the exit code of the command', () => {
    expect(start('--version')).toMatchObject({ status: 0, stderr: '' });
    expect(start('--wrong')).toMatchObject({ status: 2, stdout: '' });
  });

  it('does not end well where its output could not be written', () => {
    const { status, stderr } = spawnSync('sh', ['-c', '"$0" "$1" --help >/dev/full', process.execPath, main], {
      encoding: 'utf8',
      timeout: 30_000,
    });
    expect({ status, stderr }).toEqual({
      status: 1,
      stderr: 'Cannot write to standard output: ENOSPC; what is there is not complete\n',
    });
  });

  it('imports nothing before it has looked at the version of Node', () => {
    expect(readFileSync(main, 'utf8')).not.toMatch(/^import /m);
  });

  it('tells an old Node what is needed', () => {
    // The version is what the process says it is: an older one is not at hand everywhere.
    const pretend = 'data:text/javascript,Object.defineProperty(process.versions,"node",{value:"20.20.2"})';
    const { status, stdout, stderr } = spawnSync(process.execPath, ['--import', pretend, main, '--version'], {
      encoding: 'utf8',
      timeout: 30_000,
    });
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' });
    expect(stderr).toMatch(/^Cannot run with Node 20\.20\.2: at least 24 is needed\. /);
  });
});
