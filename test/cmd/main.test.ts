import { spawnSync } from 'node:child_process';
import { chownSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { toYaml } from '../../lib/yaml.ts';

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

  it.runIf(process.getuid?.() === 0)('tells another user to be root, at once, and to remove nothing', () => {
    const directory = mkdtempSync(join(tmpdir(), 'main-'));
    const lockDir = join(directory, 'lock');
    mkdirSync(join(lockDir, 'restarts'), { recursive: true });
    chownSync(lockDir, 4712, 4712);
    const location = { pemPair: { certFile: join(directory, 'ca.crt'), keyFile: join(directory, 'ca.key') } };
    const artefacts = [{ kind: 'signer', name: 'ca', location, commonName: 'ca', validity: '90d', refresh: '30d' }];
    const head = { apiVersion: 'kube-cert-recovery/v1alpha1', kind: 'Configuration' };
    const settings = { ...head, inventory: { name: 'own', artefacts }, regen: { lockDir } };
    const config = join(directory, 'config.yaml');
    writeFileSync(config, toYaml(settings));
    // In a user namespace, where the program can still be read: what belongs to this user there belongs to 4711.
    const asOther = ['--user', '--map-user=4711', '--map-group=4711', process.execPath, main];
    const { status, stderr } = spawnSync('unshare', [...asOther, '--mode=regen', '--once', `--config=${config}`], {
      encoding: 'utf8',
      timeout: 30_000,
    });
    expect(readdirSync(lockDir)).toEqual(['restarts']);
    rmSync(directory, { recursive: true });
    const told = stderr.trim().split('\n');
    expect({ status, told }).toEqual({ status: 1, told: [expect.stringContaining('belong to user')] });
    expect(told[0]).toMatch(/Cannot repair this host as user 4711: .*; run it as root"/);
  });
});
